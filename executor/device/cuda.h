/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHUNT_EXECUTOR_CUDA_H
#define SHUNT_EXECUTOR_CUDA_H

/**
 * Inside the CUDA device. The runtime library is not linked: it is looked for when a device is opened, so that
 * everything else runs where it is missing. The prototypes are those of NVIDIA's header.
 */

#include <cuda_runtime_api.h>

#include "device/device.h"

/** Functions that are used, one macro call each. cudaLibrary* came with CUDA 12.8. */
#define CUDA_FUNCTIONS(X)                                                                                              \
    X(cudaDeviceGetAttribute)                                                                                          \
    X(cudaDeviceGetDefaultMemPool)                                                                                     \
    X(cudaEventCreateWithFlags)                                                                                        \
    X(cudaEventDestroy)                                                                                                \
    X(cudaEventElapsedTime)                                                                                            \
    X(cudaEventQuery)                                                                                                  \
    X(cudaEventRecord)                                                                                                 \
    X(cudaFreeAsync)                                                                                                   \
    X(cudaFreeHost)                                                                                                    \
    X(cudaGetDeviceCount)                                                                                              \
    X(cudaGetErrorName)                                                                                                \
    X(cudaGetErrorString)                                                                                              \
    X(cudaGetLastError)                                                                                                \
    X(cudaHostAlloc)                                                                                                   \
    X(cudaHostRegister)                                                                                                \
    X(cudaHostUnregister)                                                                                              \
    X(cudaLaunchKernel)                                                                                                \
    X(cudaLibraryGetKernel)                                                                                            \
    X(cudaLibraryLoadData)                                                                                             \
    X(cudaLibraryUnload)                                                                                               \
    X(cudaMallocAsync)                                                                                                 \
    X(cudaMemGetInfo)                                                                                                  \
    X(cudaMemPoolSetAttribute)                                                                                         \
    X(cudaMemPoolTrimTo)                                                                                               \
    X(cudaMemcpyAsync)                                                                                                 \
    X(cudaMemsetAsync)                                                                                                 \
    X(cudaPointerGetAttributes)                                                                                        \
    X(cudaSetDevice)                                                                                                   \
    X(cudaStreamCreateWithFlags)                                                                                       \
    X(cudaStreamDestroy)                                                                                               \
    X(cudaStreamQuery)                                                                                                 \
    X(cudaStreamWaitEvent)

struct cuda_api {
    void *library;
#define X(name) __typeof__(&name) name;
    CUDA_FUNCTIONS(X)
#undef X
};

/** Loads the library on first use, and keeps it. @return SHUNT_ERR_IO when there is none, or one that is too old */
enum shunt_status cuda_api_get(const struct cuda_api **api_out, struct shunt_err *err);

struct cuda_device {
    struct shunt_device base;
    const struct cuda_api *api;
    cudaStream_t wire;
    cudaLibrary_t library;
    cudaKernel_t kernel;
    uint32_t processors;
    uint64_t free_bytes; /* when it was opened */
};

/** "cudaMalloc: out of memory (cudaErrorMemoryAllocation)"; out of memory is SHUNT_ERR_NOMEM. */
enum shunt_status cuda_fail(const struct cuda_device *cuda, const char *call, cudaError_t error, struct shunt_err *err);

/** Call a function of the runtime for this device, and fail with its text if it does. */
#define CUDA_CALL(cuda, err, name, ...)                                                                                \
    do {                                                                                                               \
        cudaError_t error_ = (cuda)->api->cudaSetDevice((int)(cuda)->base.ordinal);                                    \
        if (error_ != cudaSuccess)                                                                                     \
            return cuda_fail(cuda, "cudaSetDevice", error_, err);                                                      \
        error_ = (cuda)->api->name(__VA_ARGS__);                                                                       \
        if (error_ != cudaSuccess)                                                                                     \
            return cuda_fail(cuda, #name, error_, err);                                                                \
    } while (0)

/** The fat binary, in this library. */
extern const unsigned char cuda_kernel_blob[];

/* ---- cuda_program.c --------------------------------------------------------------- */

enum shunt_status cuda_program_create(struct shunt_device *device, struct device_stream *stream,
                                      const struct device_work *work, uint32_t count, uint32_t base_count,
                                      struct device_program **program_out, struct shunt_err *err);
void cuda_program_destroy(struct shunt_device *device, struct device_program *program);
uint64_t cuda_program_bytes(const struct device_program *program);
void cuda_program_bind(struct device_program *program, uint32_t base, void *address);
enum shunt_status cuda_program_run(struct shunt_device *device, struct device_program *program, uint32_t begin,
                                   uint32_t end, struct shunt_err *err);

#endif
