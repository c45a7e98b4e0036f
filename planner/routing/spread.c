/* SPDX-License-Identifier: Apache-2.0 */
#include "routing/spread.h"

#include <string.h>

#include "routing/cells.h"

#define MOST_WORDS 64 /* of a device's set: 4,096 colours; pieces beyond them are told apart by their numbers */

void spreader_init(struct arena *arena, uint32_t devices, struct spreader *spreader_out)
{
    *spreader_out =
        (struct spreader){.degree = ARENA_NEW(arena, uint32_t, devices), .space = devices, .devices = devices};
    spreader_out->used = ARENA_NEW(arena, uint64_t, devices);
}

/** The sender that a piece most likely has: one of its holders, in turns; the taker itself for a local copy. */
static uint32_t likely_source(const struct route_type *type, uint32_t index)
{
    const struct route_piece *piece = &type->pieces[index];
    return piece->candidate_count > 0 ? piece->candidates[index % piece->candidate_count] : piece->taker;
}

/** A device's set of colours. */
static uint64_t *colours_of(const struct spreader *spreader, uint32_t device)
{
    return &spreader->used[device * spreader->words];
}

/** The lowest colour that no device of some pieces has; the number of colours when there is none. */
static uint32_t first_free(const struct spreader *spreader, const struct route_type *type, const uint32_t *pieces,
                           uint32_t count)
{
    for (size_t w = 0; w < spreader->words; w++) {
        uint64_t taken = 0;
        for (uint32_t i = 0; i < count && taken != UINT64_MAX; i++)
            taken |= colours_of(spreader, likely_source(type, pieces[i]))[w] |
                     colours_of(spreader, type->pieces[pieces[i]].taker)[w];
        if (taken != UINT64_MAX)
            return (uint32_t)(w * 64) + (uint32_t)__builtin_ctzll(~taken);
    }
    return (uint32_t)(spreader->words * 64);
}

/** Room for as many colours as two devices of the highest degree can take together, within reason. */
static void make_room(struct arena *arena, struct spreader *spreader, const struct route_type *type)
{
    uint32_t highest = 0;
    for (uint32_t p = 0; p < type->piece_count; p++) {
        uint32_t source = likely_source(type, p), taker = type->pieces[p].taker;
        highest = ++spreader->degree[source] > highest ? spreader->degree[source] : highest;
        highest = ++spreader->degree[taker] > highest ? spreader->degree[taker] : highest;
    }
    spreader->words = highest / 32 + 1 < MOST_WORDS ? highest / 32 + 1 : MOST_WORDS;
    if (spreader->words * spreader->devices <= spreader->space)
        return;
    spreader->space = 2 * spreader->words * spreader->devices;
    spreader->used = ARENA_NEW(arena, uint64_t, spreader->space);
}

/** Leave no trace of the type. */
static void clear(struct spreader *spreader, const struct route_type *type)
{
    for (uint32_t p = 0; p < type->piece_count; p++) {
        uint32_t ends[] = {likely_source(type, p), type->pieces[p].taker};
        for (int e = 0; e < 2; e++) {
            spreader->degree[ends[e]] = 0;
            memset(colours_of(spreader, ends[e]), 0, spreader->words * sizeof(uint64_t));
        }
    }
}

/** One colour for some pieces. */
static void colour_pieces(struct spreader *spreader, struct route_type *type, const uint32_t *pieces, uint32_t count)
{
    uint32_t colour = first_free(spreader, type, pieces, count);
    bool all_taken = colour == spreader->words * 64;
    for (uint32_t i = 0; i < count; i++) {
        uint32_t p = pieces[i];
        type->spreads[p] = all_taken ? colour + pieces[0] : colour;
        if (all_taken)
            continue;
        colours_of(spreader, likely_source(type, p))[colour / 64] |= UINT64_C(1) << colour % 64;
        colours_of(spreader, type->pieces[p].taker)[colour / 64] |= UINT64_C(1) << colour % 64;
    }
}

static void spread_joined(struct arena *arena, struct spreader *spreader, struct route_type *type)
{
    const struct cells cells = cells_index(arena, type);
    for (uint32_t c = 0; c < type->cell_count; c++) {
        const uint32_t *pieces = &cells.pieces[cells.begin[c]];
        uint32_t count = cells.begin[c + 1] - cells.begin[c];
        if (count > 0 && type->pieces[pieces[0]].joined) {
            colour_pieces(spreader, type, pieces, count);
            continue;
        }
        for (uint32_t i = 0; i < count; i++)
            colour_pieces(spreader, type, &pieces[i], 1);
    }
}

void spread_pieces(struct arena *arena, struct spreader *spreader, struct route_type *type)
{
    bool joined = false;
    make_room(arena, spreader, type);
    type->spreads = ARENA_NEW(arena, uint32_t, type->piece_count);
    for (uint32_t p = 0; p < type->piece_count; p++)
        joined = joined || type->pieces[p].joined;
    if (joined)
        spread_joined(arena, spreader, type);
    for (uint32_t p = 0; p < type->piece_count && !joined; p++)
        colour_pieces(spreader, type, &p, 1);
    clear(spreader, type);
}
