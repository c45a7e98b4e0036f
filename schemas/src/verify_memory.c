/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Memory of one device, round by round. Of device memory: kept buffers, staging, transport and reserve always; what
 * the plan allocates from its alloc_round on; what it frees until overlap_depth rounds after its free_round
 * began, because that is when the executor is sure to have freed it. The cap is that of device memory; of
 * host memory the most that scratch takes is reported.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "alloc.h"
#include "verify_internal.h"

enum { SIDE_COUNT = SHUNT_SIDE_SCRATCH + 1 };

/* Whether a buffer is counted with a kind of memory: of host memory, what the layouts do not ask for themselves. */
static bool is_counted(const struct shunt_plan_buffer *buffer, unsigned tier)
{
    return buffer->tier == tier && (tier == SHUNT_TIER_DEVICE || buffer->side == SHUNT_SIDE_SCRATCH);
}

/* Bytes in one kind of memory. */
struct sums {
    uint64_t side[SIDE_COUNT];
    uint64_t fixed; /* staging, transport, reserve */
};

/* False if the sum of everything does not fit. */
static bool add_up(const struct vreplay *replay, struct sums sums[SHUNT_TIER_HOST + 1])
{
    const struct shunt_plan_part *part = replay->part;
    const struct shunt_plan_summary *summary = replay->v->summary;
    uint64_t *fixed = &sums[SHUNT_TIER_DEVICE].fixed, for_peers;
    bool over = __builtin_mul_overflow(summary->transport_per_peer, replay->peers, &for_peers);
    over |= __builtin_add_overflow(summary->transport, summary->reserve, fixed);
    over |= __builtin_add_overflow(*fixed, for_peers, fixed);
    for (uint32_t slot = 0; slot < SHUNT_PLAN_MAX_DEPTH; slot++)
        over |= __builtin_add_overflow(*fixed, part->header->staging_bytes[slot], fixed);
    uint64_t all = *fixed;
    for (uint32_t i = 0; i < part->header->buffer_count; i++) {
        const struct shunt_plan_buffer *buffer = &part->buffers[i];
        over |= __builtin_add_overflow(all, buffer->bytes, &all);
        if (is_counted(buffer, buffer->tier))
            sums[buffer->tier].side[buffer->side] += buffer->bytes;
    }
    return !over;
}

/* live[k] of a tier for every round and the sentinel; `live` has room for overlap_depth more. */
static void replay_live(const struct vreplay *replay, const struct sums *sums, unsigned tier, uint64_t *live)
{
    const struct shunt_plan_part *part = replay->part;
    uint32_t rounds = replay->v->header->round_count, depth = replay->v->header->overlap_depth;
    memset(live, 0, ((size_t)rounds + depth + 1) * sizeof(*live));
    for (uint32_t i = 0; i < part->header->buffer_count; i++) {
        const struct shunt_plan_buffer *buffer = &part->buffers[i];
        if (!is_counted(buffer, tier))
            continue;
        if (shunt_plan_is_allocated(buffer))
            live[buffer->alloc_round] += buffer->bytes;
        if (shunt_plan_is_freed(buffer))
            live[buffer->free_round + depth] -= buffer->bytes;
    }
    uint64_t now = sums->side[SHUNT_SIDE_FROM] + sums->side[SHUNT_SIDE_BOTH] + sums->fixed;
    for (uint32_t k = 0; k < rounds; k++) {
        now += live[k]; /* live[k] was the change; unsigned, so that a fall wraps and comes back */
        live[k] = now;
    }
    live[rounds] = sums->side[SHUNT_SIDE_TO] + sums->side[SHUNT_SIDE_BOTH] + sums->fixed;
}

static void check_rounds(struct vreplay *replay, const uint64_t *live)
{
    const struct shunt_plan_round *rounds = replay->part->rounds;
    uint64_t cap = replay->v->summary->cap - (uint64_t)replay->record->cap_short * SHUNT_PLAN_SHORT_BYTES;
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
    const uint64_t from = sums->side[SHUNT_SIDE_FROM] + sums->side[SHUNT_SIDE_BOTH];
    const uint64_t to = sums->side[SHUNT_SIDE_TO] + sums->side[SHUNT_SIDE_BOTH];
    uint64_t *peak = &replay->v->device_peaks[replay->device];
    for (uint32_t k = 0; k <= replay->v->header->round_count; k++)
        vmax(peak, live[k]);
    check_total(replay, "peak_bytes", replay->record->peak_bytes, *peak);
    check_total(replay, "from_bytes", replay->record->from_bytes, from);
    check_total(replay, "to_bytes", replay->record->to_bytes, to);
    if (staging[0] + staging[1] > replay->v->summary->staging)
        vproblem(replay->v, SHUNT_RULE_MEMORY, replay->device, VNONE,
                 "staging slots are %" PRIu64 " bytes, the summary allows %" PRIu64, staging[0] + staging[1],
                 replay->v->summary->staging);
    vmax(&figures->peak, *peak);
    vmax(&figures->from_max, from);
    vmax(&figures->to_max, to);
}

static void note_host(struct vreplay *replay, const uint64_t *live)
{
    for (uint32_t k = 0; k <= replay->v->header->round_count; k++)
        vmax(&replay->v->figures.host_peak, live[k]);
}

enum shunt_status vmemory_check(struct vreplay *replay)
{
    struct sums sums[SHUNT_TIER_HOST + 1] = {0};
    if (!add_up(replay, sums)) {
        vproblem(replay->v, SHUNT_RULE_MEMORY, replay->device, VNONE, "the sum of all sizes is above 2^64 bytes");
        return SHUNT_OK;
    }
    const struct shunt_plan_header *header = replay->v->header;
    uint64_t *live = schema_alloc((size_t)header->round_count + header->overlap_depth + 1, sizeof(*live));
    if (live == NULL)
        return SHUNT_ERR_NOMEM;
    replay_live(replay, &sums[SHUNT_TIER_DEVICE], SHUNT_TIER_DEVICE, live);
    check_rounds(replay, live);
    check_totals(replay, &sums[SHUNT_TIER_DEVICE], live);
    replay_live(replay, &sums[SHUNT_TIER_HOST], SHUNT_TIER_HOST, live);
    note_host(replay, live);
    free(live);
    return SHUNT_OK;
}
