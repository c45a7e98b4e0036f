/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHUNT_EXECUTOR_READBACK_H
#define SHUNT_EXECUTOR_READBACK_H

/**
 * Pieces of a round, brought from a device to where the host can read them: in pinned host memory, each as one dense
 * block. The device's own kernel writes them there, as a second program beside the one of the plan, which reads what
 * checksums are taken of. One round and direction is there at a time: bringing it waits for the device.
 */

#include "replay/engine.h"
#include "replay/pieces.h"

struct readback {
    struct device_work *work;      /* one per piece, in the order of pieces->ops */
    struct shunt_plan_view *dense; /* of each */
    uint64_t *offsets;             /* of each, in the area */
    uint32_t count;
    uint64_t area_bytes;
    char *area;                     /* pinned, while a run is on */
    struct device_program *program; /* while a run is on */
};

/** reads_source(op) says which end of an op is read. @return false when out of memory */
bool readback_init(struct readback *readback, const struct engine *engine, const struct pieces *pieces,
                   bool (*reads_source)(const struct shunt_plan_op *op));
void readback_finish(struct readback *readback);

enum shunt_status readback_begin(struct readback *readback, struct engine *engine, struct shunt_err *err);
/** The device is idle, or stuck: then its memory is left alone. */
void readback_end(struct readback *readback, struct engine *engine);
/** A place in the table of bases has memory. */
void readback_bind(struct readback *readback, const struct engine *engine, uint32_t base, void *data);

/** Pieces [begin, end), behind all that is on the engine's stream. */
enum shunt_status readback_bring(struct readback *readback, const struct engine *engine, uint32_t begin, uint32_t end,
                                 struct shunt_err *err);
/** A piece that was brought, as the host reads it. */
const void *readback_piece(const struct readback *readback, uint32_t piece);

#endif
