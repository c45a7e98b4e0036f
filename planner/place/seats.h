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
 *
 * Nodes may be unlike: the rates are those of the device that receives, and a gain is what a choice saves beside a
 * device of the slowest node that holds nothing. Where devices have unlike memory, ranks may be kept off those that
 * cannot hold them (seats_keep_room()).
 */

#include "place/overlap.h"
#include "place/spots.h"
#include "place/teams.h"

#define SEATS_NO_CLASS UINT32_MAX

/** Devices [begin, begin + count) of the world. */
struct seats_node {
    uint32_t begin, count;
    uint32_t free_count;     /* those that may take a new rank */
    uint32_t machine;        /* what its devices are like */
    int64_t between, inside; /* cost of a byte */
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
    uint32_t most_free;   /* of one node */
    int64_t between;      /* cost of a byte between nodes on the slowest of them */
    double unit_seconds;  /* of a cost of 1 */
    bool unlike;          /* some nodes cost more than others: they all count, not those alone that hold something */
    uint64_t *room;       /* by device: most bytes of a new rank; NULL: all have as much */
    uint64_t *rank_bytes; /* by new rank, if there is room */
    int64_t fit_gain;     /* what a choice gains if the rank fits; 0: that is not asked */
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

/** Whether a device has the memory that a new rank needs. */
static inline bool seats_fits(const struct seats *seats, uint32_t new_rank, uint32_t device)
{
    return seats->room == NULL || seats->rank_bytes[new_rank] <= seats->room[device];
}

/** What a new rank gains on a device, if that has `own` bytes of its row and the node `here`. */
static inline int64_t seats_gain_of(const struct seats *seats, uint32_t new_rank, uint32_t device, uint64_t here,
                                    uint64_t own)
{
    const struct seats_node *node = &seats->nodes[seats->node_of[device]];
    int64_t gain = (int64_t)here * (node->between - node->inside) + (int64_t)own * node->inside;
    gain += (int64_t)seats_row(seats, new_rank)->need * (seats->between - node->between);
    return seats->fit_gain > 0 && seats_fits(seats, new_rank, device) ? gain + seats->fit_gain : gain;
}

/** Nodes on which a new rank may gain something: those that hold something for it, or all. */
static inline uint32_t seats_nodes_of(const struct seats *seats, uint32_t new_rank)
{
    return seats->unlike || seats->fit_gain > 0 ? seats->node_count : seats_row(seats, new_rank)->node_count;
}

static inline uint32_t seats_node_of(const struct seats *seats, uint32_t new_rank, uint32_t i)
{
    return seats->unlike || seats->fit_gain > 0 ? i : seats_row(seats, new_rank)->nodes[i].key;
}

/** What a new rank gains on a device. */
int64_t seats_gain(const struct seats *seats, uint32_t new_rank, uint32_t device);

/**
 * From now on a choice on which more ranks fit gains more than any other.
 *
 * @return false where such gains would be too large for sums; nothing is changed then
 */
bool seats_keep_room(struct seats *seats);

/** From now on no device is free that cannot hold every new rank. @return whether enough are left */
bool seats_drop_small(struct arena *arena, struct seats *seats);

/** The cost of all new ranks if none gains anything. */
int64_t seats_cost_of_need(const struct seats *seats);

/** Figures of a placement, given as a device of the world for each new rank. */
struct seats_figures {
    uint64_t moved; /* bytes that their ranks' devices lack */
    int64_t cost;
};

struct seats_figures seats_figures(const struct seats *seats, const uint32_t *device_of);

#endif
