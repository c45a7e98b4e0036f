/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHUNT_TESTS_CUDA_INTERNAL_H
#define SHUNT_TESTS_CUDA_INTERNAL_H

/** Inside the double of the CUDA Runtime. Everything below is guarded by double_lock() unless it says otherwise. */

#include <pthread.h>
#include <stdatomic.h>

#include "cuda_double.h"

#define DOUBLE_MAX_STREAMS 256u
#define DOUBLE_MAX_DEVICES 8u
#define DOUBLE_ALIGN       512u

/* ---- order (cuda_order.c) --------------------------------------------------------- */

/** What is known to be done: of each stream, its jobs up to this number. */
struct clock {
    uint32_t at[DOUBLE_MAX_STREAMS];
};

/** One job of one stream; number 0 is none. */
struct mark {
    uint32_t stream, number;
};

#define DOUBLE_MAX_READERS 6u

/** Bytes [lo, hi) of a region, and who touched them last. Readers that a later reader waited for are forgotten. */
struct touch {
    uint64_t lo, hi;
    struct mark writer;
    uint32_t reader_count;
    struct mark readers[DOUBLE_MAX_READERS];
};

struct touches {
    struct touch *list; /* sorted, disjoint */
    size_t count, room;
};

/** Bytes [lo, hi) of a region, touched by a job. */
struct run {
    uint64_t lo, hi;
};

/** Every stream's jobs up to those of `other` are done too. */
void clock_join(struct clock *clock, const struct clock *other);

/** Who touched something before and is not known to be done; the call of a job is kept for this. */
struct conflict {
    struct mark other;
    bool found, other_writes;
    uint64_t lo, hi;
};

/** Note sorted, disjoint runs of a job. With `alone`, touching what the same job has touched is a conflict too. */
void touches_add(struct touches *touches, const struct run *runs, size_t count, bool write, struct mark self,
                 const struct clock *done, bool alone, struct conflict *conflict_out);
/** Anybody who is not known to be done. */
void touches_check_all(const struct touches *touches, const struct clock *done, struct conflict *conflict_out);
void touches_finish(struct touches *touches);

/* ---- memory (cuda_memory.c) ------------------------------------------------------- */

enum region_kind { REGION_DEVICE = 0, REGION_PINNED, REGION_REGISTERED };

struct region {
    uintptr_t base; /* what the program sees */
    uint64_t bytes;
    char *home; /* where the bytes lie */
    int device; /* -1: host memory */
    uint8_t kind;
    bool live, freeing; /* freeing: a job that ends its life is in some stream */
    struct touches touches;
};

void *region_create(int device, size_t bytes); /* NULL: beyond the cap */
/** Counted as free; region_unmap() takes the bytes away. */
void region_uncount(struct region *region);
void region_unmap(struct region *region);
bool region_pin(void *host, size_t bytes, enum region_kind kind);
void region_unpin(void *host, enum region_kind kind, const char *call);
/** The region, live or not, that an address lies in; NULL. */
struct region *region_find(const void *ptr);
/** "byte 16 of 64 at 0x...", or what else it is. Needs no lock. */
void region_describe(const void *ptr, char *text, size_t size);
void memory_get_info(int device, uint64_t *free_out, uint64_t *total_out);
void memory_print_stats(void);
void memory_start(void); /* fault handler */

/* ---- streams (cuda_stream.c) ------------------------------------------------------- */

struct double_job {
    struct double_job *next;
    const char *call;
    double_job_fn run;
    void *arg;
    struct CUstream_st *stream;
    uint32_t number;
    uint64_t touched;  /* bytes read and written so far */
    struct clock done; /* before this job */
};

struct CUstream_st {
    uint32_t index;
    int device;
    pthread_t thread;
    bool started, closing;
    pthread_cond_t wake;
    struct double_job *first, **last;
    uint32_t number;    /* of the last job enqueued */
    uint32_t finished;  /* of the last job done */
    struct clock done;  /* before the next job */
    const char **calls; /* of all jobs, by number */
    uint32_t call_room;
};

/** When the job of a timed event ran; the event's, and the job's until it has. */
struct stamp {
    uint32_t owners;
    int64_t ns; /* 0: it has not */
};

struct CUevent_st {
    struct mark mark; /* number 0: never recorded */
    struct clock done;
    bool timed;
    struct stamp *stamp; /* of the last record */
};

void double_lock(void);
void double_unlock(void);

cudaStream_t stream_create(int device); /* NULL: too many */
void stream_destroy(cudaStream_t stream);
void streams_join(void);
/** The job's number. */
uint32_t stream_enqueue_locked(cudaStream_t stream, const char *call, double_job_fn run, void *arg);
void stream_wait_event(cudaStream_t stream, cudaEvent_t event);
void event_record(cudaEvent_t event, cudaStream_t stream);
void event_finish(cudaEvent_t event);
bool mark_done(struct mark mark);
/** The calling thread has seen that this is done. */
void host_saw(const struct clock *done);
const struct clock *host_clock(void);
void host_wait(struct mark mark);
const char *mark_call(struct mark mark);

/** Checks sorted, disjoint runs of a region for a job, notes them, and says where the bytes lie. */
void job_touch(struct double_job *job, struct region *region, const struct run *runs, size_t count, bool write,
               bool alone);

/* ---- kernels (cuda_kernels.c) ------------------------------------------------------ */

struct kernel_call;
/** NULL: no such kernel. */
const void *kernel_find(const char *name);
uint64_t kernel_launches(void);
/** Copies the arguments. */
void kernel_enqueue(const void *kernel, dim3 grid, dim3 block, void **args, cudaStream_t stream);

#endif
