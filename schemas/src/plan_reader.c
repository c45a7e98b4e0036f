/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Opening, closing and reading an opened plan. The checks are in plan_globals.c and
 * plan_part.c; nothing here looks at a field that they have not passed.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "alloc.h"
#include "plan_internal.h"

static char *copy_name(const char *name)
{
    size_t size = strlen(name) + 1;
    char *copy = schema_alloc(size, 1);
    if (copy != NULL)
        memcpy(copy, name, size);
    return copy;
}

void shunt_plan_close(struct shunt_plan *plan)
{
    if (plan == NULL)
        return;
    if (plan->mapped)
        munmap((void *)plan->bytes, plan->size);
    free(plan->part_checked);
    free(plan->name);
    free(plan);
}

/* Takes the mapping over, also on failure. */
static enum shunt_status open_bytes(const char *name, const void *bytes, uint64_t size, bool mapped,
                                    struct shunt_plan **plan_out, struct shunt_err *err)
{
    struct shunt_plan *plan = schema_alloc(1, sizeof(*plan));
    if (plan == NULL) {
        if (mapped)
            munmap((void *)bytes, size);
        return shunt_fail(err, SHUNT_ERR_NOMEM, "%s: out of memory", name);
    }
    plan->bytes = bytes;
    plan->size = size;
    plan->mapped = mapped;
    plan->name = copy_name(name);
    enum shunt_status st = SHUNT_ERR_NOMEM;
    if (plan->name == NULL)
        shunt_fail(err, st, "%s: out of memory", name);
    else
        st = schema_check_globals(plan, err);
    if (st != SHUNT_OK) {
        shunt_plan_close(plan);
        return st;
    }
    *plan_out = plan;
    return SHUNT_OK;
}

/* Sets size_out and bytes_out (NULL for an empty file) of a regular file. */
static enum shunt_status map_file(const char *path, int fd, void **bytes_out, uint64_t *size_out, struct shunt_err *err)
{
    struct stat info;
    if (fstat(fd, &info) != 0)
        return shunt_fail(err, SHUNT_ERR_IO, "stat \"%s\": %s", path, strerror(errno));
    if (!S_ISREG(info.st_mode))
        return shunt_fail(err, SHUNT_ERR_IO, "open \"%s\": not a regular file", path);
    if (info.st_size < (off_t)sizeof(struct shunt_plan_header))
        return shunt_fail(err, SHUNT_ERR_PLAN, "%s: file is %" PRId64 " bytes, a header is %zu", path,
                          (int64_t)info.st_size, sizeof(struct shunt_plan_header));
    void *bytes = mmap(NULL, (size_t)info.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
    if (bytes == MAP_FAILED)
        return shunt_fail(err, SHUNT_ERR_IO, "map \"%s\": %s", path, strerror(errno));
    *bytes_out = bytes;
    *size_out = (uint64_t)info.st_size;
    return SHUNT_OK;
}

enum shunt_status shunt_plan_open(const char *path, struct shunt_plan **plan_out, struct shunt_err *err)
{
    /* O_NONBLOCK: a FIFO in the place of a plan must be refused, not waited for */
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return shunt_fail(err, SHUNT_ERR_IO, "open \"%s\": %s", path, strerror(errno));
    void *bytes = NULL;
    uint64_t size = 0;
    enum shunt_status st = map_file(path, fd, &bytes, &size, err);
    close(fd);
    if (st != SHUNT_OK)
        return st;
    return open_bytes(path, bytes, size, true, plan_out, err);
}

enum shunt_status shunt_plan_open_memory(const void *bytes, size_t size, struct shunt_plan **plan_out,
                                         struct shunt_err *err)
{
    if ((uintptr_t)bytes % 8 != 0)
        return shunt_fail(err, SHUNT_ERR_USAGE, "plan: bytes in memory are not 8-byte aligned");
    return open_bytes("plan", bytes, size, false, plan_out, err);
}

const struct shunt_plan_header *shunt_plan_get_header(const struct shunt_plan *plan)
{
    return plan->header;
}

const struct shunt_plan_summary *shunt_plan_get_summary(const struct shunt_plan *plan)
{
    return plan->summary;
}

uint32_t shunt_plan_tensor_count(const struct shunt_plan *plan)
{
    return (uint32_t)plan->tensor_count;
}

const struct shunt_plan_tensor *shunt_plan_get_tensor(const struct shunt_plan *plan, uint32_t index)
{
    return &plan->tensors[index];
}

const int64_t *shunt_plan_tensor_dims(const struct shunt_plan *plan, uint32_t index)
{
    return &plan->dims[plan->tensors[index].dims];
}

const struct shunt_plan_device *shunt_plan_get_device(const struct shunt_plan *plan, uint32_t index)
{
    return &plan->devices[index];
}

const char *shunt_plan_string(const struct shunt_plan *plan, uint32_t offset)
{
    return offset < plan->string_bytes ? &plan->strings[offset] : "";
}

enum shunt_status shunt_plan_get_part(const struct shunt_plan *plan, uint32_t device, struct shunt_plan_part *part_out,
                                      struct shunt_err *err)
{
    if (device >= plan->header->device_count)
        return shunt_fail(err, SHUNT_ERR_USAGE, "%s: device %" PRIu32 " asked for, the plan has %" PRIu32, plan->name,
                          device, plan->header->device_count);
    if (atomic_load_explicit(&plan->part_checked[device], memory_order_relaxed)) {
        schema_part_layout(plan, device, part_out);
        return SHUNT_OK;
    }
    struct shunt_plan_part part;
    enum shunt_status st = schema_check_part(plan, device, &part, err);
    if (st != SHUNT_OK)
        return st;
    atomic_store_explicit(&plan->part_checked[device], 1, memory_order_relaxed);
    *part_out = part;
    return SHUNT_OK;
}
