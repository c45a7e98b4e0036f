/* SPDX-License-Identifier: Apache-2.0 */
#include "emit/parts.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "shunt/plan.h"
#include "shunt/workers.h"

#define BATCH 8u /* parts */

struct worker {
    struct part_input input;
    struct arena scratch;
    struct part_bytes bytes; /* of the batch at hand */
};

struct crew {
    struct worker *workers;
    struct part_made *made;
    struct output *output;
    pthread_mutex_t lock; /* of what follows */
    pthread_cond_t moved;
    uint32_t next;   /* first device of the batch whose turn it is */
    uint64_t offset; /* where that goes */
    bool unwritten;  /* something could not be written */
    bool failed;     /* nor need anything else be made: that, or memory ran out */
};

static void make_part(struct worker *worker, uint32_t device, struct part_made *made)
{
    size_t begin = worker->bytes.size;
    part_emit(&worker->scratch, &worker->bytes, &worker->input, device, &made->figures);
    made->size = worker->bytes.size - begin;
    made->crc32c = shunt_crc32c(0, worker->bytes.bytes + begin, made->size);
    arena_clear(&worker->scratch);
}

/** @return false when memory ran out */
static bool make_batch(struct worker *worker, struct part_made *made, uint32_t begin, uint32_t end)
{
    worker->bytes.size = 0;
    if (setjmp(worker->scratch.on_failure) != 0)
        return false;
    for (uint32_t d = begin; d < end; d++)
        make_part(worker, d, &made[d]);
    return true;
}

/** Wait for the batches in front of this one, all of which are under way, and take the place behind them. */
static bool take_place(struct crew *crew, uint32_t begin, uint32_t end, uint64_t size, uint64_t *offset_out)
{
    pthread_mutex_lock(&crew->lock);
    while (crew->next != begin && !crew->failed)
        pthread_cond_wait(&crew->moved, &crew->lock);
    bool good = !crew->failed;
    *offset_out = crew->offset;
    crew->offset += size;
    crew->next = end;
    pthread_cond_broadcast(&crew->moved);
    pthread_mutex_unlock(&crew->lock);
    return good;
}

static void give_up(struct crew *crew, bool unwritten)
{
    pthread_mutex_lock(&crew->lock);
    crew->failed = true;
    crew->unwritten = crew->unwritten || unwritten;
    pthread_cond_broadcast(&crew->moved);
    pthread_mutex_unlock(&crew->lock);
}

static bool has_failed(struct crew *crew)
{
    pthread_mutex_lock(&crew->lock);
    bool failed = crew->failed;
    pthread_mutex_unlock(&crew->lock);
    return failed;
}

static void work_batch(void *context, uint32_t number, uint32_t begin, uint32_t end)
{
    struct crew *crew = context;
    struct worker *worker = &crew->workers[number];
    uint64_t offset;
    if (has_failed(crew))
        return;
    if (!make_batch(worker, crew->made, begin, end)) {
        give_up(crew, false);
        return;
    }
    if (!take_place(crew, begin, end, worker->bytes.size, &offset))
        return;
    crew->made[begin].offset = offset;
    for (uint32_t d = begin + 1; d < end; d++)
        crew->made[d].offset = crew->made[d - 1].offset + crew->made[d - 1].size;
    if (!output_write(crew->output, offset, worker->bytes.bytes, worker->bytes.size))
        give_up(crew, true);
}

static void hire(struct arena *arena, const struct part_input *input, uint32_t threads, struct crew *crew)
{
    crew->workers = ARENA_NEW(arena, struct worker, threads);
    for (uint32_t w = 0; w < threads; w++) {
        crew->workers[w].input = *input;
        part_add_scratch(arena, &crew->workers[w].input);
    }
    for (uint32_t w = 0; w < threads; w++)
        arena_init(&crew->workers[w].scratch);
    pthread_mutex_init(&crew->lock, NULL);
    pthread_cond_init(&crew->moved, NULL);
}

static void dismiss(uint32_t threads, struct crew *crew)
{
    for (uint32_t w = 0; w < threads; w++) {
        arena_finish(&crew->workers[w].scratch);
        free(crew->workers[w].bytes.bytes);
    }
    pthread_cond_destroy(&crew->moved);
    pthread_mutex_destroy(&crew->lock);
}

enum shunt_status parts_emit(struct arena *arena, const struct part_input *input, uint32_t threads,
                             struct output *output, uint64_t offset, struct part_made **made_out, struct shunt_err *err)
{
    uint32_t devices = input->problem->route->world->device_count, batches = (devices + BATCH - 1) / BATCH;
    struct crew crew = {.output = output, .offset = offset, .made = ARENA_NEW(arena, struct part_made, devices)};
    threads = threads < batches ? threads : batches;
    hire(arena, input, threads, &crew); /* from here on nothing is allocated in the arena */
    shunt_share_work(threads, devices, BATCH, work_batch, &crew);
    dismiss(threads, &crew);
    *made_out = crew.made;
    if (crew.unwritten)
        return output_fail(output, err);
    return crew.failed ? shunt_fail(err, SHUNT_ERR_NOMEM, "out of memory for the parts of a plan") : SHUNT_OK;
}
