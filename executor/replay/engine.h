/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHUNT_EXECUTOR_ENGINE_H
#define SHUNT_EXECUTOR_ENGINE_H

/**
 * One device's replay of a plan, as steps. The engine decides nothing: what happens in round k
 * stands in the plan, indexed once at open. replay/run.c calls the steps of all local devices in
 * the plan's order.
 */

#include "device/device.h"
#include "replay/track.h"
#include "shunt/exec.h"
#include "transport/transport.h"

enum engine_owner {
    ENGINE_OWNER_NONE = 0, /* no memory */
    ENGINE_OWNER_CALLER,   /* bound, or given by the caller's allocator */
    ENGINE_OWNER_ENGINE,   /* from the device's own allocator */
};

struct engine_buffer {
    void *data;
    uint8_t owner;        /* enum engine_owner */
    bool live;            /* counted in live_bytes */
    bool bound;           /* by the caller, before the run */
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

struct engine {
    const struct shunt_plan *plan;
    const struct shunt_plan_header *header;
    const struct device_ops *device_ops;
    uint32_t device;
    struct shunt_plan_part part;
    bool tracking;
    struct shunt_exec_memory memory;

    struct engine_buffer *buffers;
    uint32_t *by_name; /* buffer indices, sorted by (name, side) */
    uint32_t unbound;  /* old-side buffers that are not bound */
    struct engine_schedule allocs, frees;
    void *staging[SHUNT_PLAN_MAX_DEPTH];
    struct transport_message *messages; /* of all rounds, as in the part */
    uint32_t *peers;                    /* ascending */
    uint32_t peer_count, max_messages;
    struct checksum *checksum; /* NULL: none; owned */
    struct direct *segments;   /* NULL: every piece goes through a slot; owned */

    uint64_t live_bytes, host_live_bytes;
    struct shunt_exec_stats stats;
};

/** Check the part and index it. Release with engine_finish(). */
enum shunt_status engine_init(struct engine *engine, const struct shunt_plan *plan, uint32_t device, bool tracking,
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
/** Give the staging slots back; on success or failure. */
void engine_end(struct engine *engine);

/* the steps of round k, in this order */
enum shunt_status engine_alloc(struct engine *engine, uint32_t round, struct shunt_err *err);
void engine_pack(struct engine *engine, uint32_t round);
struct transport_message *engine_messages(struct engine *engine, uint32_t round, uint32_t *count_out);
enum shunt_status engine_arrived(struct engine *engine, uint32_t round, struct shunt_err *err);
void engine_unpack(struct engine *engine, uint32_t round);
void engine_free(struct engine *engine, uint32_t round);

#endif
