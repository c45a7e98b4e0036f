/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHUNT_PLANNER_ROUTE_H
#define SHUNT_PLANNER_ROUTE_H

/**
 * Routing: from two sides to pieces with a chosen source each.
 *
 * All items with the same old and the same new placement, made the same way, form a type: they are
 * intersected once. A cell is the intersection of one old holding with one new holding; a piece is a cell
 * that one device must get, either from its own old buffer (local) or from one of the holders.
 * Only the choice of the source is made per item, to spread load over replicas.
 *
 * An item may be derived from another one (weights from their master): then "old" means the old side of
 * that other item. Where the new side of that one covers a cell on the taker itself, the piece is made
 * from there once it has arrived, and is never sent: it is fresh.
 *
 * Takers may send on what they have received: a piece then comes from the new buffer of another taker of
 * its cell, one stage later than that one's own piece (relay.h). So may devices that need nothing of it, for
 * the sake of their network ports: a piece that they take is passing, and lies in scratch memory until it has
 * been sent on (pool.h).
 */

#include "space/world.h"

/** A holding that contains a cell, by its place in its placement. */
struct route_holding {
    uint32_t variant, index;
};

/** Part of a new holding that a fixed set of old holdings contains: several where copies are cut unlike. */
struct route_cell {
    struct box box;
    int64_t elements;
    uint32_t number; /* cells of a type count up from 0 */
    uint32_t to_variant, to_holding;
    uint32_t holding_count;
    const struct route_holding *holdings; /* of the old side; distinct variants */
    uint32_t fresh_count;
    const struct route_holding *fresh; /* the same of the new side of what the item is derived from, if any */
};

/** A device that holds a variant of a type's items. */
struct route_member {
    uint32_t device;
    uint32_t variant;
    bool kept; /* of owners and takers: the old buffer is the new buffer, byte for byte (pads aside) */
};

struct route_piece {
    const struct route_cell *cell;
    uint32_t taker;           /* device */
    bool fresh;               /* a local copy from the new buffer of what the item is derived from */
    bool joined;              /* pieces of its cell may come from each other: all have one spread */
    bool passing;             /* the taker only sends it on */
    bool passed;              /* from a device where it is passing */
    uint32_t candidate_count; /* devices that hold the cell; 0: the taker itself holds it (a local copy) */
    const uint32_t *candidates;
};

/** What tells types apart. Placements of sides that do not keep the item are SIDE_KEEPS_NONE. */
struct route_key {
    uint32_t from, to; /* of what is read on the old side, of the item on the new one */
    uint32_t own;      /* of the item on the old side */
    uint32_t fresh;    /* of what is read on the new side, where pieces may be fresh */
    bool rewritten;    /* cast, derived or moved to another memory: no buffer can be kept */
    bool derived;      /* from another item */
};

struct route_type {
    struct route_key key;
    uint32_t group; /* number that types have in common whose items lie alike */
    uint32_t item_count;
    uint32_t *items;                /* ascending */
    uint64_t wire_bytes, new_bytes; /* sums over the items: one element of all of them when sent, and on the new side */
    uint32_t giver_count, owner_count, taker_count, piece_count, cell_count;
    struct route_member *givers; /* ascending device: old holders of what is read */
    struct route_member *owners; /* ascending device: old holders of the items; the givers, unless derived */
    struct route_member *takers; /* ascending device: new holders of the items */
    struct route_piece *pieces;
    uint32_t *spreads; /* by piece, unlike for pieces that share a device (spread.h): deals them into groups */
    uint32_t
        *sources; /* by [index in items][piece]: route_at() of the device that sends, the taker itself for a copy */
};

/** Ports that set a time: those of routes without relays and those of any plan. */
enum route_limit {
    LIMIT_NONE,
    LIMIT_INSIDE_IN, /* of devices: from others of their node */
    LIMIT_INSIDE_OUT,
    LIMIT_NETWORK_IN, /* of devices: from other nodes */
    LIMIT_NETWORK_OUT,
    LIMIT_DEVICE_IN, /* of devices: from all others */
    LIMIT_DEVICE_OUT,
    LIMIT_NODE_IN, /* of nodes: from all others */
    LIMIT_NODE_OUT,
    LIMIT_COPY, /* of devices: what writes their buffers */
    LIMIT_HOST, /* of devices: the memory of their hosts */
    LIMIT_KINDS
};

/** What must pass through some ports and no others. */
struct route_reason {
    enum route_limit limit;
    uint32_t first, count; /* the first of the devices or nodes whose ports they are, and their number */
    uint64_t bytes;
};

/** What the choice of routes costs, and what no choice can beat. Bytes are payload. */
struct route_figures {
    uint64_t needed_remote, moved, local, kept, filled, intra_node, inter_node;
    uint64_t inter_node_lower_bound; /* each byte enters each node that lacks it once */
    uint64_t saved;                  /* not sent, because it is derived; 0 if more is */
    uint64_t forwarded;              /* of those moved: by a device that received or made them before */
    uint64_t relayed;                /* of those moved: to a device that only sends them on */
    uint64_t max_send, max_recv;     /* over devices */
    uint64_t max_missing;            /* most bytes one device must get */
    double lower_bound_seconds;      /* no plan with this placement is faster */
    struct route_reason lower_bound; /* why */
};

/** How near the sources that were chosen come to the best ones, without relays. */
struct route_quotas {
    double least_seconds; /* no choice of sources is faster */
    double seconds;       /* of the busiest port with the sources that were chosen */
    struct route_reason least;
};

struct route {
    const struct space *space;
    const struct side *from, *to;
    const struct world *world;
    uint32_t type_count;
    struct route_type *types;
    uint32_t *item_type;  /* by item: its type */
    uint32_t *item_index; /* by item: its place in the type's items */
    struct route_figures figures;
    struct route_quotas quotas;
};

/**
 * @return SHUNT_ERR_INPUT when some element of the new side has no holder (err names tensor, box and rank),
 *         SHUNT_ERR_UNSUPPORTED when there are more pieces than memory
 */
enum shunt_status route_build(struct arena *arena, const struct space *space, const struct side *from,
                              const struct side *to, const struct world *world, struct route **route_out,
                              struct shunt_err *err);

/** Stages of pieces: what is of stage 0 comes from the old side, or from the new side of another item. */
#define ROUTE_STAGES      4u
#define ROUTE_STAGE_SHIFT 30 /* devices are fewer than 2^20 */

static inline uint32_t route_at(uint32_t device, uint32_t stage)
{
    return device | stage << ROUTE_STAGE_SHIFT;
}

static inline uint32_t route_device(uint32_t at)
{
    return at & ((UINT32_C(1) << ROUTE_STAGE_SHIFT) - 1);
}

/** Source of a piece for the item at `index` of its type. */
static inline uint32_t route_source(const struct route_type *type, uint32_t index, uint32_t piece)
{
    return route_device(type->sources[(size_t)index * type->piece_count + piece]);
}

/** Stage of a piece; above 0 it comes from the new buffer of its source. */
static inline uint32_t route_stage(const struct route_type *type, uint32_t index, uint32_t piece)
{
    return type->sources[(size_t)index * type->piece_count + piece] >> ROUTE_STAGE_SHIFT;
}

/** Placements of a type; NULL where there is none. */
static inline const struct placement *route_placement(const struct side *side, uint32_t placement)
{
    return placement == SIDE_KEEPS_NONE ? NULL : &side->placements[placement];
}

static inline const struct placement *route_from(const struct route *route, const struct route_type *type)
{
    return route_placement(route->from, type->key.from);
}

static inline const struct placement *route_to(const struct route *route, const struct route_type *type)
{
    return route_placement(route->to, type->key.to);
}

static inline const struct placement *route_own(const struct route *route, const struct route_type *type)
{
    return route_placement(route->from, type->key.own);
}

static inline const struct placement *route_fresh(const struct route *route, const struct route_type *type)
{
    return route_placement(route->to, type->key.fresh);
}

/** The one of some members, ascending by device, that is this device; NULL if none is. */
static inline const struct route_member *route_find_member(const struct route_member *members, uint32_t count,
                                                           uint32_t device)
{
    uint32_t lo = 0, hi = count;
    while (lo < hi) {
        uint32_t middle = (lo + hi) / 2;
        if (members[middle].device < device)
            lo = middle + 1;
        else
            hi = middle;
    }
    return lo < count && members[lo].device == device ? &members[lo] : NULL;
}

/** The one of some holdings that is of this variant; NULL if none is. */
static inline const struct route_holding *route_find_holding(const struct route_holding *holdings, uint32_t count,
                                                             uint32_t variant)
{
    for (uint32_t h = 0; h < count; h++) {
        if (holdings[h].variant == variant)
            return &holdings[h];
    }
    return NULL;
}

#endif
