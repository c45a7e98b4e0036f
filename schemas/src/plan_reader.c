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

void schema_free_part(const struct shunt_plan *plan, const unsigned char *bytes)
{
    if (plan->image == NULL)
        free((void *)bytes);
}

static void forget_part(const struct shunt_plan *plan, uint32_t device)
{
    schema_free_part(plan, atomic_exchange_explicit(&plan->parts[device], NULL, memory_order_acq_rel));
}

void shunt_plan_close(struct shunt_plan *plan)
{
    if (plan == NULL)
        return;
    for (uint32_t d = 0; plan->parts != NULL && d < plan->header->device_count; d++)
        forget_part(plan, d);
    free((void *)plan->parts);
    if (plan->image == NULL)
        free((void *)plan->globals);
    if (plan->fd >= 0)
        close(plan->fd);
    free(plan->name);
    free(plan);
}

static struct shunt_plan *new_plan(const char *name, struct shunt_err *err)
{
    struct shunt_plan *plan = schema_alloc(1, sizeof(*plan));
    if (plan != NULL) {
        plan->fd = -1;
        plan->name = copy_name(name);
    }
    if (plan != NULL && plan->name != NULL)
        return plan;
    shunt_plan_close(plan);
    shunt_fail(err, SHUNT_ERR_NOMEM, "%s: out of memory", name);
    return NULL;
}

/* ---- files ---------------------------------------------------------------------- */

/* Exactly these bytes. The file had them when it was opened. */
static enum shunt_status read_at(const struct shunt_plan *plan, unsigned char *bytes, uint64_t size, uint64_t offset,
                                 struct shunt_err *err)
{
    while (size > 0) {
        ssize_t n = pread(plan->fd, bytes, size, (off_t)offset);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return shunt_fail(err, SHUNT_ERR_IO, "read \"%s\": %s", plan->name, strerror(errno));
        if (n == 0)
            return shunt_fail(err, SHUNT_ERR_PLAN, "%s: truncated at byte %" PRIu64 " while it was read", plan->name,
                              offset);
        bytes += n;
        offset += (uint64_t)n;
        size -= (uint64_t)n;
    }
    return SHUNT_OK;
}

/* Read up to `bytes` bytes of the start of the file, the first `have` of which are there and checked. */
static enum shunt_status read_globals(struct shunt_plan *plan, uint64_t have, uint64_t bytes, struct shunt_err *err)
{
    unsigned char *globals = schema_alloc(1, bytes);
    if (globals == NULL)
        return shunt_fail(err, SHUNT_ERR_NOMEM, "%s: out of memory", plan->name);
    if (have > 0)
        memcpy(globals, plan->globals, have);
    free((void *)plan->globals);
    plan->globals = globals;
    return read_at(plan, globals + have, bytes - have, have, err);
}

/* Sets fd and size of a regular file. */
static enum shunt_status open_file(struct shunt_plan *plan, struct shunt_err *err)
{
    struct stat info;
    /* O_NONBLOCK: a FIFO in the place of a plan must be refused, not waited for */
    plan->fd = open(plan->name, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (plan->fd < 0)
        return shunt_fail(err, SHUNT_ERR_IO, "open \"%s\": %s", plan->name, strerror(errno));
    if (fstat(plan->fd, &info) != 0)
        return shunt_fail(err, SHUNT_ERR_IO, "stat \"%s\": %s", plan->name, strerror(errno));
    if (!S_ISREG(info.st_mode))
        return shunt_fail(err, SHUNT_ERR_IO, "open \"%s\": not a regular file", plan->name);
    if (info.st_size < (off_t)sizeof(struct shunt_plan_header))
        return shunt_fail(err, SHUNT_ERR_PLAN, "%s: file is %" PRId64 " bytes, a header is %zu", plan->name,
                          (int64_t)info.st_size, sizeof(struct shunt_plan_header));
    plan->size = (uint64_t)info.st_size;
    return SHUNT_OK;
}

static enum shunt_status read_file(struct shunt_plan *plan, struct shunt_err *err)
{
    uint64_t head, bytes = 0;
    enum shunt_status st = open_file(plan, err);
    if (st != SHUNT_OK)
        return st;
    head = plan->size < SCHEMA_HEAD_BYTES ? plan->size : SCHEMA_HEAD_BYTES;
    st = read_globals(plan, 0, head, err);
    if (st == SHUNT_OK)
        st = schema_check_head(plan, &bytes, err);
    if (st == SHUNT_OK)
        st = read_globals(plan, head, bytes, err);
    return st == SHUNT_OK ? schema_check_globals(plan, err) : st;
}

enum shunt_status shunt_plan_open(const char *path, struct shunt_plan **plan_out, struct shunt_err *err)
{
    struct shunt_plan *plan = new_plan(path, err);
    if (plan == NULL)
        return SHUNT_ERR_NOMEM;
    enum shunt_status st = read_file(plan, err);
    if (st != SHUNT_OK) {
        shunt_plan_close(plan);
        return st;
    }
    *plan_out = plan;
    return SHUNT_OK;
}

/* ---- memory --------------------------------------------------------------------- */

enum shunt_status shunt_plan_open_memory(const void *bytes, size_t size, struct shunt_plan **plan_out,
                                         struct shunt_err *err)
{
    uint64_t head_bytes;
    if ((uintptr_t)bytes % 8 != 0)
        return shunt_fail(err, SHUNT_ERR_USAGE, "plan: bytes in memory are not 8-byte aligned");
    struct shunt_plan *plan = new_plan("plan", err);
    if (plan == NULL)
        return SHUNT_ERR_NOMEM;
    plan->image = plan->globals = bytes;
    plan->size = size;
    enum shunt_status st = schema_check_head(plan, &head_bytes, err);
    if (st == SHUNT_OK)
        st = schema_check_globals(plan, err);
    if (st != SHUNT_OK) {
        shunt_plan_close(plan);
        return st;
    }
    *plan_out = plan;
    return SHUNT_OK;
}

/* ---- what is read --------------------------------------------------------------- */

const struct shunt_plan_header *shunt_plan_get_header(const struct shunt_plan *plan)
{
    return plan->header;
}

const struct shunt_plan_summary *shunt_plan_get_summary(const struct shunt_plan *plan)
{
    return &plan->summary;
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

/* The last string, if it begins so; old plans have none, and other plans other last strings. */
const char *shunt_plan_explanation(const struct shunt_plan *plan)
{
    static const char head[] = "explain\n";
    uint64_t at = plan->string_bytes - 1;
    while (at > 0 && plan->strings[at - 1] != '\0')
        at--;
    return strncmp(&plan->strings[at], head, sizeof(head) - 1) == 0 ? &plan->strings[at] : NULL;
}

/* ---- parts ---------------------------------------------------------------------- */

/* The bytes of a part, unchecked. */
static enum shunt_status take_part(const struct shunt_plan *plan, uint32_t device, const unsigned char **bytes_out,
                                   struct shunt_err *err)
{
    const struct shunt_plan_device *record = &plan->devices[device];
    if (plan->image != NULL) {
        *bytes_out = plan->image + record->part_offset;
        return SHUNT_OK;
    }
    unsigned char *bytes = schema_alloc(1, record->part_bytes);
    if (bytes == NULL)
        return shunt_fail(err, SHUNT_ERR_NOMEM, "%s: out of memory for the part of device %" PRIu32, plan->name,
                          device);
    enum shunt_status st = read_at(plan, bytes, record->part_bytes, record->part_offset, err);
    if (st != SHUNT_OK) {
        free(bytes);
        return st;
    }
    *bytes_out = bytes;
    return SHUNT_OK;
}

enum shunt_status schema_read_part(const struct shunt_plan *plan, uint32_t device, struct shunt_plan_part *part_out,
                                   const unsigned char **bytes_out, struct shunt_err *err)
{
    const unsigned char *bytes = NULL;
    enum shunt_status st = take_part(plan, device, &bytes, err);
    if (st != SHUNT_OK)
        return st;
    if (plan->image != NULL && atomic_load_explicit(&plan->parts[device], memory_order_acquire) == bytes) {
        schema_part_layout(plan, bytes, part_out); /* it was checked where it is */
        *bytes_out = bytes;
        return SHUNT_OK;
    }
    st = schema_check_part(plan, device, bytes, part_out, err);
    if (st != SHUNT_OK) {
        schema_free_part(plan, bytes);
        return st;
    }
    if (plan->image != NULL)
        atomic_store_explicit(&plan->parts[device], bytes, memory_order_release);
    *bytes_out = bytes;
    return SHUNT_OK;
}

enum shunt_status shunt_plan_get_part(const struct shunt_plan *plan, uint32_t device, struct shunt_plan_part *part_out,
                                      struct shunt_err *err)
{
    struct shunt_plan_part part;
    if (device >= plan->header->device_count)
        return shunt_fail(err, SHUNT_ERR_USAGE, "%s: device %" PRIu32 " asked for, the plan has %" PRIu32, plan->name,
                          device, plan->header->device_count);
    const unsigned char *bytes = atomic_load_explicit(&plan->parts[device], memory_order_acquire);
    if (bytes != NULL) {
        schema_part_layout(plan, bytes, part_out);
        return SHUNT_OK;
    }
    enum shunt_status st = schema_read_part(plan, device, &part, &bytes, err);
    if (st != SHUNT_OK)
        return st;
    const unsigned char *other = NULL;
    if (!atomic_compare_exchange_strong(&plan->parts[device], &other, bytes)) { /* another thread was faster */
        schema_free_part(plan, bytes);
        schema_part_layout(plan, other, &part);
    }
    *part_out = part;
    return SHUNT_OK;
}

void shunt_plan_drop_part(const struct shunt_plan *plan, uint32_t device)
{
    if (device < plan->header->device_count)
        forget_part(plan, device);
}
