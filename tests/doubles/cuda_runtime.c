/* SPDX-License-Identifier: Apache-2.0 */
/* The public API, as far as the executor and the double of NCCL use it. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cuda_internal.h"

#define FATBIN_MAGIC 0xBA55ED50u

static _Thread_local int current_device;

__attribute__((constructor)) static void start(void)
{
    memory_start();
    atexit(streams_join);
}

__attribute__((destructor)) static void stop(void)
{
    memory_print_stats();
}

static int device_count(void)
{
    const char *text = getenv("SHUNT_DOUBLE_DEVICES");
    int count = text == NULL ? 1 : atoi(text);
    return count > (int)DOUBLE_MAX_DEVICES ? (int)DOUBLE_MAX_DEVICES : count;
}

#define MAY_FAIL(call)                                                                                                 \
    if (double_must_fail(call))                                                                                        \
    return cudaErrorUnknown

/* ---- errors and devices -------------------------------------------------------------- */

static const struct {
    cudaError_t error;
    const char *name, *text;
} errors[] = {
    {cudaSuccess, "cudaSuccess", "no error"},
    {cudaErrorInvalidValue, "cudaErrorInvalidValue", "invalid argument"},
    {cudaErrorMemoryAllocation, "cudaErrorMemoryAllocation", "out of memory"},
    {cudaErrorInsufficientDriver, "cudaErrorInsufficientDriver",
     "CUDA driver version is insufficient for CUDA runtime version"},
    {cudaErrorNoDevice, "cudaErrorNoDevice", "no CUDA-capable device is detected"},
    {cudaErrorInvalidDevice, "cudaErrorInvalidDevice", "invalid device ordinal"},
    {cudaErrorNotReady, "cudaErrorNotReady", "device not ready"},
    {cudaErrorHostMemoryAlreadyRegistered, "cudaErrorHostMemoryAlreadyRegistered",
     "part or all of the requested memory range is already mapped"},
    {cudaErrorSymbolNotFound, "cudaErrorSymbolNotFound", "named symbol not found"},
    {cudaErrorUnknown, "cudaErrorUnknown", "unknown error"},
};

DOUBLE_EXPORT const char *cudaGetErrorName(cudaError_t error)
{
    for (size_t i = 0; i < sizeof(errors) / sizeof(errors[0]); i++) {
        if (errors[i].error == error)
            return errors[i].name;
    }
    return "unrecognized error code";
}

DOUBLE_EXPORT const char *cudaGetErrorString(cudaError_t error)
{
    for (size_t i = 0; i < sizeof(errors) / sizeof(errors[0]); i++) {
        if (errors[i].error == error)
            return errors[i].text;
    }
    return "unrecognized error code";
}

DOUBLE_EXPORT cudaError_t cudaGetLastError(void)
{
    return cudaSuccess;
}

DOUBLE_EXPORT cudaError_t cudaRuntimeGetVersion(int *version)
{
    *version = CUDART_VERSION;
    return cudaSuccess;
}

DOUBLE_EXPORT cudaError_t cudaDriverGetVersion(int *version)
{
    *version = device_count() == 0 ? 0 : CUDART_VERSION;
    return cudaSuccess;
}

DOUBLE_EXPORT cudaError_t cudaGetDeviceCount(int *count)
{
    MAY_FAIL("cudaGetDeviceCount");
    if (device_count() == 0)
        return cudaErrorInsufficientDriver;
    *count = device_count();
    return cudaSuccess;
}

DOUBLE_EXPORT cudaError_t cudaSetDevice(int device)
{
    MAY_FAIL("cudaSetDevice");
    if (device < 0 || device >= device_count())
        return cudaErrorInvalidDevice;
    current_device = device;
    return cudaSuccess;
}

DOUBLE_EXPORT cudaError_t cudaGetDevice(int *device)
{
    *device = current_device;
    return cudaSuccess;
}

DOUBLE_EXPORT cudaError_t cudaDeviceGetAttribute(int *value, enum cudaDeviceAttr attribute, int device)
{
    (void)device;
    switch (attribute) {
    case cudaDevAttrMultiProcessorCount:
        *value = 4;
        return cudaSuccess;
    case cudaDevAttrComputeCapabilityMajor:
        *value = 9;
        return cudaSuccess;
    case cudaDevAttrComputeCapabilityMinor:
        *value = 0;
        return cudaSuccess;
    case cudaDevAttrMemoryPoolsSupported:
        *value = 1;
        return cudaSuccess;
    default:
        return cudaErrorInvalidValue;
    }
}

DOUBLE_EXPORT cudaError_t cudaMemGetInfo(size_t *free_bytes, size_t *total_bytes)
{
    uint64_t left, total;
    double_lock();
    memory_get_info(current_device, &left, &total);
    double_unlock();
    *free_bytes = left;
    *total_bytes = total;
    return cudaSuccess;
}

/* ---- memory --------------------------------------------------------------------------- */

static cudaError_t allocate(const char *call, void **ptr, size_t bytes)
{
    *ptr = NULL;
    if (bytes == 0)
        return cudaSuccess;
    double_lock();
    uint64_t left, total;
    memory_get_info(current_device, &left, &total);
    *ptr = region_create(current_device, bytes);
    double_unlock();
    if (*ptr == NULL)
        double_note(call, "%zu bytes on device %d, of whose %" PRIu64 " bytes %" PRIu64 " are free: out of memory",
                    bytes, current_device, total, left);
    return *ptr != NULL ? cudaSuccess : cudaErrorMemoryAllocation;
}

DOUBLE_EXPORT cudaError_t cudaMalloc(void **ptr, size_t bytes)
{
    MAY_FAIL("cudaMalloc");
    return allocate("cudaMalloc", ptr, bytes);
}

static struct region *whole_region(const char *call, void *ptr)
{
    char text[160];
    struct region *region = region_find(ptr);
    region_describe(ptr, text, sizeof(text));
    if (region == NULL || region->kind != REGION_DEVICE || region->base != (uintptr_t)ptr || !region->live)
        double_fail(call, "frees %s", text);
    return region;
}

DOUBLE_EXPORT cudaError_t cudaFree(void *ptr)
{
    struct conflict conflict;
    MAY_FAIL("cudaFree");
    if (ptr == NULL)
        return cudaSuccess;
    double_lock();
    struct region *region = whole_region("cudaFree", ptr);
    touches_check_all(&region->touches, host_clock(), &conflict);
    if (conflict.found)
        double_fail("cudaFree", "frees %" PRIu64 " bytes that %s may still use: the host has not waited for it",
                    region->bytes, mark_call(conflict.other));
    region_uncount(region);
    region_unmap(region);
    double_unlock();
    return cudaSuccess;
}

static void check_stream(const char *call, cudaStream_t stream)
{
    int device = double_stream_device(stream);
    if (device < 0)
        double_fail(call, "uses %s",
                    stream == NULL ? "the default stream, which waits for all others" : "a stream that there is not");
    if (device != current_device)
        double_fail(call, "uses a stream of device %d while device %d is set", device, current_device);
}

static void begin_life(struct double_job *job, void *arg)
{
    struct region *region;
    double_lock();
    region = region_find(arg);
    struct run all = {0, region->bytes};
    job_touch(job, region, &all, 1, true, false);
    job->touched = 0; /* nothing is moved */
    double_unlock();
}

DOUBLE_EXPORT cudaError_t cudaMallocAsync(void **ptr, size_t bytes, cudaStream_t stream)
{
    MAY_FAIL("cudaMallocAsync");
    check_stream("cudaMallocAsync", stream);
    cudaError_t error = allocate("cudaMallocAsync", ptr, bytes);
    if (error == cudaSuccess && *ptr != NULL)
        double_enqueue(stream, "cudaMallocAsync", begin_life, *ptr);
    return error;
}

static void end_life(struct double_job *job, void *arg)
{
    struct conflict conflict;
    double_lock();
    struct region *region = whole_region("cudaFreeAsync", arg);
    touches_check_all(&region->touches, &job->done, &conflict);
    if (conflict.found)
        double_fail(job->call, "frees %" PRIu64 " bytes that %s of another stream may still use: no event orders them",
                    region->bytes, mark_call(conflict.other));
    region_unmap(region);
    double_unlock();
}

DOUBLE_EXPORT cudaError_t cudaFreeAsync(void *ptr, cudaStream_t stream)
{
    MAY_FAIL("cudaFreeAsync");
    if (ptr == NULL)
        return cudaSuccess;
    check_stream("cudaFreeAsync", stream);
    double_lock();
    struct region *region = whole_region("cudaFreeAsync", ptr);
    if (region->freeing)
        double_fail("cudaFreeAsync", "frees %p twice", ptr);
    region->freeing = true;
    region_uncount(region);
    double_unlock();
    double_enqueue(stream, "cudaFreeAsync", end_life, ptr);
    return cudaSuccess;
}

DOUBLE_EXPORT cudaError_t cudaDeviceGetDefaultMemPool(cudaMemPool_t *pool, int device)
{
    *pool = (cudaMemPool_t)(uintptr_t)(device + 1);
    return cudaSuccess;
}

DOUBLE_EXPORT cudaError_t cudaMemPoolSetAttribute(cudaMemPool_t pool, enum cudaMemPoolAttr attribute, void *value)
{
    (void)pool, (void)value;
    return attribute == cudaMemPoolAttrReleaseThreshold ? cudaSuccess : cudaErrorInvalidValue;
}

DOUBLE_EXPORT cudaError_t cudaMemPoolTrimTo(cudaMemPool_t pool, size_t bytes)
{
    (void)pool, (void)bytes;
    return cudaSuccess;
}

DOUBLE_EXPORT cudaError_t cudaHostAlloc(void **ptr, size_t bytes, unsigned flags)
{
    MAY_FAIL("cudaHostAlloc");
    (void)flags;
    if (posix_memalign(ptr, 4096, bytes == 0 ? 1 : bytes) != 0)
        return cudaErrorMemoryAllocation;
    memset(*ptr, 0xCD, bytes);
    double_lock();
    bool pinned = region_pin(*ptr, bytes == 0 ? 1 : bytes, REGION_PINNED);
    double_unlock();
    if (!pinned)
        double_fail("cudaHostAlloc", "memory that is registered already was freed without cudaHostUnregister");
    return cudaSuccess;
}

DOUBLE_EXPORT cudaError_t cudaFreeHost(void *ptr)
{
    MAY_FAIL("cudaFreeHost");
    if (ptr == NULL)
        return cudaSuccess;
    double_lock();
    region_unpin(ptr, REGION_PINNED, "cudaFreeHost");
    double_unlock();
    free(ptr);
    return cudaSuccess;
}

DOUBLE_EXPORT cudaError_t cudaHostRegister(void *ptr, size_t bytes, unsigned flags)
{
    MAY_FAIL("cudaHostRegister");
    (void)flags;
    if (ptr == NULL || bytes == 0)
        return cudaErrorInvalidValue;
    double_lock();
    bool pinned = region_pin(ptr, bytes, REGION_REGISTERED);
    double_unlock();
    return pinned ? cudaSuccess : cudaErrorHostMemoryAlreadyRegistered;
}

DOUBLE_EXPORT cudaError_t cudaHostUnregister(void *ptr)
{
    MAY_FAIL("cudaHostUnregister");
    double_lock();
    region_unpin(ptr, REGION_REGISTERED, "cudaHostUnregister");
    double_unlock();
    return cudaSuccess;
}

DOUBLE_EXPORT cudaError_t cudaPointerGetAttributes(struct cudaPointerAttributes *attributes, const void *ptr)
{
    memset(attributes, 0, sizeof(*attributes));
    double_lock();
    const struct region *region = region_find(ptr);
    attributes->type = cudaMemoryTypeUnregistered;
    attributes->device = -1;
    if (region != NULL && region->live) {
        attributes->type = region->kind == REGION_DEVICE ? cudaMemoryTypeDevice : cudaMemoryTypeHost;
        attributes->device = region->device;
        attributes->devicePointer = (void *)ptr;
        attributes->hostPointer = region->kind == REGION_DEVICE ? NULL : (void *)ptr;
    }
    double_unlock();
    return cudaSuccess;
}

struct copy {
    void *dst;
    const void *src;
    size_t bytes;
    int byte;
};

static struct copy *keep(struct copy copy)
{
    struct copy *kept = malloc(sizeof(*kept));
    if (kept == NULL)
        abort();
    *kept = copy;
    return kept;
}

static void run_copy(struct double_job *job, void *arg)
{
    struct copy *copy = arg;
    const void *from = double_read(job, copy->src, copy->bytes);
    memcpy(double_write(job, copy->dst, copy->bytes), from, copy->bytes);
    free(copy);
}

DOUBLE_EXPORT cudaError_t cudaMemcpyAsync(void *dst, const void *src, size_t bytes, enum cudaMemcpyKind kind,
                                          cudaStream_t stream)
{
    MAY_FAIL("cudaMemcpyAsync");
    (void)kind;
    check_stream("cudaMemcpyAsync", stream);
    if (bytes > 0)
        double_enqueue(stream, "cudaMemcpyAsync", run_copy, keep((struct copy){dst, src, bytes, 0}));
    return cudaSuccess;
}

static void run_set(struct double_job *job, void *arg)
{
    struct copy *set = arg;
    memset(double_write(job, set->dst, set->bytes), set->byte, set->bytes);
    free(set);
}

DOUBLE_EXPORT cudaError_t cudaMemsetAsync(void *dst, int byte, size_t bytes, cudaStream_t stream)
{
    MAY_FAIL("cudaMemsetAsync");
    check_stream("cudaMemsetAsync", stream);
    if (bytes > 0)
        double_enqueue(stream, "cudaMemsetAsync", run_set, keep((struct copy){dst, NULL, bytes, byte}));
    return cudaSuccess;
}

/* ---- streams and events ----------------------------------------------------------------- */

DOUBLE_EXPORT cudaError_t cudaStreamCreateWithFlags(cudaStream_t *stream, unsigned flags)
{
    MAY_FAIL("cudaStreamCreateWithFlags");
    if (flags != cudaStreamNonBlocking)
        double_fail("cudaStreamCreateWithFlags", "a stream that waits for the default stream");
    double_lock();
    *stream = stream_create(current_device);
    double_unlock();
    return *stream != NULL ? cudaSuccess : cudaErrorMemoryAllocation;
}

DOUBLE_EXPORT cudaError_t cudaStreamDestroy(cudaStream_t stream)
{
    check_stream("cudaStreamDestroy", stream);
    double_lock();
    stream_destroy(stream);
    double_unlock();
    return cudaSuccess;
}

DOUBLE_EXPORT cudaError_t cudaStreamQuery(cudaStream_t stream)
{
    MAY_FAIL("cudaStreamQuery");
    check_stream("cudaStreamQuery", stream);
    double_lock();
    bool idle = stream->finished == stream->number;
    if (idle)
        host_saw(&stream->done);
    double_unlock();
    return idle ? cudaSuccess : cudaErrorNotReady;
}

DOUBLE_EXPORT cudaError_t cudaStreamSynchronize(cudaStream_t stream)
{
    MAY_FAIL("cudaStreamSynchronize");
    check_stream("cudaStreamSynchronize", stream);
    double_lock();
    struct clock done = stream->done;
    host_wait((struct mark){stream->index, stream->number});
    host_saw(&done);
    double_unlock();
    return cudaSuccess;
}

DOUBLE_EXPORT cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned flags)
{
    MAY_FAIL("cudaStreamWaitEvent");
    (void)flags;
    check_stream("cudaStreamWaitEvent", stream);
    double_lock();
    stream_wait_event(stream, event);
    double_unlock();
    return cudaSuccess;
}

DOUBLE_EXPORT cudaError_t cudaEventCreateWithFlags(cudaEvent_t *event, unsigned flags)
{
    MAY_FAIL("cudaEventCreateWithFlags");
    *event = calloc(1, sizeof(**event));
    if (*event == NULL)
        return cudaErrorMemoryAllocation;
    (*event)->timed = (flags & cudaEventDisableTiming) == 0;
    return cudaSuccess;
}

DOUBLE_EXPORT cudaError_t cudaEventDestroy(cudaEvent_t event)
{
    double_lock();
    event_finish(event);
    double_unlock();
    free(event);
    return cudaSuccess;
}

DOUBLE_EXPORT cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream)
{
    MAY_FAIL("cudaEventRecord");
    check_stream("cudaEventRecord", stream);
    double_lock();
    event_record(event, stream);
    double_unlock();
    return cudaSuccess;
}

DOUBLE_EXPORT cudaError_t cudaEventQuery(cudaEvent_t event)
{
    MAY_FAIL("cudaEventQuery");
    double_lock();
    bool done = mark_done(event->mark);
    if (done)
        host_saw(&event->done);
    double_unlock();
    return done ? cudaSuccess : cudaErrorNotReady;
}

DOUBLE_EXPORT cudaError_t cudaEventSynchronize(cudaEvent_t event)
{
    MAY_FAIL("cudaEventSynchronize");
    double_lock();
    host_wait(event->mark);
    host_saw(&event->done);
    double_unlock();
    return cudaSuccess;
}

/* What the real one answers, too, when it is asked too early or for an event without time. */
DOUBLE_EXPORT cudaError_t cudaEventElapsedTime(float *ms, cudaEvent_t start, cudaEvent_t end)
{
    MAY_FAIL("cudaEventElapsedTime");
    double_lock();
    bool timed = start->stamp != NULL && end->stamp != NULL;
    bool done = timed && start->stamp->ns != 0 && end->stamp->ns != 0;
    if (done)
        *ms = (float)(end->stamp->ns - start->stamp->ns) / 1e6F;
    double_unlock();
    return done ? cudaSuccess : timed ? cudaErrorNotReady : cudaErrorInvalidResourceHandle;
}

/* ---- kernels ------------------------------------------------------------------------------ */

DOUBLE_EXPORT cudaError_t cudaLibraryLoadData(cudaLibrary_t *library, const void *code, enum cudaJitOption *jit_options,
                                              void **jit_values, unsigned jit_count,
                                              enum cudaLibraryOption *library_options, void **library_values,
                                              unsigned library_count)
{
    MAY_FAIL("cudaLibraryLoadData");
    (void)jit_options, (void)jit_values, (void)jit_count;
    (void)library_options, (void)library_values, (void)library_count;
    uint32_t magic;
    memcpy(&magic, code, sizeof(magic));
    if (magic != FATBIN_MAGIC)
        double_fail("cudaLibraryLoadData", "no fat binary: it begins with 0x%08x", magic);
    *library = (cudaLibrary_t)(uintptr_t)code;
    return cudaSuccess;
}

DOUBLE_EXPORT cudaError_t cudaLibraryUnload(cudaLibrary_t library)
{
    (void)library;
    return cudaSuccess;
}

DOUBLE_EXPORT cudaError_t cudaLibraryGetKernel(cudaKernel_t *kernel, cudaLibrary_t library, const char *name)
{
    MAY_FAIL("cudaLibraryGetKernel");
    (void)library;
    *kernel = (cudaKernel_t)(uintptr_t)kernel_find(name);
    return *kernel != NULL ? cudaSuccess : cudaErrorSymbolNotFound;
}

DOUBLE_EXPORT cudaError_t cudaLaunchKernel(const void *function, dim3 grid, dim3 block, void **args, size_t shared,
                                           cudaStream_t stream)
{
    MAY_FAIL("cudaLaunchKernel");
    (void)shared;
    check_stream("cudaLaunchKernel", stream);
    kernel_enqueue(function, grid, block, args, stream);
    return cudaSuccess;
}
