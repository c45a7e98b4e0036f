/* SPDX-License-Identifier: Apache-2.0 */
/** Figures of the summary against the replay, and ranks against the header. */
#include <inttypes.h>
#include <stdlib.h>

#include "alloc.h"
#include "verify_internal.h"

struct figure {
    const char *name;
    uint64_t recorded, replayed;
};

static uint64_t add(uint64_t a, uint64_t b)
{
    vadd(&a, b);
    return a;
}

/* Of sums that have stopped nobody knows the difference. */
static uint64_t saved_bytes(const struct vfigures *figures)
{
    if (figures->own_needed == UINT64_MAX || figures->made_needed == UINT64_MAX)
        return UINT64_MAX;
    return figures->own_needed > figures->made_needed ? figures->own_needed - figures->made_needed : 0;
}

static void check_figures(struct verifier *v)
{
    const struct shunt_plan_summary *sum = v->summary;
    const struct vfigures *got = &v->figures;
    const struct figure figures[] = {
        {"needed_remote", sum->needed_remote, got->needed_remote},
        {"moved", sum->moved, got->moved},
        {"relayed", sum->relayed, got->relayed},
        {"local", sum->local, add(got->copied, got->kept)},
        {"kept", sum->kept, got->kept},
        {"inter_node", sum->inter_node, got->inter_node},
        {"intra_node", sum->intra_node, got->intra_node},
        {"filled", sum->filled, got->filled},
        {"max_send", sum->max_send, got->max_send},
        {"max_recv", sum->max_recv, got->max_recv},
        {"peak", sum->peak, got->peak},
        {"from_max", sum->from_max, got->from_max},
        {"to_max", sum->to_max, got->to_max},
        {"max_group_messages", sum->max_group_messages, got->max_group_messages},
        {"max_peers", sum->max_peers, got->max_peers},
        {"rollback_until_round", sum->rollback_until_round, got->rollback_until_round},
        {"ops", sum->ops, got->ops},
        {"saved", sum->saved, saved_bytes(got)},
        {"host_peak", sum->host_peak, got->host_peak},
        {"parked", sum->parked, got->parked},
        {"forwarded", sum->forwarded, got->forwarded},
    };
    for (size_t i = 0; i < sizeof(figures) / sizeof(figures[0]); i++) {
        if (figures[i].recorded != figures[i].replayed)
            vproblem(v, SHUNT_RULE_SUMMARY, VNONE, VNONE, "%s is %" PRIu64 ", the replay has %" PRIu64, figures[i].name,
                     figures[i].recorded, figures[i].replayed);
        else if (figures[i].replayed == UINT64_MAX)
            vproblem(v, SHUNT_RULE_SUMMARY, VNONE, VNONE, "%s is above %" PRIu64, figures[i].name, UINT64_MAX - 1);
    }
}

/* A bound that the plan itself beats is no bound. */
static void check_bounds(struct verifier *v)
{
    const struct shunt_plan_summary *sum = v->summary;
    if (sum->inter_node_lower_bound > sum->inter_node)
        vproblem(v, SHUNT_RULE_SUMMARY, VNONE, VNONE,
                 "inter_node_lower_bound is %" PRIu64 ", the plan moves %" PRIu64 " between nodes",
                 sum->inter_node_lower_bound, sum->inter_node);
    if (sum->peak_lower_bound > sum->peak)
        vproblem(v, SHUNT_RULE_SUMMARY, VNONE, VNONE, "peak_lower_bound is %" PRIu64 ", the plan's peak is %" PRIu64,
                 sum->peak_lower_bound, sum->peak);
    if (v->device_peaks[sum->peak_device] != v->figures.peak)
        vproblem(v, SHUNT_RULE_SUMMARY, VNONE, VNONE,
                 "peak_device is %" PRIu32 ", whose peak is %" PRIu64 " and not %" PRIu64, sum->peak_device,
                 v->device_peaks[sum->peak_device], v->figures.peak);
}

void vsummary_check(struct verifier *v)
{
    check_figures(v);
    check_bounds(v);
}

/* ---- ranks -------------------------------------------------------------------- */

static uint32_t rank_of(const struct verifier *v, uint32_t device, bool old_side)
{
    const struct shunt_plan_device *record = shunt_plan_get_device(v->plan, device);
    return old_side ? record->from_rank : record->to_rank;
}

/* first[r] = 1 + the first device of rank r. */
static enum shunt_status check_side(struct verifier *v, bool old_side)
{
    const char *side = old_side ? "old" : "new";
    uint32_t count = old_side ? v->header->from_rank_count : v->header->to_rank_count;
    uint32_t *first = schema_alloc(count, sizeof(*first));
    if (first == NULL)
        return SHUNT_ERR_NOMEM;
    for (uint32_t d = 0; d < v->header->device_count; d++) {
        uint32_t rank = rank_of(v, d, old_side);
        if (rank == VNONE)
            continue;
        if (first[rank] != 0)
            vproblem(v, SHUNT_RULE_RANK, VNONE, VNONE, "devices %" PRIu32 " and %" PRIu32 " are both %s rank %" PRIu32,
                     first[rank] - 1, d, side, rank);
        else
            first[rank] = d + 1;
    }
    for (uint32_t r = 0; r < count; r++) {
        if (first[r] == 0)
            vproblem(v, SHUNT_RULE_RANK, VNONE, VNONE, "no device is %s rank %" PRIu32, side, r);
    }
    free(first);
    return SHUNT_OK;
}

enum shunt_status vranks_check(struct verifier *v)
{
    enum shunt_status st = check_side(v, true);
    return st == SHUNT_OK ? check_side(v, false) : st;
}
