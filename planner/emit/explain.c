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

void explain_write(const struct explanation *explanation, char text[EXPLAIN_TEXT_BYTES])
{
    size_t at = (size_t)snprintf(text, EXPLAIN_TEXT_BYTES, HEAD);
    for (size_t n = 0; n < NUMBER_COUNT; n++)
        at += (size_t)snprintf(text + at, EXPLAIN_TEXT_BYTES - at, "%s\t%.17g\n", numbers[n].key,
                               *(const double *)((const char *)explanation + numbers[n].offset));
    at += (size_t)snprintf(text + at, EXPLAIN_TEXT_BYTES - at, "holds\t%d\nleast\t%llu\n", explanation->holds_old,
                           (unsigned long long)explanation->least_rounds);
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
    if (at == NULL)
        return false;
    out.holds_old = holds > 0;
    out.least_rounds = (uint64_t)least;
    while (at != NULL && *at != '\0')
        at = take_port(at, device_count, &out);
    out.bound = out.port_count > 0 && port_is_link(out.ports[0].kind);
    *explanation_out = out;
    return at != NULL;
}
