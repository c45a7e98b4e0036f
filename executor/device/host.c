/* SPDX-License-Identifier: Apache-2.0 */
/* Host memory. Work is done at once, in the order of the calls. Large blocks are mappings of their own, so that a free gives the pages back at once. */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "device/cast.h"
#include "device/copy.h"
#include "device/device.h"

#define HOST_ALIGN     64u
#define HOST_MAP_MIN   (UINT64_C(64) << 10)
#define HOST_MAX_BYTES (SIZE_MAX / 2)

static void *take(uint64_t bytes)
{
    void *ptr;
    if (bytes > HOST_MAX_BYTES)
        return NULL;
    if (bytes >= HOST_MAP_MIN) {
        ptr = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (ptr == MAP_FAILED)
            return NULL;
#ifdef MADV_POPULATE_WRITE
        /* all pages at once cost half of a fault each; where the kernel cannot, they come one by one */
        (void)madvise(ptr, bytes, MADV_POPULATE_WRITE);
#endif
        return ptr;
    }
    if (posix_memalign(&ptr, HOST_ALIGN, bytes == 0 ? 1 : bytes) != 0)
        return NULL;
    memset(ptr, 0, bytes);
    return ptr;
}

static enum shunt_status host_alloc_host(struct shunt_device *device, uint64_t bytes, void **ptr_out,
                                         struct shunt_err *err)
{
    (void)device;
    void *ptr = take(bytes);
    if (ptr == NULL)
        return shunt_fail(err, SHUNT_ERR_NOMEM, "out of memory");
    *ptr_out = ptr;
    return SHUNT_OK;
}

static void host_free_host(struct shunt_device *device, void *ptr, uint64_t bytes)
{
    (void)device;
    if (ptr == NULL)
        return;
    if (bytes >= HOST_MAP_MIN)
        munmap(ptr, bytes);
    else
        free(ptr);
}

static enum shunt_status host_alloc(struct shunt_device *device, struct device_stream *stream, uint64_t bytes,
                                    void **ptr_out, struct shunt_err *err)
{
    (void)stream;
    return host_alloc_host(device, bytes, ptr_out, err);
}

static void host_free(struct shunt_device *device, struct device_stream *stream, void *ptr, uint64_t bytes)
{
    (void)stream;
    host_free_host(device, ptr, bytes);
}

static enum shunt_status host_lend_host(struct shunt_device *device, void *ptr, uint64_t bytes, bool *lent_out,
                                        struct shunt_err *err)
{
    (void)device, (void)ptr, (void)bytes, (void)err;
    *lent_out = false;
    return SHUNT_OK;
}

static void host_return_host(struct shunt_device *device, void *ptr)
{
    (void)device, (void)ptr;
}

static enum shunt_status host_open(uint32_t ordinal, struct shunt_device **device_out, struct shunt_err *err)
{
    if (ordinal != 0)
        return shunt_fail(err, SHUNT_ERR_USAGE, "device host:%u: there is one host", ordinal);
    *device_out = device_of_host();
    return SHUNT_OK;
}

static void host_close(struct shunt_device *device)
{
    (void)device;
}

/* ---- streams and events, of which there are none ---------------------------------- */

static enum shunt_status host_stream_create(struct shunt_device *device, struct device_stream **stream_out,
                                            struct shunt_err *err)
{
    (void)device, (void)err;
    *stream_out = NULL;
    return SHUNT_OK;
}

static void host_stream_destroy(struct shunt_device *device, struct device_stream *stream)
{
    (void)device, (void)stream;
}

static struct device_stream *host_wire(struct shunt_device *device)
{
    (void)device;
    return NULL;
}

static enum shunt_status host_stream_finish(struct shunt_device *device, struct device_stream *stream, double seconds,
                                            struct shunt_err *err)
{
    (void)device, (void)stream, (void)seconds, (void)err;
    return SHUNT_OK;
}

static enum shunt_status host_event_create(struct shunt_device *device, bool timed, struct device_event **event_out,
                                           struct shunt_err *err)
{
    (void)device, (void)timed, (void)err;
    *event_out = NULL;
    return SHUNT_OK;
}

static void host_event_destroy(struct shunt_device *device, struct device_event *event)
{
    (void)device, (void)event;
}

static enum shunt_status host_event_use(struct shunt_device *device, struct device_event *event,
                                        struct device_stream *stream, struct shunt_err *err)
{
    (void)device, (void)event, (void)stream, (void)err;
    return SHUNT_OK;
}

static enum shunt_status host_event_poll(struct shunt_device *device, struct device_event *event, bool *done_out,
                                         struct shunt_err *err)
{
    (void)device, (void)event, (void)err;
    *done_out = true;
    return SHUNT_OK;
}

/* ---- work --------------------------------------------------------------------------- */

static enum shunt_status host_copy(struct shunt_device *device, struct device_stream *stream, void *dst,
                                   const void *src, uint64_t bytes, struct shunt_err *err)
{
    (void)device, (void)stream, (void)err;
    memcpy(dst, src, bytes);
    return SHUNT_OK;
}

static enum shunt_status host_fill(struct shunt_device *device, struct device_stream *stream, void *dst,
                                   unsigned char byte, uint64_t bytes, struct shunt_err *err)
{
    (void)device, (void)stream, (void)err;
    memset(dst, byte, bytes);
    return SHUNT_OK;
}

struct device_program {
    const struct device_work *work;
    char *bases[];
};

static enum shunt_status host_program_create(struct shunt_device *device, struct device_stream *stream,
                                             const struct device_work *work, uint32_t count, uint32_t base_count,
                                             struct device_program **program_out, struct shunt_err *err)
{
    (void)device, (void)stream, (void)count;
    struct device_program *program = calloc(1, sizeof(*program) + base_count * sizeof(char *));
    if (program == NULL)
        return shunt_fail(err, SHUNT_ERR_NOMEM, "out of memory for %u addresses", base_count);
    program->work = work;
    *program_out = program;
    return SHUNT_OK;
}

static void host_program_destroy(struct shunt_device *device, struct device_program *program)
{
    (void)device;
    free(program);
}

static uint64_t host_program_bytes(const struct device_program *program)
{
    (void)program;
    return 0;
}

static void host_program_bind(struct device_program *program, uint32_t base, void *address)
{
    program->bases[base] = address;
}

static void do_work(const struct device_program *program, const struct device_work *work)
{
    char *dst = program->bases[work->dst.base] + work->dst.offset;
    if (work->zero) {
        fill_box(dst, work->dst.view, 0);
        return;
    }
    const char *src = program->bases[work->src.base] + work->src.offset;
    if (work->cast != SHUNT_CAST_NONE)
        cast_box(dst, work->dst.view, src, work->src.view, work->cast);
    else
        copy_box(dst, work->dst.view, src, work->src.view);
}

static enum shunt_status host_program_run(struct shunt_device *device, struct device_program *program, uint32_t begin,
                                          uint32_t end, struct shunt_err *err)
{
    (void)device, (void)err;
    for (uint32_t i = begin; i < end; i++) {
        if (!program->work[i].skipped)
            do_work(program, &program->work[i]);
    }
    return SHUNT_OK;
}

const struct device_ops device_host = {
    .name = "host",
    .open = host_open,
    .close = host_close,
    .stream_create = host_stream_create,
    .stream_destroy = host_stream_destroy,
    .wire = host_wire,
    .stream_finish = host_stream_finish,
    .event_create = host_event_create,
    .event_destroy = host_event_destroy,
    .event_record = host_event_use,
    .event_join = host_event_use,
    .event_poll = host_event_poll,
    .alloc = host_alloc,
    .free = host_free,
    .alloc_host = host_alloc_host,
    .free_host = host_free_host,
    .lend_host = host_lend_host,
    .return_host = host_return_host,
    .copy = host_copy,
    .fill = host_fill,
    .program_create = host_program_create,
    .program_destroy = host_program_destroy,
    .program_bytes = host_program_bytes,
    .program_bind = host_program_bind,
    .program_run = host_program_run,
};

struct shunt_device *device_of_host(void)
{
    static struct shunt_device host = {.ops = &device_host};
    return &host;
}
