/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHUNT_PLANNER_QUOTA_GROUPS_H
#define SHUNT_PLANNER_QUOTA_GROUPS_H

/** What takers want of whom, grouped by who may send it, and the ports that it passes: what quotas are found for. */

#include "routing/classes.h"
#include "routing/rates.h"

#define QUOTA_NETWORK UINT32_MAX /* in place of a node: from any node to another one */

/** What one taker wants of a class. */
struct quota_demand {
    uint32_t set, node; /* of holders; the taker's node when some of them are in it, else QUOTA_NETWORK */
    uint32_t taker, class;
    uint32_t at; /* of the taker in the class */
};

/** Demands of one set of holders. They follow each other, and those of one taker too. */
struct quota_group {
    uint32_t begin, end;
    bool network;
    uint32_t holder_count;
    const uint32_t *holders; /* ascending */
    int64_t want;
    int64_t *quota; /* by holder: bytes that it sends; 0 until they are found */
};

/** Ports of one kind. */
struct quota_ports {
    int64_t *in, *out, *sent; /* bytes by device: wanted, promised by quotas, sent by the pieces dealt so far */
    double *rate;             /* by device */
};

struct quota_groups {
    const struct classes *classes;
    uint32_t demand_count, count;
    struct quota_demand *demands;
    struct quota_group *groups;
    struct quota_ports ports[2]; /* inside nodes; on the network */
};

void quota_groups_build(struct arena *arena, const struct classes *classes, struct quota_groups *groups_out);

static inline int64_t quota_demand_bytes(const struct quota_groups *groups, uint32_t demand)
{
    return (int64_t)groups->classes->classes[groups->demands[demand].class].bytes;
}

#endif
