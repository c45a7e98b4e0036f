/* SPDX-License-Identifier: Apache-2.0 */
#include "figures.h"
#include "shunt/escape.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#define AT(field)      offsetof(struct figures, field)
#define SUMMARY(field) offsetof(struct figures, summary.field)

/* clang-format off */
const struct figure figure_table[] = {
    {"", "plan_id", NULL, NULL, FIGURE_CHARS, AT(plan_id)},
    {"", "format_version", NULL, NULL, FIGURE_CHARS, AT(format_version)},
    {"", "model", NULL, NULL, FIGURE_STRING, AT(model)},
    {"", "from", NULL, NULL, FIGURE_STRING, AT(from)},
    {"", "to", NULL, NULL, FIGURE_STRING, AT(to)},
    {"", "cluster", NULL, NULL, FIGURE_STRING, AT(cluster)},
    {"", "devices", NULL, NULL, FIGURE_COUNT, AT(devices)},
    {"", "from_ranks", NULL, NULL, FIGURE_COUNT, AT(from_ranks)},
    {"", "to_ranks", NULL, NULL, FIGURE_COUNT, AT(to_ranks)},
    {"", "file_bytes", NULL, NULL, FIGURE_BYTES, AT(file_bytes)},

    {"bytes", "needed_remote", "needed remote", "new, and on no buffer of their device", FIGURE_BYTES,
     SUMMARY(needed_remote)},
    {"bytes", "moved", "moved", "each crossing counted", FIGURE_BYTES, SUMMARY(moved),
     "needed", SUMMARY(needed_remote)},
    {"bytes", "relayed", "relayed", "to devices that only send them on", FIGURE_BYTES, SUMMARY(relayed)},
    {"bytes", "forwarded", "forwarded", "out of new buffers", FIGURE_BYTES, SUMMARY(forwarded),
     "moved", SUMMARY(moved)},
    {"bytes", "local", "local", "found on the device: copied or kept", FIGURE_BYTES, SUMMARY(local)},
    {"bytes", "kept", "  kept in place", "of it, never touched", FIGURE_BYTES, SUMMARY(kept)},
    {"bytes", "parked", "  parked", "of it, in scratch memory for a while", FIGURE_BYTES, SUMMARY(parked)},
    {"bytes", "saved", "not sent", "as devices make it from another state", FIGURE_BYTES, SUMMARY(saved)},
    {"bytes", "intra_node", "inside nodes", NULL, FIGURE_BYTES, SUMMARY(intra_node), "moved", SUMMARY(moved)},
    {"bytes", "inter_node", "between nodes", NULL, FIGURE_BYTES, SUMMARY(inter_node), "moved", SUMMARY(moved)},
    {"bytes", "inter_node_lower_bound", "  lower bound", "between nodes", FIGURE_BYTES,
     SUMMARY(inter_node_lower_bound)},
    {"bytes", "filled", "filled pads", "set to zero", FIGURE_BYTES, SUMMARY(filled)},
    {"bytes", "max_send", "most sent", "by one device", FIGURE_BYTES, SUMMARY(max_send)},
    {"bytes", "max_recv", "most received", "by one device", FIGURE_BYTES, SUMMARY(max_recv)},

    {"time", "predicted", "predicted", NULL, FIGURE_SECONDS, SUMMARY(predicted_seconds)},
    {"time", "lower_bound", "lower bound", "no plan can beat it", FIGURE_SECONDS, SUMMARY(lower_bound_seconds)},
    {"time", "gap", "  gap", "predicted above it", FIGURE_RATIO, AT(gap)},
    {"time", "lower_bound_rounds", "rounds bound", "no rounds of these routes",
     FIGURE_SECONDS, SUMMARY(lower_bound_rounds_seconds)},
    {"time", "gap_rounds", "  gap", "predicted above it", FIGURE_RATIO, AT(gap_rounds)},

    {"memory", "cap", "cap", "on every device, at every moment", FIGURE_BYTES, SUMMARY(cap)},
    {"memory", "peak", "peak", NULL, FIGURE_BYTES, SUMMARY(peak), "cap", SUMMARY(cap)},
    {"memory", "peak_device", "  on device", NULL, FIGURE_COUNT, AT(peak_device)},
    {"memory", "peak_lower_bound", "  lower bound", "no plan has a lower peak", FIGURE_BYTES,
     SUMMARY(peak_lower_bound)},
    {"memory", "least_cap", "least cap", "a lower one is refused", FIGURE_BYTES, SUMMARY(least_cap)},
    {"memory", "staging", "staging", "all slots, inside the peak", FIGURE_BYTES, SUMMARY(staging)},
    {"memory", "from_max", "old side", "most of one device", FIGURE_BYTES, SUMMARY(from_max)},
    {"memory", "to_max", "new side", "most of one device", FIGURE_BYTES, SUMMARY(to_max)},
    {"memory", "host_peak", "host scratch", "most of one device at once", FIGURE_BYTES, SUMMARY(host_peak)},
    {"memory", "reserve", "reserve", "the user's, inside the peak", FIGURE_BYTES, SUMMARY(reserve)},
    {"memory", "transport", "transport", "its buffers, inside the peak", FIGURE_BYTES, SUMMARY(transport)},
    {"memory", "transport_per_peer", NULL, NULL, FIGURE_BYTES, SUMMARY(transport_per_peer)},

    {"place", "method", "method", NULL, FIGURE_CHARS, AT(place_method)},
    {"place", "moved_fixed", "moved if fixed", "needed remote as the new layout says", FIGURE_BYTES,
     AT(place_moved_fixed)},
    {"place", "cost", "cost", "on the links, summed over new ranks", FIGURE_SECONDS, AT(place_cost)},
    {"place", "bound", "  lower bound", "no choice of devices costs less", FIGURE_SECONDS, AT(place_bound)},
    {"place", "gap", "  gap", "cost above it", FIGURE_RATIO, AT(place_gap)},

    {"schedule", "method", "method", NULL, FIGURE_STRING, AT(method)},
    {"schedule", "rounds", "rounds", NULL, FIGURE_COUNT, AT(rounds)},
    {"schedule", "overlap_depth", "overlap depth", "staging slots in turn", FIGURE_COUNT, AT(overlap_depth)},
    {"schedule", "max_group_messages", "messages at once", "most of one device in a round", FIGURE_COUNT32,
     SUMMARY(max_group_messages)},
    {"schedule", "max_peers", "peers", "most of one device", FIGURE_COUNT32, SUMMARY(max_peers)},
    {"schedule", "ops", "operations", "allocations and frees included", FIGURE_COUNT, SUMMARY(ops)},
    {"schedule", "solver", "solver", NULL, FIGURE_STRING, AT(solver)},
    {"schedule", "solver_status", "  status", NULL, FIGURE_STRING, AT(solver_status)},
    {"schedule", "plan_seconds", NULL, NULL, FIGURE_SECONDS, AT(plan_seconds)},

    {"safety", "rollback_until_round", NULL, NULL, FIGURE_COUNT32, SUMMARY(rollback_until_round)},
    {"safety", "replicas_checked", NULL, NULL, FIGURE_FLAG32, SUMMARY(replicas_checked)},

    {"digests", "model", NULL, NULL, FIGURE_CHARS, AT(model_digest)},
    {"digests", "from", NULL, NULL, FIGURE_CHARS, AT(from_digest)},
    {"digests", "to", NULL, NULL, FIGURE_CHARS, AT(to_digest)},
    {"digests", "cluster", NULL, NULL, FIGURE_CHARS, AT(cluster_digest)},
};
/* clang-format on */
const size_t figure_count = sizeof(figure_table) / sizeof(figure_table[0]);

static double gap(double predicted, double bound)
{
    if (bound > 0)
        return predicted / bound - 1;
    return predicted > 0 ? NAN : 0;
}

static void get_names(const struct shunt_plan *plan, struct figures *out)
{
    const struct shunt_plan_summary *s = &out->summary;

    out->model = shunt_plan_string(plan, s->model);
    out->from = shunt_plan_string(plan, s->from);
    out->to = shunt_plan_string(plan, s->to);
    out->cluster = shunt_plan_string(plan, s->cluster);
    out->method = shunt_plan_string(plan, s->method);
    out->solver = shunt_plan_string(plan, s->solver);
    out->solver_status = shunt_plan_string(plan, s->solver_status);
}

static void get_header(const struct shunt_plan_header *header, struct figures *out)
{
    snprintf(out->format_version, sizeof(out->format_version), "%" PRIu32 ".%" PRIu32, header->version_major,
             header->version_minor);
    out->plan_id = fmt_hex(header->plan_id, SHUNT_PLAN_DIGEST_BYTES);
    out->model_digest = fmt_hex(header->model_digest, SHUNT_PLAN_DIGEST_BYTES);
    out->from_digest = fmt_hex(header->from_digest, SHUNT_PLAN_DIGEST_BYTES);
    out->to_digest = fmt_hex(header->to_digest, SHUNT_PLAN_DIGEST_BYTES);
    out->cluster_digest = fmt_hex(header->cluster_digest, SHUNT_PLAN_DIGEST_BYTES);
    out->devices = header->device_count;
    out->from_ranks = header->from_rank_count;
    out->to_ranks = header->to_rank_count;
    out->rounds = header->round_count;
    out->overlap_depth = header->overlap_depth;
    out->file_bytes = header->file_bytes;
}

static void get_placement(const struct shunt_plan *plan, struct figures *out)
{
    struct shunt_plan_placement placement = {.method = "fixed", .method_bytes = 5};

    out->placed = shunt_plan_get_placement(plan, &placement);
    snprintf(out->place_method, sizeof(out->place_method), "%.*s", (int)placement.method_bytes, placement.method);
    out->place_moved_fixed = out->placed ? placement.moved_fixed : out->summary.needed_remote;
    out->place_cost = out->placed ? 1e-12 * (double)placement.cost_picoseconds : NAN;
    out->place_bound = out->placed ? 1e-12 * (double)placement.bound_picoseconds : NAN;
    out->place_gap = out->placed ? gap((double)placement.cost_picoseconds, (double)placement.bound_picoseconds) : NAN;
}

void figures_get(const struct shunt_plan *plan, struct figures *out)
{
    const struct shunt_plan_summary *s = &out->summary;

    out->summary = *shunt_plan_get_summary(plan);
    get_header(shunt_plan_get_header(plan), out);
    get_names(plan, out);
    out->peak_device = s->peak_device < out->devices ? shunt_plan_get_device(plan, s->peak_device)->id : s->peak_device;
    get_placement(plan, out);
    out->gap = gap(s->predicted_seconds, s->lower_bound_seconds);
    out->gap_rounds = gap(s->predicted_seconds, s->lower_bound_rounds_seconds);
    out->plan_seconds = NAN;
}

/* ---- one figure ------------------------------------------------------------------ */

static const void *address(const struct figures *figures, const struct figure *figure)
{
    return (const char *)figures + figure->offset;
}

bool figure_is_text(const struct figure *figure)
{
    return figure->type == FIGURE_STRING || figure->type == FIGURE_CHARS;
}

static bool is_real(const struct figure *figure)
{
    return figure->type == FIGURE_SECONDS || figure->type == FIGURE_RATIO;
}

bool figure_is_whole(const struct figure *figure)
{
    return !figure_is_text(figure) && !is_real(figure);
}

uint64_t figure_whole(const struct figures *figures, const struct figure *figure)
{
    if (figure->type == FIGURE_COUNT32 || figure->type == FIGURE_FLAG32)
        return *(const uint32_t *)address(figures, figure);
    return *(const uint64_t *)address(figures, figure);
}

const char *figure_string(const struct figures *figures, const struct figure *figure)
{
    if (figure->type == FIGURE_CHARS)
        return address(figures, figure);
    return *(const char *const *)address(figures, figure);
}

double figure_number(const struct figures *figures, const struct figure *figure)
{
    if (is_real(figure))
        return *(const double *)address(figures, figure);
    return (double)figure_whole(figures, figure);
}

struct fmt_text figure_format(const struct figures *figures, const struct figure *figure)
{
    struct fmt_text text = {""};

    switch (figure->type) {
    case FIGURE_STRING:
    case FIGURE_CHARS:
        shunt_escape(text.s, sizeof(text.s), figure_string(figures, figure));
        return text;
    case FIGURE_BYTES:
        return fmt_bytes(figure_whole(figures, figure));
    case FIGURE_COUNT:
    case FIGURE_COUNT32:
    case FIGURE_FLAG32:
        return fmt_count(figure_whole(figures, figure));
    case FIGURE_SECONDS:
        return fmt_seconds(figure_number(figures, figure));
    case FIGURE_RATIO:
        return fmt_percent(figure_number(figures, figure));
    }
    return text;
}

/* ---- JSON ------------------------------------------------------------------------ */

void figure_json(struct json *json, const struct figures *figures, const struct figure *figure)
{
    if (figure_is_text(figure))
        json_string(json, figure_string(figures, figure));
    else if (is_real(figure))
        json_double(json, figure_number(figures, figure));
    else if (figure->type == FIGURE_FLAG32)
        json_bool(json, figure_whole(figures, figure) != 0);
    else
        json_u64(json, figure_whole(figures, figure));
}

void figures_json(struct json *json, const struct figures *figures)
{
    const char *section = "";

    for (size_t i = 0; i < figure_count; i++) {
        const struct figure *figure = &figure_table[i];
        if (strcmp(figure->section, section) != 0) {
            if (section[0] != '\0')
                json_object_end(json);
            section = figure->section;
            json_key(json, section);
            json_object_begin(json);
        }
        json_key(json, figure->key);
        figure_json(json, figures, figure);
    }
    json_object_end(json);
}
