/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHUNT_PLANNER_EXPLAIN_H
#define SHUNT_PLANNER_EXPLAIN_H

/**
 * Why a plan takes as long as it is predicted to. The time that no plan can beat and six parts on top of it add up to
 * the prediction:
 *
 *     lower bound | routing | padding | uneven rounds | messages | rounds | copies
 *     ----------- busiest link -------|
 *     ---- busiest link of each round, summed up -----|
 *
 * A plan carries it as text, because the rates that it comes from are not in the plan: see plan-format.md, 2.3.
 */

#include <stddef.h>

#include "emit/timing.h"

struct explained_port {
    enum port_kind kind;
    uint32_t device;
    double seconds; /* over all rounds */
};

/** Ports that set a time, and what must pass through them. */
struct explained_limit {
    double seconds;
    struct route_reason reason; /* LIMIT_NONE: the plan does not say */
};

/** Name of what the ports of a limit carry, for people ("network out"); NULL: none. */
extern const char *const limit_names[LIMIT_KINDS];

/** Whether the ports of a limit are those of nodes, not of devices. */
static inline bool limit_is_of_nodes(enum route_limit limit)
{
    return limit == LIMIT_NODE_IN || limit == LIMIT_NODE_OUT;
}

struct explanation {
    double routing;                  /* the busiest link of these routes above the lower bound */
    double padding;                  /* of it, what lies between the pieces of messages */
    double uneven;                   /* links that are busiest in some round, above the one that is busiest in all */
    double messages;                 /* costs of messages */
    double rounds;                   /* costs of rounds */
    double copies;                   /* packs, copies and unpacks that no message hides */
    bool holds_old;                  /* the old side lives to the end: memory costs no time */
    uint64_t least_rounds;           /* as the staging asks for, at least */
    struct explained_limit any_plan; /* what sets the lower bound */
    struct explained_limit direct;   /* the same of routes without relays, of which no choice of sources is faster */
    bool bound;                      /* ports[0] is the busiest link */
    uint32_t port_count;
    struct explained_port ports[PORT_KINDS]; /* the busiest of each kind, by ascending kind but for ports[0] */
};

struct explanation explain_build(const struct timing *timing, double lower_bound, bool holds_old);

/** Add what sets the bounds. */
void explain_limits(const struct route *route, struct explanation *explanation);

#define EXPLAIN_TEXT_BYTES 2048

void explain_write(const struct explanation *explanation, char text[EXPLAIN_TEXT_BYTES]);

/** @return false when the text is no explanation of a plan of so many devices; NULL is none */
bool explain_read(const char *text, uint32_t device_count, struct explanation *explanation_out);

#endif
