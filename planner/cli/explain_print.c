/* SPDX-License-Identifier: Apache-2.0 */
#include "explain_print.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#include "format.h"

/** The parts of the time on top of the bound. */
static const struct part {
    const char *key, *label, *note;
    size_t offset;
} parts[] = {
    {"routing", "routing", "the busiest link of these routes", offsetof(struct explanation, routing)},
    {"padding", "padding", "between the pieces of messages", offsetof(struct explanation, padding)},
    {"uneven_rounds", "uneven rounds", "links that are busiest in some round only",
     offsetof(struct explanation, uneven)},
    {"messages", "messages", "fixed costs", offsetof(struct explanation, messages)},
    {"rounds", "rounds", "fixed costs", offsetof(struct explanation, rounds)},
    {"copies", "packs and copies", "that no message hides", offsetof(struct explanation, copies)},
};
#define PART_COUNT (sizeof(parts) / sizeof(parts[0]))

static double seconds_of(const struct explanation *explanation, const struct part *part)
{
    return *(const double *)((const char *)explanation + part->offset);
}

/** The fullest device, its peak and its cap. */
struct fullest {
    const struct shunt_plan_device *device;
    uint64_t cap;
};

static struct fullest find_fullest(const struct shunt_plan *plan)
{
    const struct shunt_plan_summary *summary = shunt_plan_get_summary(plan);
    const struct shunt_plan_device *device = shunt_plan_get_device(plan, summary->peak_device);
    return (struct fullest){device, summary->cap - (uint64_t)device->cap_short * SHUNT_PLAN_SHORT_BYTES};
}

/* ---- page -------------------------------------------------------------------------- */

static void print_part(const char *label, double seconds, double predicted, const char *note)
{
    printf("  %-18s %11s %20s   %s\n", label, fmt_seconds(seconds).s,
           predicted > 0 ? fmt_percent(seconds / predicted).s : "", note);
}

static void print_port(const struct shunt_plan *plan, const struct explained_port *port, const char *head)
{
    const struct shunt_plan_device *device = shunt_plan_get_device(plan, port->device);
    printf("  %-18s %s of device %" PRIu32 " (node %" PRIu32 "), %s", head, port_names[port->kind], device->id,
           device->node, fmt_seconds(port->seconds).s);
}

/** "2 nodes, the first 3, through their network out: 4.0 GB" */
static void print_limit(const struct shunt_plan *plan, const char *head, const struct explained_limit *limit)
{
    const struct route_reason *reason = &limit->reason;
    if (reason->limit == LIMIT_NONE)
        return;
    bool nodes = limit_is_of_nodes(reason->limit);
    uint32_t id = nodes ? reason->first : shunt_plan_get_device(plan, reason->first)->id;
    printf("  %-18s %s must pass through %s of ", head, fmt_bytes(reason->bytes).s, limit_names[reason->limit]);
    if (reason->count > 1)
        printf("%s %s, the first of them ", fmt_count(reason->count).s, nodes ? "nodes" : "devices");
    printf("%s %" PRIu32 ": %s\n", nodes ? "node" : "device", id, fmt_seconds(limit->seconds).s);
}

static void print_memory(const struct shunt_plan *plan, const struct explanation *explanation)
{
    uint32_t rounds = shunt_plan_get_header(plan)->round_count;
    struct fullest fullest = find_fullest(plan);
    printf("  %-18s %s round%s, where staging asks for %s; %s;\n", "memory", fmt_count(rounds).s,
           rounds == 1 ? "" : "s", fmt_count(explanation->least_rounds).s,
           explanation->holds_old ? "the old side is held to the end" : "old buffers make room as rounds go");
    printf("  %-18s device %" PRIu32 " is the fullest, with %s of %s\n", "", fullest.device->id,
           fmt_bytes(fullest.device->peak_bytes).s, fmt_bytes(fullest.cap).s);
}

/** What goes over the network ports of devices that need nothing of it. */
static void print_relayed(const struct shunt_plan *plan)
{
    uint64_t relayed = shunt_plan_get_summary(plan)->relayed;
    if (relayed > 0)
        printf("  %-18s %s lie in scratch memory of devices that only send them on\n", "neighbours",
               fmt_bytes(relayed).s);
}

void explain_print(const struct explained *explained)
{
    const struct explanation *e = explained->explanation;
    if (e == NULL || e->port_count == 0)
        return;
    printf("\nwhy\n");
    print_port(explained->plan, &e->ports[0], e->bound ? "bound by" : "busiest");
    printf(" of %s\n", fmt_seconds(explained->predicted).s);
    if (isfinite(explained->lower_bound))
        print_part("lower bound", explained->lower_bound, explained->predicted, "no plan can beat it");
    for (size_t p = 0; p < PART_COUNT; p++) {
        if (seconds_of(e, &parts[p]) > 0)
            print_part(parts[p].label, seconds_of(e, &parts[p]), explained->predicted, parts[p].note);
    }
    if (!isfinite(explained->lower_bound)) /* of another cluster than that of the plan */
        return;
    print_limit(explained->plan, "any plan", &e->any_plan);
    print_limit(explained->plan, "without relays", &e->direct);
    print_relayed(explained->plan);
    print_memory(explained->plan, e);
}

/* ---- JSON -------------------------------------------------------------------------- */

static void json_port(struct json *json, const struct shunt_plan *plan, const struct explained_port *port)
{
    const struct shunt_plan_device *device = shunt_plan_get_device(plan, port->device);
    json_object_begin(json);
    json_key_string(json, "port", port_names[port->kind]);
    json_key_u64(json, "device", device->id);
    json_key_u64(json, "node", device->node);
    json_key(json, "seconds");
    json_double(json, port->seconds);
    json_object_end(json);
}

static void json_parts(struct json *json, const struct explained *explained)
{
    json_key(json, "seconds");
    json_object_begin(json);
    json_key(json, "lower_bound");
    json_double(json, explained->lower_bound);
    for (size_t p = 0; p < PART_COUNT; p++) {
        json_key(json, parts[p].key);
        json_double(json, seconds_of(explained->explanation, &parts[p]));
    }
    json_object_end(json);
}

static void json_limit(struct json *json, const struct shunt_plan *plan, const char *key,
                       const struct explained_limit *limit)
{
    const struct route_reason *reason = &limit->reason;
    json_key(json, key);
    if (reason->limit == LIMIT_NONE) {
        json_null(json);
        return;
    }
    bool nodes = limit_is_of_nodes(reason->limit);
    json_object_begin(json);
    json_key_string(json, "ports", limit_names[reason->limit]);
    json_key_u64(json, nodes ? "first_node" : "first_device",
                 nodes ? reason->first : shunt_plan_get_device(plan, reason->first)->id);
    json_key_u64(json, "count", reason->count);
    json_key_u64(json, "bytes", reason->bytes);
    json_key(json, "seconds");
    json_double(json, limit->seconds);
    json_object_end(json);
}

static void json_memory(struct json *json, const struct explained *explained)
{
    struct fullest fullest = find_fullest(explained->plan);
    json_key(json, "memory");
    json_object_begin(json);
    json_key_u64(json, "device", fullest.device->id);
    json_key_u64(json, "peak", fullest.device->peak_bytes);
    json_key_u64(json, "cap", fullest.cap);
    json_key_bool(json, "old_side_held", explained->explanation->holds_old);
    json_key_u64(json, "least_rounds", explained->explanation->least_rounds);
    json_object_end(json);
}

void explain_json(struct json *json, const struct explained *explained)
{
    const struct explanation *e = explained->explanation;
    json_key(json, "explain");
    if (e == NULL) {
        json_null(json);
        return;
    }
    json_object_begin(json);
    json_key(json, "bound_by");
    if (e->bound)
        json_port(json, explained->plan, &e->ports[0]);
    else
        json_null(json);
    json_parts(json, explained);
    json_key(json, "ports");
    json_array_begin(json);
    for (uint32_t p = 0; p < e->port_count; p++)
        json_port(json, explained->plan, &e->ports[p]);
    json_array_end(json);
    json_key(json, "limits");
    json_object_begin(json);
    json_limit(json, explained->plan, "any_plan", &e->any_plan);
    json_limit(json, explained->plan, "direct", &e->direct);
    json_object_end(json);
    json_memory(json, explained);
    json_object_end(json);
}

/* ---- of a plan ----------------------------------------------------------------------- */

static struct explained read_plan(const struct shunt_plan *plan, struct explanation *explanation)
{
    const struct shunt_plan_summary *summary = shunt_plan_get_summary(plan);
    uint32_t devices = shunt_plan_get_header(plan)->device_count;
    bool says = explain_read(shunt_plan_explanation(plan), devices, explanation);
    return (struct explained){.plan = plan,
                              .predicted = summary->predicted_seconds,
                              .lower_bound = summary->lower_bound_seconds,
                              .explanation = says ? explanation : NULL};
}

void explain_print_plan(const struct shunt_plan *plan)
{
    struct explanation explanation;
    const struct explained explained = read_plan(plan, &explanation);
    explain_print(&explained);
}

void explain_json_plan(struct json *json, const struct shunt_plan *plan)
{
    struct explanation explanation;
    const struct explained explained = read_plan(plan, &explanation);
    explain_json(json, &explained);
}
