/* SPDX-License-Identifier: Apache-2.0 */
#include "emit/parts.h"

#include <stdatomic.h>
#include <string.h>

#include "shunt/plan.h"
#include "shunt/workers.h"

#define BATCH 8u /* parts */

struct worker {
    struct part_input input;
    struct arena scratch;
};

struct crew {
    struct parts *parts;
    struct worker *workers;
    atomic_bool failed;
};

static void make_part(struct worker *worker, struct arena *out, uint32_t device, struct part_made *made)
{
    made->bytes = part_emit(&worker->scratch, out, &worker->input, device, &made->size, &made->figures);
    made->crc32c = shunt_crc32c(0, made->bytes, made->size);
    arena_clear(&worker->scratch);
}

static void make_batch(void *context, uint32_t number, uint32_t begin, uint32_t end)
{
    struct crew *crew = context;
    struct worker *worker = &crew->workers[number];
    struct arena *out = &crew->parts->batches[begin / BATCH];
    if (atomic_load(&crew->failed))
        return;
    if (setjmp(out->on_failure) != 0 || setjmp(worker->scratch.on_failure) != 0) {
        atomic_store(&crew->failed, true);
        return;
    }
    for (uint32_t d = begin; d < end; d++)
        make_part(worker, out, d, &crew->parts->made[d]);
}

bool parts_emit(struct arena *arena, const struct part_input *input, uint32_t threads, struct parts *parts_out)
{
    struct parts parts = {.count = input->problem->route->world->device_count};
    parts.batch_count = (parts.count + BATCH - 1) / BATCH;
    threads = threads < parts.batch_count ? threads : parts.batch_count;
    struct crew crew = {.parts = &parts, .workers = ARENA_NEW(arena, struct worker, threads)};
    parts.made = ARENA_NEW(arena, struct part_made, parts.count);
    parts.batches = ARENA_NEW(arena, struct arena, parts.batch_count);
    for (uint32_t w = 0; w < threads; w++) {
        crew.workers[w].input = *input;
        part_add_scratch(arena, &crew.workers[w].input);
        arena_init(&crew.workers[w].scratch);
    }
    for (uint32_t b = 0; b < parts.batch_count; b++)
        arena_init(&parts.batches[b]);
    shunt_share_work(threads, parts.count, BATCH, make_batch, &crew);
    for (uint32_t w = 0; w < threads; w++)
        arena_finish(&crew.workers[w].scratch);
    for (uint32_t d = 1; d < parts.count; d++)
        parts.made[d].offset = parts.made[d - 1].offset + parts.made[d - 1].size;
    *parts_out = parts;
    return !atomic_load(&crew.failed);
}

struct move {
    struct parts *parts;
    unsigned char *to;
};

static void move_batch(void *context, uint32_t number, uint32_t begin, uint32_t end)
{
    const struct move *move = context;
    (void)number;
    for (uint32_t d = begin; d < end; d++) {
        const struct part_made *made = &move->parts->made[d];
        memcpy(move->to + made->offset, made->bytes, made->size);
    }
    arena_finish(&move->parts->batches[begin / BATCH]);
}

void parts_move(struct parts *parts, uint32_t threads, unsigned char *to)
{
    struct move move = {.parts = parts, .to = to};
    shunt_share_work(threads, parts->count, BATCH, move_batch, &move);
}

void parts_finish(struct parts *parts)
{
    for (uint32_t b = 0; b < parts->batch_count; b++)
        arena_finish(&parts->batches[b]);
}
