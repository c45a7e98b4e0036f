/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHUNT_PLANNER_CLOCK_H
#define SHUNT_PLANNER_CLOCK_H

/**
 * Time of rounds on the ports of a cluster: one rule for schedules, for plans while they are made, and for plans in a
 * file. Ports are full duplex, each direction one by itself, and all work at once; so the group of a round takes as
 * long as its busiest port, with the costs of the messages of that device. What comes before the group on a device
 * (packs and local copies) takes as long as the device's own memory needs, or its link to the host; likewise what
 * comes behind (unpacks). With two slots the unpacks of round k-1 and the packs of round k+1 run beside the group of
 * round k; with one they follow each other.
 */

#include "space/world.h"

enum port_kind {
    PORT_NODE_OUT, /* to a device of the same node */
    PORT_NODE_IN,
    PORT_NET_OUT, /* to another node */
    PORT_NET_IN,
    PORT_POOL_OUT, /* of all devices of a node together, at the first of them; only where that is less than their sum */
    PORT_POOL_IN,
    PORT_PACK,       /* packs: bytes in the form that is sent */
    PORT_UNPACK,     /* unpacks: bytes written */
    PORT_COPY,       /* local copies: bytes written */
    PORT_HOST_READ,  /* from host memory, by packs and copies */
    PORT_HOST_COPY,  /* to host memory, by copies */
    PORT_HOST_WRITE, /* to host memory, by unpacks */
    PORT_KINDS
};

/** Name of a kind of port, for people ("network out"). */
extern const char *const port_names[PORT_KINDS];

/** What a machine takes for a byte; 0 where there is no limit. */
struct clock_rates {
    double seconds_per_byte[PORT_KINDS];
    double message; /* for a byte of one message between nodes */
    bool pooled;    /* POOL ports count */
};

struct clock_rates clock_rates(const struct cfg_machine *machine);

/** Seconds of one round. */
struct round_cost {
    double link; /* the busiest link, bytes alone */
    double wire; /* the same with the costs of messages */
    double before, behind;
};

/** Share of a device in a round. */
struct clock_share {
    const uint64_t *bytes; /* by kind */
    uint64_t longest;      /* bytes of its longest message to or from another node */
    uint32_t messages;     /* sends and receives */
};

/** Raise the costs of a round to what a device needs. */
void clock_raise(const struct clock_rates *rates, double message_seconds, const struct clock_share *share,
                 struct round_cost *cost);

/** Where the time goes: the parts add up to `total`. */
struct clock_sum {
    double total;
    double links;    /* the busiest link of each round */
    double messages; /* costs of messages on top of that */
    double copies;   /* packs, copies and unpacks that no group hides */
    double rounds;   /* costs of rounds */
};

struct clock_sum clock_total(const struct round_cost *costs, uint32_t round_count, uint32_t depth,
                             double round_seconds);

#endif
