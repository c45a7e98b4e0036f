/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHUNT_PLANNER_PLACE_SEATS_H
#define SHUNT_PLANNER_PLACE_SEATS_H

/**
 * The problem of placement: new ranks, the devices that may take them, and what each choice gains.
 *
 * A rank's cost on a device is linear: bytes that no device of the node holds come between nodes, others come
 * inside the node, and what the device holds costs nothing. Costs are whole numbers, bytes times a weight, so that
 * sums are exact. A gain is what a choice saves beside a device of a node that holds nothing:
 *
 *     cost = (need - in node) * between + (in node - on device) * inside
 *     gain = in node * (between - inside) + on device * inside
 */

#include "place/overlap.h"
#include "place/spots.h"
#include "place/teams.h"

#define SEATS_NO_CLASS UINT32_MAX

/** Devices [begin, begin + count) of the world. */
struct seats_node {
    uint32_t begin, count;
    uint32_t free_count; /* those that may take a new rank */
};

struct seats {
    const struct pair *pair;
    const struct world *world;
    const bool *free;      /* by device: it may take a new rank */
    const uint32_t *fixed; /* by new rank: its device as the layout says */
    const struct overlap *overlap;
    uint32_t node_count;
    struct seats_node *nodes;
    uint32_t *node_of;   /* by device: its node, counted densely */
    uint32_t *old_class; /* by device; SEATS_NO_CLASS: it has no old rank */
    struct teams teams;
    uint32_t most_free;      /* of one node */
    int64_t between, inside; /* cost of a byte */
    double unit_seconds;     /* of a cost of 1 */
};

/**
 * @return SHUNT_ERR_UNSUPPORTED when costs would not fit
 */
enum shunt_status seats_build(struct arena *arena, const struct pair *pair, const struct spots *spots,
                              struct seats **seats_out, struct shunt_err *err);

/**
 * Nodes with alike devices, in any order, are of one class: the same old classes.
 *
 * @param by_free    whether devices that may take a rank are told from others
 * @return the number of classes
 */
uint32_t seats_class_nodes(struct arena *arena, const struct seats *seats, bool by_free, uint32_t *class_out);

static inline const struct overlap_row *seats_row(const struct seats *seats, uint32_t new_rank)
{
    return &seats->overlap->rows[seats->overlap->new_class[new_rank]];
}

/** What a row of new ranks gains on a device. */
int64_t seats_gain(const struct seats *seats, const struct overlap_row *row, uint32_t device);

/** The cost of all new ranks if none gains anything. */
int64_t seats_cost_of_need(const struct seats *seats);

/** Figures of a placement, given as a device of the world for each new rank. */
struct seats_figures {
    uint64_t moved; /* bytes that their ranks' devices lack */
    int64_t cost;
};

struct seats_figures seats_figures(const struct seats *seats, const uint32_t *device_of);

#endif
