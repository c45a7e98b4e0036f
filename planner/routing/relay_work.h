/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHUNT_PLANNER_RELAY_WORK_H
#define SHUNT_PLANNER_RELAY_WORK_H

/** What the parts of relay.c share: sources under construction, cell by cell and item by item. */

#include "routing/relay_cells.h"
#include "routing/relay_ports.h"

#define RELAY_UNSUPPLIED UINT32_MAX /* the source of a gateway that waits for one */

/** A cell, with what tells in which order they choose. */
struct relay_task {
    uint64_t bytes; /* of its widest item */
    uint32_t type, cell;
    bool choice; /* of a source or of a gateway */
};

/** A device in a queue; of those that are alike, the lower number comes first. */
struct relay_queued {
    uint32_t device, number;
};

struct relay {
    struct route *route;
    struct cells *cells; /* by type */
    struct relay_ports ports;
    struct relay_run *runs; /* of the cell at hand */
    size_t task_count;
    struct relay_task *tasks;
    uint32_t **widest_first; /* by type: indices of its items */
    /* of cells that several nodes need, by device: bytes that holders send at least, and that they would send if no
       gateway sent any on; what they may send */
    uint64_t *entering, *wanted, out_limit;
    uint64_t *sent; /* by device: what it sends at least, over the network */
    /* by device: what it should still send of the class at hand, over the network; NULL where devices take turns */
    int64_t *left;
    bool by_quota;
    struct relay_queued *waiting, *senders; /* room for all devices */
};

/** One item of the cell at hand. */
struct relay_target {
    struct route_type *type;
    uint32_t *sources; /* by piece */
    uint64_t bytes;
};

struct relay_target relay_target_of(const struct relay *relay, const struct relay_task *task, uint32_t index);

/** List the runs of a task's cell in relay->runs. @return their number */
uint32_t relay_list_task(struct relay *relay, const struct relay_task *task);

/** Runs of the cell at hand that it must enter. */
uint32_t relay_count_needy(const struct relay *relay, uint32_t run_count);

void relay_set_source(struct relay *relay, const struct relay_target *target, uint32_t piece, uint32_t source,
                      uint32_t stage);

/** Bring the gateway of a run its piece from a holder, and from there the others theirs. */
void relay_supply_run(struct relay *relay, const struct relay_target *target, const struct relay_run *run);

/** The same of all runs whose gateways wait: `direct` of them from holders, the others from the gateways of those. */
void relay_supply_runs(struct relay *relay, const struct relay_target *target, uint32_t run_count, uint32_t direct);

/** Supply all cells that must enter nodes so that no port sends more than it must; see relay_quota.h. */
void relay_supply_by_quota(struct arena *arena, struct relay *relay, double start);

#endif
