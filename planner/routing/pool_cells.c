/* SPDX-License-Identifier: Apache-2.0 */
#include "routing/pool_cells.h"

#include <stdlib.h>
#include <string.h>

#include "routing/cells.h"

#define MOST_UNITS   64u
#define FEW_UNITS    8u
#define UNIT_BYTES   UINT64_C(16384) /* of an item, so that few units are worth it */
#define MOST_CHOICES 128u            /* units times crossings of one cell: each may become a piece */

bool pool_cells_shared(const struct pool_cells *cells, uint32_t source, uint32_t taker)
{
    const struct world_device *devices = cells->world->devices;
    return devices[source].node != devices[taker].node &&
           (pool_is_shared(&cells->shares, POOL_OUT, source) || pool_is_shared(&cells->shares, POOL_IN, taker));
}

#define NO_PARENT UINT32_MAX

/** A piece of a group, as it is in the whole type. */
struct member {
    uint32_t piece, source, taker, stage;
    uint32_t parent;  /* the member that brings its source what it sends on; NO_PARENT */
    uint32_t deepest; /* stage of what is sent on behind it, and of itself */
    uint32_t now;     /* stage that it has with what was added before it */
    bool crosses;     /* it goes over the network */
};

/** Through which ports a member goes. */
struct way {
    uint32_t out, in;
};

/** Pieces that must be cut alike: all of a cell, or one alone. */
struct group {
    uint32_t count, crossings;
    struct member *members; /* by stage */
};

/** A type while its pieces are dealt. */
struct dealer {
    struct pool_cells *cells;
    const struct route_type *type; /* as it was */
    uint32_t cell_count;
    uint32_t widest; /* item, in bytes of an element */
    struct member *members;
    VEC(struct route_piece) pieces;
    VEC(uint32_t) sources;
};

static int compare_members(const void *a, const void *b)
{
    const struct member *x = a, *y = b;
    if (x->stage != y->stage)
        return x->stage < y->stage ? -1 : 1;
    return (x->piece > y->piece) - (x->piece < y->piece);
}

static void link_members(struct group *group)
{
    for (uint32_t i = 0; i < group->count; i++) {
        struct member *member = &group->members[i];
        member->parent = NO_PARENT;
        for (uint32_t q = 0; q < i && member->stage > 0; q++) {
            if (group->members[q].taker == member->source && group->members[q].stage + 1 == member->stage)
                member->parent = q;
        }
    }
    for (uint32_t i = group->count; i-- > 0;) {
        const struct member *member = &group->members[i];
        struct member *parent = member->parent == NO_PARENT ? NULL : &group->members[member->parent];
        if (parent != NULL && parent->deepest < member->deepest)
            parent->deepest = member->deepest;
    }
}

static struct group make_group(const struct dealer *dealer, const uint32_t *pieces, uint32_t count)
{
    const struct world_device *devices = dealer->cells->world->devices;
    struct group group = {.count = count, .members = dealer->members};
    for (uint32_t i = 0; i < count; i++) {
        uint32_t source = route_source(dealer->type, 0, pieces[i]), taker = dealer->type->pieces[pieces[i]].taker;
        uint32_t stage = route_stage(dealer->type, 0, pieces[i]);
        group.members[i] = (struct member){.piece = pieces[i],
                                           .source = source,
                                           .taker = taker,
                                           .stage = stage,
                                           .deepest = stage,
                                           .crosses = devices[source].node != devices[taker].node};
        group.crossings += group.members[i].crosses;
    }
    if (count > 1)
        qsort(group.members, count, sizeof(*group.members), compare_members);
    link_members(&group);
    return group;
}

static bool is_group_shared(const struct dealer *dealer, const struct group *group)
{
    for (uint32_t i = 0; i < group->count; i++) {
        if (pool_cells_shared(dealer->cells, group->members[i].source, group->members[i].taker))
            return true;
    }
    return false;
}

static int64_t longest_side(const struct box *box)
{
    int64_t longest = 1;
    for (uint32_t d = 0; d < box->ndim; d++)
        longest = box->hi[d] - box->lo[d] > longest ? box->hi[d] - box->lo[d] : longest;
    return longest;
}

/** Units in which a cell is dealt: about a parcel each, and enough of one item that each chunk of it is shared alike. */
static uint32_t count_units(const struct dealer *dealer, const struct group *group, const struct route_cell *cell)
{
    uint64_t bytes = (uint64_t)cell->elements * dealer->type->wire_bytes;
    uint64_t own = (uint64_t)cell->elements * dealer->widest;
    uint64_t units = (bytes + dealer->cells->shares.parcel - 1) / dealer->cells->shares.parcel;
    uint64_t most = MOST_CHOICES / group->crossings, longest = (uint64_t)longest_side(&cell->box);
    units = units < FEW_UNITS && own >= FEW_UNITS * UNIT_BYTES ? FEW_UNITS : units;
    units = units < MOST_UNITS ? units : MOST_UNITS;
    units = units < most ? units : most;
    units = units < longest ? units : longest;
    return units > 1 ? (uint32_t)units : 1;
}

/** Whether a device has a member's piece from the beginning, and can send it without having got it. */
static bool is_holder(const struct dealer *dealer, const struct member *member, uint32_t device)
{
    const struct route_piece *piece = &dealer->type->pieces[member->piece];
    for (uint32_t i = 0; member->stage == 0 && i < piece->candidate_count; i++) {
        if (piece->candidates[i] == device)
            return true;
    }
    return false;
}

/** Stages that may still be added before a member. */
static uint32_t stages_left(const struct group *group, const struct member *member)
{
    uint32_t before = member->parent == NO_PARENT ? 0 : group->members[member->parent].now + 1;
    uint32_t last = member->deepest - member->stage + before;
    return last < ROUTE_STAGES - 1 ? ROUTE_STAGES - 1 - last : 0;
}

static void deal_unit(struct dealer *dealer, struct group *group, uint64_t bytes, struct way *ways)
{
    struct pool_shares *shares = &dealer->cells->shares;
    for (uint32_t i = 0; i < group->count; i++) {
        struct member *member = &group->members[i];
        uint32_t left = stages_left(group, member), used = 0;
        ways[i] = (struct way){member->source, member->taker};
        member->now = member->parent == NO_PARENT ? 0 : group->members[member->parent].now + 1;
        if (!member->crosses)
            continue;
        ways[i].out = pool_deal(shares, POOL_OUT, member->source, bytes, left == 0);
        used = ways[i].out != member->source && !is_holder(dealer, member, ways[i].out);
        ways[i].in = pool_deal(shares, POOL_IN, member->taker, bytes, left == used);
        used += ways[i].in != member->taker;
        member->now += used;
    }
}

/** A part of a cell while its pieces are made. */
struct part {
    const struct route_cell *cell;
    size_t first; /* of its pieces */
};

static void push_piece(struct arena *arena, struct dealer *dealer, const struct route_piece *piece, uint32_t source)
{
    *VEC_PUSH(arena, &dealer->pieces) = *piece;
    *VEC_PUSH(arena, &dealer->sources) = source;
}

/** The passing piece of a part on a device; NULL: none. Its stage is in *stage_out. */
static const struct route_piece *find_passing(const struct dealer *dealer, const struct part *part, uint32_t device,
                                              uint32_t *stage_out)
{
    for (size_t i = part->first; i < dealer->pieces.count; i++) {
        const struct route_piece *piece = &dealer->pieces.items[i];
        *stage_out = dealer->sources.items[i] >> ROUTE_STAGE_SHIFT;
        if (piece->passing && piece->taker == device)
            return piece;
    }
    return NULL;
}

/** Where a piece comes from. */
struct origin {
    uint32_t device, stage;
    bool passed;
};

/**
 * Let a piece come over a neighbour, who gets it from where it comes from, unless it passes there already.
 *
 * @param last  stages behind the piece's own that others need
 */
static void go_over(struct arena *arena, struct dealer *dealer, const struct part *part, uint32_t device, uint32_t last,
                    const struct route_piece *piece, struct origin *from)
{
    uint32_t stage = from->stage;
    bool passes = find_passing(dealer, part, device, &stage) != NULL;
    stage = passes ? stage : from->stage;
    if (stage + 1 + last >= ROUTE_STAGES)
        return;
    if (!passes) {
        const struct route_piece hop = {.cell = part->cell,
                                        .taker = device,
                                        .passing = true,
                                        .passed = from->passed,
                                        .candidate_count = piece->candidate_count,
                                        .candidates = piece->candidates};
        push_piece(arena, dealer, &hop, route_at(from->device, stage));
    }
    *from = (struct origin){.device = device, .stage = stage + 1, .passed = true};
}

static void make_member(struct arena *arena, struct dealer *dealer, const struct part *part, const struct group *group,
                        struct member *member, const struct way *way)
{
    struct route_piece piece = dealer->type->pieces[member->piece];
    uint32_t last = member->deepest - member->stage;
    struct origin from = {.device = member->source};
    if (member->parent != NO_PARENT)
        from.stage = group->members[member->parent].now + 1;
    else
        from.stage = member->stage;
    if (way->out != member->source && is_holder(dealer, member, way->out))
        from.device = way->out;
    else if (way->out != member->source)
        go_over(arena, dealer, part, way->out, last, &piece, &from);
    if (way->in != member->taker)
        go_over(arena, dealer, part, way->in, last, &piece, &from);
    member->now = from.stage;
    piece.cell = part->cell;
    piece.passed = from.passed;
    push_piece(arena, dealer, &piece, route_at(from.device, from.stage));
}

static void make_part(struct arena *arena, struct dealer *dealer, const struct group *group,
                      const struct route_cell *cell, const struct way *ways)
{
    const struct part part = {.cell = cell, .first = dealer->pieces.count};
    bool joined = dealer->type->pieces[group->members[0].piece].joined;
    for (uint32_t i = 0; i < group->count; i++)
        make_member(arena, dealer, &part, group, &group->members[i], &ways[i]);
    for (size_t i = part.first; i < dealer->pieces.count; i++)
        joined = joined || dealer->pieces.items[i].passing;
    for (size_t i = part.first; i < dealer->pieces.count; i++) {
        struct route_piece *piece = &dealer->pieces.items[i];
        piece->joined = joined;
        if (piece->candidate_count == 0)
            continue;
        uint32_t *source = ARENA_NEW(arena, uint32_t, 1);
        *source = dealer->sources.items[i] & ((UINT32_C(1) << ROUTE_STAGE_SHIFT) - 1);
        piece->candidates = source; /* there is no choice left */
        piece->candidate_count = 1;
    }
}

/** Units [begin, end) of a cell as one. */
static struct route_cell *join_units(struct arena *arena, struct dealer *dealer, const struct route_cell *cell,
                                     uint32_t begin, uint32_t end, uint32_t units)
{
    struct route_cell *part = ARENA_NEW(arena, struct route_cell, 1);
    const struct box first = box_slice(&cell->box, begin, units), last = box_slice(&cell->box, end - 1, units);
    *part = *cell;
    for (uint32_t d = 0; d < cell->box.ndim; d++) {
        part->box.lo[d] = first.lo[d];
        part->box.hi[d] = last.hi[d];
    }
    part->elements = box_volume(&part->box);
    part->number = dealer->cell_count++;
    return part;
}

/** Units that go the same ways are as many of the cell's, one behind the other. */
static void make_parts(struct arena *arena, struct dealer *dealer, const struct group *group,
                       const struct route_cell *cell, const struct way *ways, uint32_t units)
{
    bool *done = ARENA_NEW(arena, bool, units);
    size_t bytes = group->count * sizeof(*ways);
    for (uint32_t u = 0, begin = 0; u < units; u++) {
        uint32_t count = 0;
        for (uint32_t v = u; v < units && !done[u]; v++) {
            bool same = memcmp(&ways[(size_t)u * group->count], &ways[(size_t)v * group->count], bytes) == 0;
            done[v] = done[v] || (same && v > u);
            count += same;
        }
        if (count == 0)
            continue;
        const struct route_cell *part = join_units(arena, dealer, cell, begin, begin + count, units);
        make_part(arena, dealer, group, part, &ways[(size_t)u * group->count]);
        begin += count;
    }
}

static void deal_group(struct arena *arena, struct dealer *dealer, const uint32_t *pieces, uint32_t count)
{
    struct group group = make_group(dealer, pieces, count);
    const struct route_cell *cell = dealer->type->pieces[pieces[0]].cell;
    if (!is_group_shared(dealer, &group)) {
        for (uint32_t i = 0; i < count; i++)
            push_piece(arena, dealer, &dealer->type->pieces[pieces[i]], dealer->type->sources[pieces[i]]);
        return;
    }
    uint32_t units = count_units(dealer, &group, cell);
    struct way *ways = ARENA_NEW(arena, struct way, (size_t)units * count);
    for (uint32_t u = 0; u < units; u++) {
        struct box slice = box_slice(&cell->box, u, units);
        deal_unit(dealer, &group, (uint64_t)box_volume(&slice) * dealer->type->wire_bytes, &ways[(size_t)u * count]);
    }
    make_parts(arena, dealer, &group, cell, ways, units);
}

static void deal_all(struct arena *arena, struct dealer *dealer)
{
    const struct cells cells = cells_index(arena, dealer->type);
    for (uint32_t c = 0; c < dealer->type->cell_count; c++) {
        const uint32_t *pieces = &cells.pieces[cells.begin[c]];
        uint32_t count = cells.begin[c + 1] - cells.begin[c];
        if (count > 0 && dealer->type->pieces[pieces[0]].joined) {
            deal_group(arena, dealer, pieces, count);
            continue;
        }
        for (uint32_t i = 0; i < count; i++)
            deal_group(arena, dealer, &pieces[i], 1);
    }
}

void pool_cells_deal(struct arena *arena, struct pool_cells *cells, struct route_type *type)
{
    const struct route_type whole = *type;
    struct dealer dealer = {.cells = cells,
                            .type = &whole,
                            .cell_count = whole.cell_count,
                            .members = ARENA_NEW(arena, struct member, whole.piece_count)};
    for (uint32_t i = 0; i < whole.item_count; i++) {
        uint32_t bytes = cells->space->items[whole.items[i]].wire_bytes;
        dealer.widest = bytes > dealer.widest ? bytes : dealer.widest;
    }
    deal_all(arena, &dealer);
    type->pieces = dealer.pieces.items;
    type->piece_count = (uint32_t)dealer.pieces.count;
    type->cell_count = dealer.cell_count;
    type->sources = ARENA_NEW(arena, uint32_t, (size_t)whole.item_count * type->piece_count);
    for (uint32_t i = 0; i < whole.item_count; i++)
        memcpy(&type->sources[(size_t)i * type->piece_count], dealer.sources.items,
               type->piece_count * sizeof(uint32_t));
}
