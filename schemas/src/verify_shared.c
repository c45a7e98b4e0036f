/* SPDX-License-Identifier: Apache-2.0 */
/**
 * The walk by digest shared among threads. Each has a verifier of its own, with its own figures, boxes and
 * problems, and reads the parts of the devices that it gets; at the end they are added up. Sums and maxima do not
 * depend on the order. Problems do: a plan that has any is walked once more, by one thread (verify.c).
 */
#include <stdlib.h>
#include <string.h>

#include "alloc.h"
#include "shunt/workers.h"
#include "verify_internal.h"

#define MOST_BATCH 16u /* devices */

struct worker {
    struct verifier v;
    struct shunt_verify_report report;
    enum shunt_status status;
};

struct crew {
    struct worker *workers;
    enum shunt_status (*visit)(struct verifier *v, uint32_t device);
};

static void read_batch(void *context, uint32_t number, uint32_t begin, uint32_t end)
{
    struct crew *crew = context;
    struct worker *worker = &crew->workers[number];
    if (worker->status == SHUNT_OK)
        worker->status = vparts_read(&worker->v, begin, end, crew->visit);
}

/* A verifier for a thread: parts and peaks of different devices are apart. */
static void worker_init(const struct verifier *v, struct worker *worker)
{
    worker->v = *v;
    worker->v.report = &worker->report;
    worker->v.space = NULL;
    worker->status = vspace_open(&worker->v);
}

static void merge_figures(struct vfigures *into, const struct vfigures *from)
{
    const struct {
        uint64_t *into, from;
    } sums[] = {
        {&into->needed_remote, from->needed_remote},
        {&into->moved, from->moved},
        {&into->relayed, from->relayed},
        {&into->forwarded, from->forwarded},
        {&into->copied, from->copied},
        {&into->parked, from->parked},
        {&into->kept, from->kept},
        {&into->inter_node, from->inter_node},
        {&into->intra_node, from->intra_node},
        {&into->filled, from->filled},
        {&into->made_needed, from->made_needed},
        {&into->own_needed, from->own_needed},
        {&into->ops, from->ops},
        {&into->messages, from->messages},
    };
    const struct {
        uint64_t *into, from;
    } maxima[] = {
        {&into->max_send, from->max_send}, {&into->max_recv, from->max_recv}, {&into->from_max, from->from_max},
        {&into->to_max, from->to_max},     {&into->peak, from->peak},         {&into->host_peak, from->host_peak},
    };
    _Static_assert(sizeof(*into) == (sizeof(sums) + sizeof(maxima)) / 2 + 4 * sizeof(uint32_t),
                   "every figure is merged");
    for (size_t i = 0; i < sizeof(sums) / sizeof(sums[0]); i++)
        vadd(sums[i].into, sums[i].from);
    for (size_t i = 0; i < sizeof(maxima) / sizeof(maxima[0]); i++)
        vmax(maxima[i].into, maxima[i].from);
    if (from->max_group_messages > into->max_group_messages)
        into->max_group_messages = from->max_group_messages;
    if (from->max_peers > into->max_peers)
        into->max_peers = from->max_peers;
    if (from->rollback_until_round < into->rollback_until_round)
        into->rollback_until_round = from->rollback_until_round;
}

static enum shunt_status merge_worker(struct verifier *v, const struct worker *worker)
{
    if (worker->status != SHUNT_OK)
        return worker->status;
    v->report->problem_total += worker->report.problem_total;
    v->all_readable = v->all_readable && worker->v.all_readable;
    merge_figures(&v->figures, &worker->v.figures);
    vdigest_merge(&v->digest, &worker->v.digest);
    return vspace_merge(v, &worker->v);
}

enum shunt_status vshared_replay(struct verifier *v, uint32_t threads,
                                 enum shunt_status (*visit)(struct verifier *v, uint32_t device))
{
    uint32_t count = threads < SHUNT_MAX_WORKERS ? threads : SHUNT_MAX_WORKERS;
    struct crew crew = {.workers = schema_alloc(count, sizeof(*crew.workers)), .visit = visit};
    if (crew.workers == NULL)
        return SHUNT_ERR_NOMEM;
    for (uint32_t w = 0; w < count; w++)
        worker_init(v, &crew.workers[w]);
    uint32_t batch = v->header->device_count / (8 * count);
    shunt_share_work(count, v->header->device_count, batch < MOST_BATCH ? batch : MOST_BATCH, read_batch, &crew);
    enum shunt_status st = SHUNT_OK;
    for (uint32_t w = 0; w < count; w++) {
        struct worker *worker = &crew.workers[w];
        if (st == SHUNT_OK)
            st = merge_worker(v, worker);
        vparts_drop_all(&worker->v);
        vspace_close(&worker->v);
    }
    free(crew.workers);
    return st;
}
