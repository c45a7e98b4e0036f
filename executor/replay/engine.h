/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHUNT_EXECUTOR_ENGINE_H
#define SHUNT_EXECUTOR_ENGINE_H

/**
 * One device's replay of a plan, as steps. The engine decides nothing: what happens in round k
 * stands in the plan, indexed once at open. replay/run_rounds.c calls the steps of all local devices in
 * the plan's order.
 */

#include "device/device.h"
#include "replay/track.h"
#include "shunt/exec.h"
#include "transport/transport.h"

#define ENGINE_DEFAULT_TIMEOUT 60.0

enum engine_owner {
    ENGINE_OWNER_NONE = 0, /* no memory */
    ENGINE_OWNER_CALLER,   /* bound, or given by the caller's allocator */
    ENGINE_OWNER_ENGINE,   /* from the device's own allocator */
};

struct engine_buffer {
    void *data;           /* on the engine's device; of the host tier in host memory */
    uint8_t owner;        /* enum engine_owner */
    bool live;            /* counted in live_bytes */
    bool bound;           /* by the caller, before the run */
    bool lent;            /* host memory that the device has been given access to */
    uint8_t dtype;        /* as bound */
    uint64_t bytes;       /* as bound */
    char *name;           /* "STATE/TENSOR"; of scratch "scratch:INDEX" */
    struct track written; /* new-side buffers, when tracking */
};

/** Buffers that a round allocates or frees: list[begin[k] .. begin[k + 1]). */
struct engine_schedule {
    uint32_t *list;
    uint32_t *begin; /* round_count + 1 */
};

struct checksum;
struct direct;
struct rounds;

struct engine {
    const struct shunt_plan *plan;
    const struct shunt_plan_header *header;
    struct shunt_device *on;
    struct device_stream *stream; /* packs, unpacks, and memory */
    bool borrowed;                /* the stream is the caller's */
    struct device_event *packed;  /* the packs of the round at hand */
    uint32_t device;
    struct shunt_plan_part part;
    bool tracking;
    bool dry; /* nothing is to be moved; all devices or none */
    struct shunt_exec_memory memory;

    struct engine_buffer *buffers;
    uint32_t *by_name; /* buffer indices, sorted by (name, side) */
    uint32_t unbound;  /* old-side buffers that are not bound */
    struct engine_schedule allocs, frees;
    void *staging[SHUNT_PLAN_MAX_DEPTH];
    struct device_work *work;           /* of all ops, as in the part */
    struct device_program *program;     /* while a run is on */
    uint32_t *bases;                    /* places of the buffers in the program's table: staging first */
    struct transport_message *messages; /* of all rounds, as in the part */
    uint32_t *whole;                    /* of each message: the op whose bytes it is, sent or received in place */
    uint32_t *peers;                    /* ascending */
    uint32_t peer_count, max_messages;
    struct checksum *checksum; /* NULL: none; owned */
    struct direct *segments;   /* NULL: every piece goes through a slot; owned */
    struct rounds *rounds;     /* NULL: no figures of rounds are kept; owned */

    uint64_t live_bytes, host_live_bytes;
    double timeout_seconds; /* of a wait for the device */
    bool stuck;             /* the device did not finish its work: memory that it may still use is left alone */
    struct shunt_exec_stats stats;
};

/** Check the part and index it; `on` is borrowed, and so is a stream. Release with engine_finish(). */
enum shunt_status engine_init(struct engine *engine, const struct shunt_plan *plan, uint32_t device,
                              struct shunt_device *on, struct device_stream *stream, bool tracking,
                              struct shunt_err *err);
void engine_finish(struct engine *engine);

/** Index of the buffer of this name and side (a kept one counts as either); -1 if there is none. */
int64_t engine_find(const struct engine *engine, const char *name, enum shunt_plan_side side);

/** Forget all bindings and free what the engine allocated. */
void engine_reset(struct engine *engine);

/** Give a buffer the caller's memory, which has been checked; again to replace it. */
void engine_bind(struct engine *engine, uint32_t index, unsigned dtype, void *data, uint64_t bytes);

/** Name of the first old-side buffer that is not bound; NULL if all are. */
const char *engine_first_unbound(const struct engine *engine);

/** Most bytes of new-side buffers that are live beyond what old-side frees have given back. */
uint64_t engine_growth(const struct engine *engine);

/** CRC-32C over names, dtypes and sizes: of the buffers as bound, or as the plan says. */
uint32_t engine_table_crc(const struct engine *engine, bool as_bound);

/** Take the staging slots and count what is live. */
enum shunt_status engine_begin(struct engine *engine, struct shunt_err *err);
/** Give the staging slots back; on success or failure. Waits for the device's work. */
void engine_end(struct engine *engine);
/** Wait for all that the device does for this engine; if that fails, the engine is stuck. */
void engine_settle(struct engine *engine);

/*
 * The steps of round k, in this order. On an asynchronous device they put work on the engine's stream, which
 * the caller orders against messages: engine->packed is recorded behind the packs.
 */
enum shunt_status engine_alloc(struct engine *engine, uint32_t round, struct shunt_err *err);
enum shunt_status engine_pack(struct engine *engine, uint32_t round, struct shunt_err *err);
struct transport_message *engine_messages(struct engine *engine, uint32_t round, uint32_t *count_out);
enum shunt_status engine_arrived(struct engine *engine, uint32_t round, struct shunt_err *err);
enum shunt_status engine_unpack(struct engine *engine, uint32_t round, struct shunt_err *err);
enum shunt_status engine_free(struct engine *engine, uint32_t round, struct shunt_err *err);
/** Does engine_free() wait for the stream? That wait sees nothing of peers: their messages are to be there before. */
bool engine_frees_wait(const struct engine *engine, uint32_t round);
/** Wait for what was put on the stream. */
enum shunt_status engine_finish_round(struct engine *engine, uint32_t round, struct shunt_err *err);

/* ---- engine_memory.c: for the other files of the engine --------------------------------- */

/** The text of a failed call, with device and round; SHUNT_OK stays. */
enum shunt_status engine_in_round(const struct engine *engine, uint32_t round, enum shunt_status st,
                                  const struct shunt_err *cause, struct shunt_err *err);
/** Bytes that nobody could take for what should have been written. */
enum shunt_status engine_poison(struct engine *engine, uint32_t round, void *data, uint64_t bytes,
                                struct shunt_err *err);

/* ---- engine_program.c: the ops as the device is told them ------------------------------ */

/** Tables that do not change between runs. @return false when out of memory */
bool engine_program_index(struct engine *engine);
/** One end of an op, and how many places the table has. */
struct device_end engine_program_end_of(const struct engine *engine, uint32_t buffer, uint64_t offset, uint32_t view);
uint32_t engine_program_base_count(const struct engine *engine);
/** Buffers that are bound are known now; decides which messages need no staging. */
enum shunt_status engine_program_begin(struct engine *engine, struct shunt_err *err);
void engine_program_end(struct engine *engine);
/** A buffer or staging slot has memory. */
void engine_program_bind(struct engine *engine, uint32_t buffer, void *data);
/** Point the messages of a round at their memory. */
void engine_point_messages(struct engine *engine, uint32_t round);
/** Ops [begin, end) of the part. */
enum shunt_status engine_program_run(struct engine *engine, uint32_t begin, uint32_t end, struct shunt_err *err);

/* ---- engine_window.c: buffers as the host sees them ------------------------------------- */

/** A buffer's bytes in host memory: itself, or a copy of what is on the device. */
struct engine_window {
    const struct engine *engine;
    uint32_t buffer;
    bool copied;
    bool lost; /* the device may still use the copy: it is not freed */
    void *data;
};

/** @param fetch  the host reads what is there */
enum shunt_status engine_window_open(const struct engine *engine, uint32_t buffer, bool fetch,
                                     struct engine_window *window_out, struct shunt_err *err);
/** @param store  the host has written. What the window took is given back in any case. */
enum shunt_status engine_window_close(struct engine_window *window, bool store, struct shunt_err *err);

#endif
