/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Device memory of one device, round by round (buffers in host memory do not count): kept buffers, staging, transport and reserve always; new
 * buffers from their alloc_round on; old buffers until overlap_depth rounds after their free_round
 * began, because that is when the executor is sure to have freed them.
 */
#include <inttypes.h>
#include <stdlib.h>

#include "alloc.h"
#include "verify_internal.h"

struct sums {
    uint64_t from, to, kept, fixed; /* fixed: staging, transport, reserve */
};

/* False if the sum of everything does not fit. */
static bool add_up(const struct vreplay *replay, struct sums *sums)
{
    const struct shunt_plan_part *part = replay->part;
    const struct shunt_plan_summary *summary = replay->v->summary;
    uint64_t *const by_side[] = {
        [SHUNT_SIDE_FROM] = &sums->from, [SHUNT_SIDE_TO] = &sums->to, [SHUNT_SIDE_BOTH] = &sums->kept};
    uint64_t all = 0;
    bool over = __builtin_add_overflow(summary->transport, summary->reserve, &sums->fixed);
    for (uint32_t slot = 0; slot < SHUNT_PLAN_MAX_DEPTH; slot++)
        over |= __builtin_add_overflow(sums->fixed, part->header->staging_bytes[slot], &sums->fixed);
    all = sums->fixed;
    for (uint32_t i = 0; i < part->header->buffer_count; i++) {
        const struct shunt_plan_buffer *buffer = &part->buffers[i];
        over |= __builtin_add_overflow(all, buffer->bytes, &all);
        if (buffer->tier != SHUNT_TIER_HOST)
            *by_side[buffer->side] += buffer->bytes;
    }
    return !over;
}

/* live[k] for every round and the sentinel; `live` is zero and has room for overlap_depth more. */
static void replay_live(const struct vreplay *replay, const struct sums *sums, uint64_t *live)
{
    const struct shunt_plan_part *part = replay->part;
    uint32_t rounds = replay->v->header->round_count;
    for (uint32_t i = 0; i < part->header->buffer_count; i++) {
        const struct shunt_plan_buffer *buffer = &part->buffers[i];
        if (buffer->tier == SHUNT_TIER_HOST)
            continue;
        if (buffer->side == SHUNT_SIDE_TO)
            live[buffer->alloc_round] += buffer->bytes;
        if (buffer->side == SHUNT_SIDE_FROM)
            live[buffer->free_round + replay->v->header->overlap_depth] -= buffer->bytes;
    }
    uint64_t now = sums->from + sums->kept + sums->fixed;
    for (uint32_t k = 0; k < rounds; k++) {
        now += live[k]; /* live[k] was the change; unsigned, so that a fall wraps and comes back */
        live[k] = now;
    }
    live[rounds] = sums->to + sums->kept + sums->fixed;
}

static void check_rounds(struct vreplay *replay, const uint64_t *live)
{
    const struct shunt_plan_round *rounds = replay->part->rounds;
    uint64_t cap = replay->v->summary->cap;
    for (uint32_t k = 0; k <= replay->v->header->round_count; k++) {
        if (rounds[k].live_bytes == live[k])
            continue;
        vproblem(replay->v, SHUNT_RULE_MEMORY, replay->device, k, "live_bytes is %" PRIu64 ", the replay has %" PRIu64,
                 rounds[k].live_bytes, live[k]);
        break; /* the rounds behind are off by the same */
    }
    for (uint32_t k = 0; k <= replay->v->header->round_count; k++) {
        if (live[k] <= cap)
            continue;
        vproblem(replay->v, SHUNT_RULE_MEMORY, replay->device, k, "%" PRIu64 " bytes are live, the cap is %" PRIu64,
                 live[k], cap);
        break;
    }
}

static void check_total(struct vreplay *replay, const char *field, uint64_t got, uint64_t want)
{
    if (got != want)
        vproblem(replay->v, SHUNT_RULE_MEMORY, replay->device, VNONE, "%s is %" PRIu64 ", the replay has %" PRIu64,
                 field, got, want);
}

static void check_totals(struct vreplay *replay, const struct sums *sums, const uint64_t *live)
{
    struct vfigures *figures = &replay->v->figures;
    const uint64_t *staging = replay->part->header->staging_bytes;
    uint64_t *peak = &replay->v->device_peaks[replay->device];
    for (uint32_t k = 0; k <= replay->v->header->round_count; k++)
        vmax(peak, live[k]);
    check_total(replay, "peak_bytes", replay->record->peak_bytes, *peak);
    check_total(replay, "from_bytes", replay->record->from_bytes, sums->from + sums->kept);
    check_total(replay, "to_bytes", replay->record->to_bytes, sums->to + sums->kept);
    if (staging[0] + staging[1] > replay->v->summary->staging)
        vproblem(replay->v, SHUNT_RULE_MEMORY, replay->device, VNONE,
                 "staging slots are %" PRIu64 " bytes, the summary allows %" PRIu64, staging[0] + staging[1],
                 replay->v->summary->staging);
    vmax(&figures->peak, *peak);
    vmax(&figures->from_max, sums->from + sums->kept);
    vmax(&figures->to_max, sums->to + sums->kept);
}

enum shunt_status vmemory_check(struct vreplay *replay)
{
    struct sums sums = {0};
    if (!add_up(replay, &sums)) {
        vproblem(replay->v, SHUNT_RULE_MEMORY, replay->device, VNONE, "the sum of all sizes is above 2^64 bytes");
        return SHUNT_OK;
    }
    const struct shunt_plan_header *header = replay->v->header;
    uint64_t *live = schema_alloc((size_t)header->round_count + header->overlap_depth + 1, sizeof(*live));
    if (live == NULL)
        return SHUNT_ERR_NOMEM;
    replay_live(replay, &sums, live);
    check_rounds(replay, live);
    check_totals(replay, &sums, live);
    free(live);
    return SHUNT_OK;
}
