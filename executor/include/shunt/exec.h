/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHUNT_EXEC_H
#define SHUNT_EXEC_H

/**
 * Lean executor: replays a plan over buffers that the caller owns.
 *
 *     open -> verify (or trust) -> bind -> run -> done -> close
 *
 * A `struct shunt_exec` is one device's replay of one plan; a `struct shunt_world` is the
 * processes (or, with loopback, the devices of this process) that replay it together. A world
 * outlives plans: a chain of plans runs over one world.
 *
 * Errors: functions return enum shunt_status and write the text to err (which may be NULL).
 * Calling a function in another state than the one named is SHUNT_ERR_USAGE and changes nothing.
 * Units: sizes are bytes, times are seconds.
 * Thread rules: an object is used by one thread at a time; different worlds, with their execs,
 * may be used by different threads. Callbacks run in the thread that called shunt_exec_run().
 */

#include "shunt/plan.h"

#ifdef __cplusplus
extern "C" {
#endif

#define SHUNT_EXEC_VERSION "0.1.0"

struct shunt_exec;
struct shunt_world;
struct shunt_device;

enum shunt_exec_state {
    SHUNT_EXEC_OPENED = 0, /* the device's part is checked */
    SHUNT_EXEC_VERIFIED,   /* the whole plan is proved, or the caller vouches for it */
    SHUNT_EXEC_BOUND,      /* every old-side buffer has memory */
    SHUNT_EXEC_RUNNING,
    SHUNT_EXEC_DONE,   /* the new side is complete */
    SHUNT_EXEC_FAILED, /* a run broke off: the new side is incomplete */
};

/**
 * Caller's memory. All three may be NULL.
 *
 * alloc    gives `bytes` bytes, 64-byte aligned, for the new-side buffer `name` ("STATE/TENSOR") at
 *          the plan's alloc event; NULL ends the run with SHUNT_ERR_NOMEM. The memory stays the
 *          caller's. Without it the executor allocates, and frees at close.
 * release  says that the old-side buffer `name` is not read again and may be freed.
 *
 * On a device with streams, and with `stream_ordered`, both are in the order of the exec's stream: memory from
 * alloc() need be there for what the stream does next, and after release() what the stream still has to do
 * may use the memory. Without it memory is there at once, and the executor waits before it calls release().
 */
struct shunt_exec_memory {
    void *ctx;
    void *(*alloc)(void *ctx, const char *name, uint64_t bytes);
    void (*release)(void *ctx, const char *name, void *ptr, uint64_t bytes);
    uint32_t stream_ordered; /* not 0: see above */
};

/** Called after each round that this device has finished. */
struct shunt_exec_progress {
    void *ctx;
    void (*round_done)(void *ctx, uint32_t device, uint32_t round, uint32_t round_count);
};

struct shunt_exec_config {
    const char *plan_path;         /* plan file; or NULL, and */
    const struct shunt_plan *plan; /* an open plan, which must outlive the exec */
    uint32_t device;               /* index in the plan's device table */
    struct shunt_device *on;       /* where buffers are; NULL: in host memory. Outlives the exec */
    uint32_t track_writes;         /* not 0: remember which elements were written and poison the rest (slower) */
    struct shunt_exec_memory memory;
    struct shunt_exec_progress progress;
    const char *journal_path; /* NULL, or the file to keep a journal in: see shunt_exec_read_journal() */
    uint32_t checksum; /* not 0: an end-to-end checksum of every piece that moves between devices; all or no device */
    void *stream;      /* a cudaStream_t of the caller's to work on, which outlives the exec; NULL: one of its own */
    uint32_t round_figures; /* not 0: keep figures of every round, for shunt_exec_get_rounds() */
};

/** One buffer of the plan's table, as it stands now. */
struct shunt_exec_buffer {
    const char *name; /* "STATE/TENSOR", of scratch "scratch:INDEX"; lives as long as the exec */
    uint8_t state;    /* enum shunt_state */
    uint8_t dtype;    /* enum shunt_dtype */
    uint8_t side;     /* enum shunt_plan_side */
    uint8_t tier;     /* enum shunt_plan_tier */
    uint32_t ndim;
    int64_t shape[SHUNT_MAX_DIMS]; /* local shape in elements, pads included */
    uint64_t bytes;
    void *data; /* NULL while it has no memory */
};

struct shunt_exec_stats {
    uint32_t device;
    uint32_t rounds;
    uint64_t sent_bytes, received_bytes;           /* payload that crossed between devices */
    uint64_t wire_sent_bytes, wire_received_bytes; /* the same with message padding */
    uint64_t copied_bytes, filled_bytes;           /* on the device */
    uint64_t peak_bytes;      /* most bytes live at once: old, new (in device memory) and staging buffers */
    uint64_t plan_peak_bytes; /* the plan's promise; includes transport and reserve */
    uint64_t host_peak_bytes; /* most bytes live at once of scratch buffers in host memory */
    uint64_t table_bytes;     /* device memory that the device's own tables take, beside the plan's */
    /* how much less memory the device has free than when it was opened, whoever took it; 0 in host memory */
    uint64_t device_taken_bytes;
    double seconds;             /* from the common start to this device's last free */
    uint64_t checksummed_bytes; /* received pieces whose checksums were compared, and agreed */
    double checksum_seconds;    /* spent on taking checksums, both ways */
};

/**
 * What one round was for one device. Bytes summed over the rounds are those of struct shunt_exec_stats.
 *
 * Seconds are of the host, which does the work, or of the device, where work is put on streams: then they are the times
 * between events in the stream that the work is in. With loopback all devices of the process share one wire, and the
 * host serves them in turn. Work of neighbouring rounds overlaps, so that the sum may be more than the run took.
 */
struct shunt_exec_round {
    uint32_t device, round;
    uint32_t finished; /* 1: the device has finished the round, and what follows is all of it; else times are 0 */
    uint32_t unused;
    uint64_t sent_bytes, received_bytes;           /* payload that crossed between devices */
    uint64_t wire_sent_bytes, wire_received_bytes; /* the same with message padding */
    uint64_t copied_bytes, filled_bytes;           /* on the device */
    double pack_seconds;                           /* allocations, packs, copies on the device and fills */
    double wire_seconds;                           /* from the start of the first message until all are there */
    double wait_seconds;                           /* of those the ones in which the device had nothing else to do */
    double unpack_seconds;                         /* unpacks, and giving memory back */
};

/**
 * Open a plan (or share an open one) and check one device's part.
 *
 * @param exec_out  set on SHUNT_OK only; release with shunt_exec_close()
 * @return SHUNT_ERR_IO, SHUNT_ERR_PLAN, SHUNT_ERR_USAGE (no such device), SHUNT_ERR_NOMEM,
 *         SHUNT_ERR_UNSUPPORTED (checksums in a build without them); SHUNT_ERR_IO of the journal, too
 */
SHUNT_API enum shunt_status shunt_exec_open(const struct shunt_exec_config *config, struct shunt_exec **exec_out,
                                            struct shunt_err *err);

/** opened -> verified: prove the whole plan. @return SHUNT_ERR_VERIFY, SHUNT_ERR_NOMEM */
SHUNT_API enum shunt_status shunt_exec_verify(struct shunt_exec *exec, struct shunt_err *err);

/** opened -> verified: the caller vouches for the plan, for instance because a launcher has verified it. */
SHUNT_API enum shunt_status shunt_exec_trust(struct shunt_exec *exec, struct shunt_err *err);

/**
 * Bind memory to the buffer `name` of one side. A kept buffer has one memory and is bound as
 * SHUNT_SIDE_FROM. Old-side buffers must be bound before a run; new-side buffers may be bound, to
 * save their allocation. Binding again replaces the address. Once all old-side buffers are bound
 * the state is bound (at once on a device without an old side). Allowed in verified and bound.
 *
 * @param dtype  enum shunt_dtype of the memory
 * @param data   stays the caller's; aligned to the element size
 * @return SHUNT_ERR_MISMATCH ("buffer table changed: ..." for another size or dtype, or no such buffer)
 */
SHUNT_API enum shunt_status shunt_exec_bind(struct shunt_exec *exec, enum shunt_plan_side side, const char *name,
                                            unsigned dtype, void *data, uint64_t bytes, struct shunt_err *err);

/** One entry of a table of bindings: the parameters of shunt_exec_bind(). */
struct shunt_exec_binding {
    enum shunt_plan_side side;
    unsigned dtype; /* enum shunt_dtype */
    const char *name;
    void *data;
    uint64_t bytes;
};

/** As many calls of shunt_exec_bind(), but if one of them must fail, nothing is bound. */
SHUNT_API enum shunt_status shunt_exec_bind_all(struct shunt_exec *exec, const struct shunt_exec_binding *table,
                                                uint32_t count, struct shunt_err *err);

/**
 * Any state but opened and running -> verified (or bound, on a device without an old side): forget
 * all bindings, free what the executor allocated, and be ready for another run.
 */
SHUNT_API enum shunt_status shunt_exec_reset(struct shunt_exec *exec, struct shunt_err *err);

/**
 * Replay, together with the other devices of the world. Before the first byte moves all devices
 * agree on plan, versions and buffer tables, or none starts; nobody returns SHUNT_OK before all
 * have finished.
 *
 * @param execs            the devices of this process, in ascending order: all of them (loopback) or one
 * @param timeout_seconds  deadline of every single wait
 * @return SHUNT_ERR_MISMATCH, SHUNT_ERR_PEER, SHUNT_ERR_TIMEOUT, SHUNT_ERR_TRANSPORT, SHUNT_ERR_NOMEM,
 *         SHUNT_ERR_CHECK (a checksum differs), SHUNT_ERR_CANCELLED; the text names device, peer and round. The execs are then failed (or
 *         still bound, when the agreement failed); the other processes have been told. The world is good
 *         for shunt_world_close() only, which comes before shunt_exec_close().
 */
SHUNT_API enum shunt_status shunt_exec_run(struct shunt_world *world, struct shunt_exec *const *execs, uint32_t count,
                                           double timeout_seconds, struct shunt_err *err);

/**
 * shunt_exec_run() without its rounds: all devices agree, connect to whom they will send to and receive from, and take
 * the memory that a run takes for itself; then they give it back. No buffer is allocated, read, written or released, no
 * progress told and no journal kept. The execs stay bound, and the same world may run them afterwards.
 *
 * @return as shunt_exec_run()
 */
SHUNT_API enum shunt_status shunt_exec_dry_run(struct shunt_world *world, struct shunt_exec *const *execs,
                                               uint32_t count, double timeout_seconds, struct shunt_err *err);

/**
 * The stream of an exec on a CUDA device, a cudaStream_t, its own or the caller's: buffers are written and read on it.
 * NULL on the host.
 */
SHUNT_API void *shunt_exec_get_stream(const struct shunt_exec *exec);

SHUNT_API enum shunt_exec_state shunt_exec_get_state(const struct shunt_exec *exec);
SHUNT_API const struct shunt_plan *shunt_exec_get_plan(const struct shunt_exec *exec);
/** Figures of the last run. */
SHUNT_API void shunt_exec_get_stats(const struct shunt_exec *exec, struct shunt_exec_stats *stats_out);
/**
 * Figures of the rounds of the last run, one for each round of the plan, in order.
 *
 * @return the exec's own, good until its next run or its end; NULL, and a count of 0, without `round_figures`
 */
SHUNT_API const struct shunt_exec_round *shunt_exec_get_rounds(const struct shunt_exec *exec, uint32_t *count_out);
SHUNT_API uint32_t shunt_exec_buffer_count(const struct shunt_exec *exec);
/** index < shunt_exec_buffer_count() */
SHUNT_API void shunt_exec_get_buffer(const struct shunt_exec *exec, uint32_t index,
                                     struct shunt_exec_buffer *buffer_out);

enum shunt_exec_phase {
    SHUNT_EXEC_PHASE_READY = 0, /* nothing has been touched */
    SHUNT_EXEC_PHASE_MOVING,    /* still running, or killed */
    SHUNT_EXEC_PHASE_DONE,      /* on all devices */
    SHUNT_EXEC_PHASE_FAILED,    /* broke off with `status` */
};

/**
 * How far a device came. Old-side buffers whose free_round is at least `freeing` have not been given back, and hold what
 * they held. What rounds below `filled` copy or fill on the device, and what rounds below `done` unpack, is in its place
 * in the new side; rounds from `begun` on have touched nothing.
 */
struct shunt_exec_journal {
    uint8_t plan_id[SHUNT_PLAN_DIGEST_BYTES];
    uint32_t device, device_count, round_count;
    enum shunt_exec_phase phase;
    enum shunt_status status; /* of a run that broke off, else SHUNT_OK */
    uint32_t begun;           /* rounds that may have allocated, packed, copied and filled */
    uint32_t filled;          /* rounds that have done all that */
    uint32_t done;            /* rounds that have unpacked all */
    uint32_t freeing;         /* rounds that may have given back what they free */
    uint32_t freed;           /* rounds that have given it back */
};

/**
 * Read a journal: at any moment, of a process that runs, has ended or was killed.
 *
 * @return SHUNT_ERR_IO, SHUNT_ERR_INPUT (not a journal)
 */
SHUNT_API enum shunt_status shunt_exec_read_journal(const char *path, struct shunt_exec_journal *journal_out,
                                                    struct shunt_err *err);

/** Any state. Frees what the executor allocated; accepts NULL. */
SHUNT_API void shunt_exec_close(struct shunt_exec *exec);

/**
 * Open a device: "host", "cuda" or "cuda:N" (the N-th CUDA device, from 0).
 *
 * With "cuda", pointers that the executor is given and gives are device memory, but for buffers in the host
 * tier. The CUDA Runtime library is looked for when a device is opened.
 *
 * @param device_out  set on SHUNT_OK only; release with shunt_device_close(), after the execs on it and the world
 *                    that moved their buffers
 * @return SHUNT_ERR_USAGE (no such name or number), SHUNT_ERR_UNSUPPORTED (not in this build),
 *         SHUNT_ERR_IO (no library, driver or GPU; what the runtime says)
 */
SHUNT_API enum shunt_status shunt_device_open(const char *name, struct shunt_device **device_out,
                                              struct shunt_err *err);
/** Accepts NULL. */
SHUNT_API void shunt_device_close(struct shunt_device *device);

struct shunt_world_config {
    const char *transport; /* "loopback": all devices in this process; "ucx", "nccl": one process per device */
    uint32_t rank;         /* this process's device; 0 with loopback */
    uint32_t size;         /* devices of the world */
    const char *meet_dir;  /* a directory that all processes see; kept by the caller, used under JOB/ */
    const char *job;       /* a name no other run uses in meet_dir at the same time */
    double timeout_seconds;
};

/**
 * Meet the other processes and connect.
 *
 * @param world_out  set on SHUNT_OK only; release with shunt_world_close()
 * @return SHUNT_ERR_UNSUPPORTED (built without the transport), SHUNT_ERR_USAGE, SHUNT_ERR_IO,
 *         SHUNT_ERR_PEER, SHUNT_ERR_TIMEOUT, SHUNT_ERR_TRANSPORT, SHUNT_ERR_MISMATCH
 */
SHUNT_API enum shunt_status shunt_world_open(const struct shunt_world_config *config, struct shunt_world **world_out,
                                             struct shunt_err *err);

/** Look after peers while doing something else for long. @return SHUNT_ERR_PEER, SHUNT_ERR_CANCELLED */
SHUNT_API enum shunt_status shunt_world_poll(struct shunt_world *world, struct shunt_err *err);

/** Tell the other processes why this one gives up, before closing. Cannot fail. */
SHUNT_API void shunt_world_abandon(struct shunt_world *world, enum shunt_status status, const char *cause);

/** Accepts NULL. */
SHUNT_API void shunt_world_close(struct shunt_world *world);

#ifdef __cplusplus
}
#endif
#endif
