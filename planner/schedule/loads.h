/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHUNT_PLANNER_LOADS_H
#define SHUNT_PLANNER_LOADS_H

/**
 * What each chunk of each job asks of the ports of its devices. The time of a round is that of its busiest
 * port.
 */

#include "schedule/ports.h"

/** Share of a unit at one port. */
struct load {
    uint32_t port; /* as in struct ports */
    uint64_t bytes;
    double seconds;
};

struct loads {
    uint32_t unit_count, port_count;
    struct unit *units;     /* by job, then chunk */
    uint32_t *begin;        /* unit_count + 1: loads of unit u are [begin[u], begin[u + 1]) */
    struct load *loads;     /* ascending port within a unit */
    uint64_t load_count;    /* of all devices, kept or not */
    double *total;          /* by port: seconds of all units */
    uint64_t *staged;       /* by device: bytes sent and received by all units, aligned */
    double busiest_seconds; /* of the links: no rounds of these routes are faster */
    double copy_seconds;    /* of the device that packs and unpacks most */
    double later_seconds;   /* of the wire port that is busiest with what is sent on, stage by stage; the sum */
    uint32_t most_messages; /* pairs of a device with another, each direction for itself, of the device with most */
};

/** Cut all jobs with rounds_cut_job(chunk_bytes) and list the loads of the chunks. */
struct loads *loads_build(struct arena *arena, const struct problem *problem, uint64_t chunk_bytes);

/**
 * The same, with the loads of the first of all twins alone (twins.h); totals are those of all devices.
 *
 * @param other  loads of the same problem, from which what does not depend on the chunks is taken; NULL: none
 */
struct loads *loads_build_few(struct arena *arena, const struct problem *problem, uint64_t chunk_bytes,
                              const struct loads *other);

#endif
