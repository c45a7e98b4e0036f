/* SPDX-License-Identifier: Apache-2.0 */
#include "emit/explain.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "shunt/plan_format.h"

/* ---- the parts ---------------------------------------------------------------------- */

static void list_ports(const struct timing *timing, struct explanation *out)
{
    for (enum port_kind kind = 0; kind < PORT_KINDS; kind++) {
        const struct timing_port *port = &timing->busiest[kind];
        if (port->seconds > 0)
            out->ports[out->port_count++] =
                (struct explained_port){.kind = kind, .device = port->device, .seconds = port->seconds};
    }
    uint32_t first = 0;
    for (uint32_t p = 1; p < out->port_count && port_is_link(out->ports[p].kind); p++)
        first = out->ports[p].seconds > out->ports[first].seconds ? p : first;
    out->bound = out->port_count > 0 && port_is_link(out->ports[0].kind);
    const struct explained_port port = out->ports[first];
    for (uint32_t p = first; p > 0; p--)
        out->ports[p] = out->ports[p - 1];
    out->ports[0] = port;
}

struct explanation explain_build(const struct timing *timing, double lower_bound, bool holds_old)
{
    struct explanation out = {.padding = timing->padding_seconds,
                              .messages = timing->sum.messages,
                              .rounds = timing->sum.rounds,
                              .copies = timing->sum.copies,
                              .holds_old = holds_old,
                              .least_rounds = timing->least_rounds};
    list_ports(timing, &out);
    double busiest = out.bound ? out.ports[0].seconds : 0;
    out.uneven = timing->sum.links > busiest ? timing->sum.links - busiest : 0;
    out.routing = busiest - out.padding - lower_bound;
    if (out.routing < 0) { /* copies are in the bound, and bind */
        out.copies = fmax(out.copies + out.routing, 0);
        out.routing = 0;
    }
    return out;
}

void explain_limits(const struct route *route, struct explanation *explanation)
{
    explanation->any_plan = (struct explained_limit){route->figures.lower_bound_seconds, route->figures.lower_bound};
    explanation->direct = (struct explained_limit){route->quotas.least_seconds, route->quotas.least};
}

const char *const limit_names[LIMIT_KINDS] = {
    [LIMIT_INSIDE_IN] = "node in",
    [LIMIT_INSIDE_OUT] = "node out",
    [LIMIT_NETWORK_IN] = "network in",
    [LIMIT_NETWORK_OUT] = "network out",
    [LIMIT_DEVICE_IN] = "all ports in",
    [LIMIT_DEVICE_OUT] = "all ports out",
    [LIMIT_NODE_IN] = "node's network in",
    [LIMIT_NODE_OUT] = "node's network out",
    [LIMIT_COPY] = "copies",
    [LIMIT_HOST] = "host memory",
};

/* ---- as text -------------------------------------------------------------------------- */

#define HEAD "explain\n"

static const struct {
    const char *key;
    size_t offset;
} numbers[] = {
    {"routing", offsetof(struct explanation, routing)}, {"padding", offsetof(struct explanation, padding)},
    {"uneven", offsetof(struct explanation, uneven)},   {"messages", offsetof(struct explanation, messages)},
    {"rounds", offsetof(struct explanation, rounds)},   {"copies", offsetof(struct explanation, copies)},
};
#define NUMBER_COUNT (sizeof(numbers) / sizeof(numbers[0]))

/* Bytes of the line. */
static size_t write_limit(const char *head, const struct explained_limit *limit, char *text, size_t room)
{
    const struct route_reason *reason = &limit->reason;
    if (reason->limit == LIMIT_NONE)
        return 0;
    return (size_t)snprintf(text, room, "%s\t%s\t%u\t%u\t%llu\t%.17g\n", head, limit_names[reason->limit],
                            reason->first, reason->count, (unsigned long long)reason->bytes, limit->seconds);
}

void explain_write(const struct explanation *explanation, char text[EXPLAIN_TEXT_BYTES])
{
    size_t at = (size_t)snprintf(text, EXPLAIN_TEXT_BYTES, HEAD);
    for (size_t n = 0; n < NUMBER_COUNT; n++)
        at += (size_t)snprintf(text + at, EXPLAIN_TEXT_BYTES - at, "%s\t%.17g\n", numbers[n].key,
                               *(const double *)((const char *)explanation + numbers[n].offset));
    at += (size_t)snprintf(text + at, EXPLAIN_TEXT_BYTES - at, "holds\t%d\nleast\t%llu\n", explanation->holds_old,
                           (unsigned long long)explanation->least_rounds);
    at += write_limit("any plan", &explanation->any_plan, text + at, EXPLAIN_TEXT_BYTES - at);
    at += write_limit("direct", &explanation->direct, text + at, EXPLAIN_TEXT_BYTES - at);
    for (uint32_t p = 0; p < explanation->port_count; p++) {
        const struct explained_port *port = &explanation->ports[p];
        at += (size_t)snprintf(text + at, EXPLAIN_TEXT_BYTES - at, "%s\t%u\t%.17g\n", port_names[port->kind],
                               port->device, port->seconds);
    }
}

/* Behind a word and the tab that follows it; NULL if the text goes on otherwise. */
static const char *behind(const char *at, const char *word)
{
    size_t length = strlen(word);
    return strncmp(at, word, length) == 0 && at[length] == '\t' ? at + length + 1 : NULL;
}

/* A number of 0 or more, and what ends it; NULL if there is none. */
static const char *take_number(const char *at, char end, double most, double *out)
{
    char *stop;
    if (at == NULL || *at < '0' || *at > '9')
        return NULL;
    *out = strtod(at, &stop);
    return *stop == end && *out <= most ? stop + 1 : NULL;
}

static const char *take_port(const char *at, uint32_t device_count, struct explanation *out)
{
    double device;
    const char *value = NULL;
    enum port_kind kind = 0;
    while (kind < PORT_KINDS && (value = behind(at, port_names[kind])) == NULL)
        kind++;
    if (out->port_count == PORT_KINDS || kind == PORT_KINDS)
        return NULL;
    struct explained_port *port = &out->ports[out->port_count++];
    at = take_number(value, '\t', device_count - 1, &device);
    at = take_number(at, '\n', HUGE_VAL, &port->seconds);
    if (at == NULL)
        return NULL;
    port->kind = kind;
    port->device = (uint32_t)device;
    return at;
}

/* A limit, which may be left out; NULL if there is something else behind its head. */
static const char *take_limit(const char *at, const char *head, struct explained_limit *out)
{
    double first, count, bytes;
    const char *value = behind(at, head), *rest = NULL;
    enum route_limit limit = LIMIT_NONE;
    if (value == NULL)
        return at;
    while (rest == NULL && ++limit < LIMIT_KINDS)
        rest = behind(value, limit_names[limit]);
    rest = take_number(rest, '\t', UINT32_MAX, &first);
    rest = take_number(rest, '\t', UINT32_MAX, &count);
    rest = take_number(rest, '\t', 0x1p63, &bytes);
    rest = take_number(rest, '\n', HUGE_VAL, &out->seconds);
    if (rest != NULL)
        out->reason = (struct route_reason){limit, (uint32_t)first, (uint32_t)count, (uint64_t)bytes};
    return rest;
}

/* Of the limits, those of devices must name one of the plan. */
static bool names_device(const struct explained_limit *limit, uint32_t device_count)
{
    return limit_is_of_nodes(limit->reason.limit) || limit->reason.first < device_count;
}

bool explain_read(const char *text, uint32_t device_count, struct explanation *explanation_out)
{
    struct explanation out = {0};
    double holds, least;
    if (text == NULL || strncmp(text, HEAD, strlen(HEAD)) != 0)
        return false;
    const char *at = text + strlen(HEAD);
    for (size_t n = 0; at != NULL && n < NUMBER_COUNT; n++)
        at = take_number(behind(at, numbers[n].key), '\n', HUGE_VAL, (double *)((char *)&out + numbers[n].offset));
    at = at == NULL ? NULL : take_number(behind(at, "holds"), '\n', 1, &holds);
    at = at == NULL ? NULL : take_number(behind(at, "least"), '\n', SHUNT_PLAN_MAX_ROUNDS, &least);
    at = at == NULL ? NULL : take_limit(at, "any plan", &out.any_plan);
    at = at == NULL ? NULL : take_limit(at, "direct", &out.direct);
    if (at == NULL || !names_device(&out.any_plan, device_count) || !names_device(&out.direct, device_count))
        return false;
    out.holds_old = holds > 0;
    out.least_rounds = (uint64_t)least;
    while (at != NULL && *at != '\0')
        at = take_port(at, device_count, &out);
    out.bound = out.port_count > 0 && port_is_link(out.ports[0].kind);
    *explanation_out = out;
    return at != NULL;
}
