/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHUNT_TESTS_CUDA_DOUBLE_H
#define SHUNT_TESTS_CUDA_DOUBLE_H

/**
 * What the double of the CUDA Runtime offers to other doubles (NCCL's): a library that links the double of
 * libcudart, and not to programs under test, which see the public API only.
 *
 * Memory. A device pointer is an address that the process cannot touch: the bytes lie elsewhere, and
 * double_read() or double_write(), called from inside a job, say where. Both check that all of the range lies
 * in one live allocation (or in pinned host memory) and that whatever other jobs did there is ordered before
 * this job by streams, events and what the host has waited for. A range that fails is reported, and the
 * process ends with DOUBLE_EXIT: there is no return value to check.
 *
 * Streams. Each has a thread that runs its jobs in order. double_enqueue() puts a job behind those already
 * there. What happens before a job is settled when it is enqueued, as it is with the real runtime: earlier
 * work of the stream, what the stream was told to wait for, and all that the enqueuing thread has itself
 * waited for. So a missing event is found in every run, whatever the timing.
 *
 *     static void copy(struct double_job *job, void *arg)
 *     {
 *         struct copy *c = arg;
 *         memcpy(double_write(job, c->dst, c->bytes), double_read(job, c->src, c->bytes), c->bytes);
 *         free(c);
 *     }
 *     double_enqueue(stream, "ncclSend", copy, c);
 *
 * Reports. double_fail() writes "cuda double: rank R: CALL: text" to stderr, appends it to the file named by
 * SHUNT_DOUBLE_REPORT, and ends the process with DOUBLE_EXIT.
 *
 * Environment, read once:
 *     SHUNT_RANK                 rank in reports; else RANK, OMPI_COMM_WORLD_RANK, PMI_RANK; else 0
 *     SHUNT_DOUBLE_DEVICES       devices of the process, 1 by default, 0 for a machine without a GPU
 *     SHUNT_DOUBLE_MEMORY        bytes of memory of each device, 16 GiB by default; cudaMalloc beyond it fails
 *     SHUNT_DOUBLE_REPORT        file that reports are appended to
 *     SHUNT_DOUBLE_STATS         file that a line of JSON is appended to when the process ends
 *     SHUNT_DOUBLE_LOG           file that "begin STREAM CALL" and "end STREAM CALL" of every job are appended to, in their
 *                                order; streams are numbered as they are made
 *     SHUNT_DOUBLE_FAIL          "CALL:N": the N-th call of CALL (from 1) fails, with cudaErrorUnknown
 *     SHUNT_DOUBLE_RATE          bytes a second that each stream reads and writes at most: a job lasts as long as its bytes
 *                                take, so that what overlaps on a GPU overlaps in time; without it jobs take what they take
 *     SHUNT_DOUBLE_JITTER        seed: jobs start late by up to a millisecond, to shake the order of streams
 */

#include <cuda_runtime_api.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define DOUBLE_EXIT   97
#define DOUBLE_EXPORT __attribute__((visibility("default")))

struct double_job;
typedef void (*double_job_fn)(struct double_job *job, void *arg);

/** Behind what the stream has; `call` is a literal, for reports. The stream must be the caller's own, not NULL. */
DOUBLE_EXPORT void double_enqueue(cudaStream_t stream, const char *call, double_job_fn run, void *arg);

/** Where the bytes at a device (or pinned host) address lie, for reading, and for writing. Bytes may be 0. */
DOUBLE_EXPORT const void *double_read(struct double_job *job, const void *device_ptr, size_t bytes);
DOUBLE_EXPORT void *double_write(struct double_job *job, void *device_ptr, size_t bytes);

/** The device that a stream, or an allocation, belongs to; -1 if it is none. */
DOUBLE_EXPORT int double_stream_device(cudaStream_t stream);
DOUBLE_EXPORT int double_pointer_device(const void *ptr);

/** The stream's jobs so far are done; true without a job too. Does not count as waiting. */
DOUBLE_EXPORT bool double_stream_idle(cudaStream_t stream);

/** How many jobs the stream has been given. */
DOUBLE_EXPORT uint32_t double_stream_jobs(cudaStream_t stream);

/** Memory of a device taken and given back by the double itself, such as connection buffers of NCCL. */
DOUBLE_EXPORT bool double_take_memory(int device, size_t bytes);
DOUBLE_EXPORT void double_give_memory(int device, size_t bytes);

/** Report and end the process. `where` is a call, or NULL; inside a job the job's own call is meant. */
DOUBLE_EXPORT __attribute__((noreturn, format(printf, 2, 3))) void double_fail(const char *where, const char *format,
                                                                               ...);
/** Report only. */
DOUBLE_EXPORT __attribute__((format(printf, 2, 3))) void double_note(const char *where, const char *format, ...);
DOUBLE_EXPORT int double_rank(void);

/** SHUNT_DOUBLE_FAIL names this call, and this is the time. */
DOUBLE_EXPORT bool double_must_fail(const char *call);

#endif
