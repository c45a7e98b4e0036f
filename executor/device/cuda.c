/* SPDX-License-Identifier: Apache-2.0 */
/*
 * CUDA devices. Memory is the runtime's own pool, in stream order, so that a free waits for nothing and what it
 * gives back serves the next allocation; the pool keeps its pages until the device is closed. Host code never
 * waits here but in stream_finish().
 */
#include <inttypes.h>
#include <stdlib.h>

#include "base/clock.h"
#include "device/cuda.h"

static struct cuda_device *cuda_of(struct shunt_device *device)
{
    return (struct cuda_device *)device;
}

static cudaStream_t stream_of(struct device_stream *stream)
{
    return (cudaStream_t)stream;
}

static cudaEvent_t event_of(struct device_event *event)
{
    return (cudaEvent_t)event;
}

enum shunt_status cuda_fail(const struct cuda_device *cuda, const char *call, cudaError_t error, struct shunt_err *err)
{
    cuda->api->cudaGetLastError(); /* an error that is not sticky is not to be found again by the next call */
    return shunt_fail(err, error == cudaErrorMemoryAllocation ? SHUNT_ERR_NOMEM : SHUNT_ERR_IO, "%s: %s (%s)", call,
                      cuda->api->cudaGetErrorString(error), cuda->api->cudaGetErrorName(error));
}

/* ---- opening ------------------------------------------------------------------------- */

static enum shunt_status check_ordinal(const struct cuda_device *cuda, struct shunt_err *err)
{
    int count = 0;
    cudaError_t error = cuda->api->cudaGetDeviceCount(&count);
    if (error != cudaSuccess)
        return cuda_fail(cuda, "cudaGetDeviceCount", error, err);
    if (cuda->base.ordinal >= (uint32_t)count)
        return shunt_fail(err, SHUNT_ERR_USAGE, "device cuda:%u: there are %d CUDA devices", cuda->base.ordinal, count);
    return SHUNT_OK;
}

/* Freed memory stays with the pool, which gives it to the next allocation instead of to the system and back. */
static enum shunt_status keep_freed_memory(struct cuda_device *cuda, struct shunt_err *err)
{
    cudaMemPool_t pool;
    uint64_t all = UINT64_MAX;
    CUDA_CALL(cuda, err, cudaDeviceGetDefaultMemPool, &pool, (int)cuda->base.ordinal);
    CUDA_CALL(cuda, err, cudaMemPoolSetAttribute, pool, cudaMemPoolAttrReleaseThreshold, &all);
    return SHUNT_OK;
}

static void trim_memory(struct cuda_device *cuda)
{
    cudaMemPool_t pool;
    uint64_t none = 0;
    if (cuda->api->cudaDeviceGetDefaultMemPool(&pool, (int)cuda->base.ordinal) != cudaSuccess)
        return;
    cuda->api->cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &none);
    cuda->api->cudaMemPoolTrimTo(pool, 0);
}

static enum shunt_status load_kernel(struct cuda_device *cuda, struct shunt_err *err)
{
    int processors = 0;
    size_t now, total;
    CUDA_CALL(cuda, err, cudaLibraryLoadData, &cuda->library, cuda_kernel_blob, NULL, NULL, 0, NULL, NULL, 0);
    CUDA_CALL(cuda, err, cudaLibraryGetKernel, &cuda->kernel, cuda->library, "shunt_move");
    CUDA_CALL(cuda, err, cudaDeviceGetAttribute, &processors, cudaDevAttrMultiProcessorCount, (int)cuda->base.ordinal);
    cuda->processors = processors > 0 ? (uint32_t)processors : 1;
    CUDA_CALL(cuda, err, cudaMemGetInfo, &now, &total);
    cuda->free_bytes = now;
    return SHUNT_OK;
}

static enum shunt_status create_stream(struct cuda_device *cuda, cudaStream_t *stream_out, struct shunt_err *err)
{
    CUDA_CALL(cuda, err, cudaStreamCreateWithFlags, stream_out, cudaStreamNonBlocking);
    return SHUNT_OK;
}

static void cuda_close(struct shunt_device *device)
{
    struct cuda_device *cuda = cuda_of(device);
    if (cuda->wire != NULL)
        cuda->api->cudaStreamDestroy(cuda->wire);
    if (cuda->library != NULL)
        cuda->api->cudaLibraryUnload(cuda->library);
    trim_memory(cuda);
    free(cuda);
}

static enum shunt_status cuda_open(uint32_t ordinal, struct shunt_device **device_out, struct shunt_err *err)
{
    const struct cuda_api *api;
    struct shunt_err cause = {{0}};
    enum shunt_status st = cuda_api_get(&api, &cause);
    if (st != SHUNT_OK)
        return shunt_fail(err, st, "device cuda:%u: %s", ordinal, cause.text);
    struct cuda_device *cuda = calloc(1, sizeof(*cuda));
    if (cuda == NULL)
        return shunt_fail(err, SHUNT_ERR_NOMEM, "out of memory");
    *cuda = (struct cuda_device){.base = {.ops = &device_cuda, .ordinal = ordinal}, .api = api};
    st = check_ordinal(cuda, &cause);
    if (st != SHUNT_OK) {
        free(cuda);
        return st == SHUNT_ERR_USAGE ? shunt_fail(err, st, "%s", cause.text)
                                     : shunt_fail(err, st, "device cuda:%u: %s", ordinal, cause.text);
    }
    st = keep_freed_memory(cuda, &cause);
    if (st == SHUNT_OK)
        st = create_stream(cuda, &cuda->wire, &cause);
    if (st == SHUNT_OK)
        st = load_kernel(cuda, &cause);
    if (st != SHUNT_OK) {
        cuda_close(&cuda->base);
        return shunt_fail(err, st, "device cuda:%u: %s", ordinal, cause.text);
    }
    *device_out = &cuda->base;
    return SHUNT_OK;
}

/* ---- streams and events ---------------------------------------------------------------- */

static enum shunt_status cuda_stream_create(struct shunt_device *device, struct device_stream **stream_out,
                                            struct shunt_err *err)
{
    return create_stream(cuda_of(device), (cudaStream_t *)stream_out, err);
}

static void cuda_stream_destroy(struct shunt_device *device, struct device_stream *stream)
{
    struct cuda_device *cuda = cuda_of(device);
    if (stream == NULL)
        return;
    cuda->api->cudaSetDevice((int)device->ordinal);
    cuda->api->cudaStreamDestroy(stream_of(stream));
}

static struct device_stream *cuda_wire(struct shunt_device *device)
{
    return (struct device_stream *)cuda_of(device)->wire;
}

/* Polls: a wait inside the runtime could not be given up. */
static enum shunt_status cuda_stream_finish(struct shunt_device *device, struct device_stream *stream, double seconds,
                                            struct shunt_err *err)
{
    struct cuda_device *cuda = cuda_of(device);
    struct deadline deadline = deadline_after(seconds);
    if (stream == NULL)
        return SHUNT_OK;
    cuda->api->cudaSetDevice((int)device->ordinal);
    for (uint32_t turns = 0;; turns++) {
        cudaError_t error = cuda->api->cudaStreamQuery(stream_of(stream));
        if (error == cudaSuccess)
            return SHUNT_OK;
        if (error != cudaErrorNotReady)
            return cuda_fail(cuda, "cudaStreamQuery", error, err);
        if (deadline_passed(&deadline))
            return shunt_fail(err, SHUNT_ERR_TIMEOUT, "the device's work is not done after %g seconds", seconds);
        clock_rest(turns);
    }
}

static enum shunt_status cuda_event_create(struct shunt_device *device, bool timed, struct device_event **event_out,
                                           struct shunt_err *err)
{
    struct cuda_device *cuda = cuda_of(device);
    CUDA_CALL(cuda, err, cudaEventCreateWithFlags, (cudaEvent_t *)event_out,
              timed ? cudaEventDefault : cudaEventDisableTiming);
    return SHUNT_OK;
}

static void cuda_event_destroy(struct shunt_device *device, struct device_event *event)
{
    if (event != NULL)
        cuda_of(device)->api->cudaEventDestroy(event_of(event));
}

static enum shunt_status cuda_event_record(struct shunt_device *device, struct device_event *event,
                                           struct device_stream *stream, struct shunt_err *err)
{
    struct cuda_device *cuda = cuda_of(device);
    CUDA_CALL(cuda, err, cudaEventRecord, event_of(event), stream_of(stream));
    return SHUNT_OK;
}

static enum shunt_status cuda_event_join(struct shunt_device *device, struct device_event *event,
                                         struct device_stream *stream, struct shunt_err *err)
{
    struct cuda_device *cuda = cuda_of(device);
    CUDA_CALL(cuda, err, cudaStreamWaitEvent, stream_of(stream), event_of(event), 0);
    return SHUNT_OK;
}

static enum shunt_status cuda_event_poll(struct shunt_device *device, struct device_event *event, bool *done_out,
                                         struct shunt_err *err)
{
    struct cuda_device *cuda = cuda_of(device);
    cudaError_t error = cuda->api->cudaEventQuery(event_of(event));
    if (error != cudaSuccess && error != cudaErrorNotReady)
        return cuda_fail(cuda, "cudaEventQuery", error, err);
    *done_out = error == cudaSuccess;
    return SHUNT_OK;
}

static enum shunt_status cuda_event_seconds(struct shunt_device *device, struct device_event *from,
                                            struct device_event *to, double *seconds_out, struct shunt_err *err)
{
    struct cuda_device *cuda = cuda_of(device);
    float milliseconds = 0;
    CUDA_CALL(cuda, err, cudaEventElapsedTime, &milliseconds, event_of(from), event_of(to));
    *seconds_out = (double)milliseconds / 1e3;
    return SHUNT_OK;
}

/* ---- memory ------------------------------------------------------------------------------ */

static enum shunt_status cuda_alloc(struct shunt_device *device, struct device_stream *stream, uint64_t bytes,
                                    void **ptr_out, struct shunt_err *err)
{
    struct cuda_device *cuda = cuda_of(device);
    *ptr_out = NULL;
    if (bytes > 0)
        CUDA_CALL(cuda, err, cudaMallocAsync, ptr_out, bytes, stream_of(stream));
    return SHUNT_OK;
}

static void cuda_free(struct shunt_device *device, struct device_stream *stream, void *ptr, uint64_t bytes)
{
    struct cuda_device *cuda = cuda_of(device);
    (void)bytes;
    if (ptr == NULL)
        return;
    cuda->api->cudaSetDevice((int)device->ordinal);
    cuda->api->cudaFreeAsync(ptr, stream_of(stream));
}

/* The pool keeps what it has ever needed, so this is the most of it, in the pool's granules. */
static enum shunt_status cuda_taken(struct shunt_device *device, uint64_t *bytes_out, struct shunt_err *err)
{
    struct cuda_device *cuda = cuda_of(device);
    size_t now, total;
    CUDA_CALL(cuda, err, cudaMemGetInfo, &now, &total);
    *bytes_out = cuda->free_bytes > now ? cuda->free_bytes - now : 0;
    return SHUNT_OK;
}

static enum shunt_status cuda_alloc_host(struct shunt_device *device, uint64_t bytes, void **ptr_out,
                                         struct shunt_err *err)
{
    struct cuda_device *cuda = cuda_of(device);
    *ptr_out = NULL;
    if (bytes > 0)
        CUDA_CALL(cuda, err, cudaHostAlloc, ptr_out, bytes, cudaHostAllocPortable);
    return SHUNT_OK;
}

static void cuda_free_host(struct shunt_device *device, void *ptr, uint64_t bytes)
{
    (void)bytes;
    if (ptr != NULL)
        cuda_of(device)->api->cudaFreeHost(ptr);
}

static enum shunt_status cuda_lend_host(struct shunt_device *device, void *ptr, uint64_t bytes, bool *lent_out,
                                        struct shunt_err *err)
{
    struct cuda_device *cuda = cuda_of(device);
    struct cudaPointerAttributes attributes;
    *lent_out = false;
    if (bytes == 0)
        return SHUNT_OK;
    CUDA_CALL(cuda, err, cudaPointerGetAttributes, &attributes, ptr);
    if (attributes.type != cudaMemoryTypeUnregistered)
        return SHUNT_OK;
    CUDA_CALL(cuda, err, cudaHostRegister, ptr, bytes, cudaHostRegisterPortable);
    *lent_out = true;
    return SHUNT_OK;
}

static void cuda_return_host(struct shunt_device *device, void *ptr)
{
    cuda_of(device)->api->cudaHostUnregister(ptr);
}

static enum shunt_status cuda_copy(struct shunt_device *device, struct device_stream *stream, void *dst,
                                   const void *src, uint64_t bytes, struct shunt_err *err)
{
    struct cuda_device *cuda = cuda_of(device);
    if (bytes > 0)
        CUDA_CALL(cuda, err, cudaMemcpyAsync, dst, src, bytes, cudaMemcpyDefault, stream_of(stream));
    return SHUNT_OK;
}

static enum shunt_status cuda_fill(struct shunt_device *device, struct device_stream *stream, void *dst,
                                   unsigned char byte, uint64_t bytes, struct shunt_err *err)
{
    struct cuda_device *cuda = cuda_of(device);
    if (bytes > 0)
        CUDA_CALL(cuda, err, cudaMemsetAsync, dst, byte, bytes, stream_of(stream));
    return SHUNT_OK;
}

const struct device_ops device_cuda = {
    .name = "cuda",
    .asynchronous = true,
    .open = cuda_open,
    .close = cuda_close,
    .stream_create = cuda_stream_create,
    .stream_destroy = cuda_stream_destroy,
    .wire = cuda_wire,
    .stream_finish = cuda_stream_finish,
    .event_create = cuda_event_create,
    .event_destroy = cuda_event_destroy,
    .event_record = cuda_event_record,
    .event_join = cuda_event_join,
    .event_poll = cuda_event_poll,
    .event_seconds = cuda_event_seconds,
    .alloc = cuda_alloc,
    .free = cuda_free,
    .taken = cuda_taken,
    .alloc_host = cuda_alloc_host,
    .free_host = cuda_free_host,
    .lend_host = cuda_lend_host,
    .return_host = cuda_return_host,
    .copy = cuda_copy,
    .fill = cuda_fill,
    .program_create = cuda_program_create,
    .program_destroy = cuda_program_destroy,
    .program_bytes = cuda_program_bytes,
    .program_bind = cuda_program_bind,
    .program_run = cuda_program_run,
};
