/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHUNT_PLANNER_METER_H
#define SHUNT_PLANNER_METER_H

/** Adds up, round by round, what transfers ask of the ports, and says what each round costs. */

#include "schedule/ports.h"

struct meter {
    struct ports ports;
    double message_seconds;
    uint32_t *messages;    /* by device: sends and receives of the open round */
    uint64_t *longest;     /* by device: bytes of its longest message to or from another node in that round */
    uint64_t *total;       /* by port: bytes of the closed rounds */
    uint32_t *closed;      /* by device: 1 + the last round that was closed with it */
    uint32_t closed_count; /* rounds */
};

void meter_init(struct arena *arena, const struct problem *problem, struct meter *meter_out);

/** Add a transfer to the open round. @param message  bytes of its message so far, this transfer included; 0: local */
void meter_add(struct arena *arena, struct meter *meter, const struct port_use *use, uint64_t message);

/** Add the copies of what is parked: all are made in the first round. */
void meter_add_parks(struct arena *arena, struct meter *meter);

/** Cost of the open round; the next one is open then. */
struct round_cost meter_close(struct meter *meter);

#endif
