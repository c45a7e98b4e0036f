/* SPDX-License-Identifier: Apache-2.0 */
#include "replay/track.h"

#include <stdlib.h>
#include <string.h>

#include "device/walk.h"

static uint64_t word_count(uint64_t elems)
{
    return (elems + 63) / 64;
}

bool track_init(struct track *track, uint64_t elems, uint32_t elem_bytes)
{
    *track = (struct track){.elems = elems, .elem_bytes = elem_bytes};
    track->words = calloc(word_count(elems) + 1, sizeof(uint64_t));
    return track->words != NULL;
}

void track_finish(struct track *track)
{
    free(track->words);
    track->words = NULL;
}

void track_clear(struct track *track)
{
    memset(track->words, 0, word_count(track->elems) * sizeof(uint64_t));
}

/* Bits [begin, begin + count). */
static void mark_run(struct track *track, uint64_t begin, uint64_t count)
{
    uint64_t end = begin + count, first = begin / 64, last = (end - 1) / 64;
    uint64_t head = ~UINT64_C(0) << (begin % 64);
    uint64_t tail = ~UINT64_C(0) >> (63 - (end - 1) % 64);
    if (first == last) {
        track->words[first] |= head & tail;
        return;
    }
    track->words[first] |= head;
    for (uint64_t w = first + 1; w < last; w++)
        track->words[w] = ~UINT64_C(0);
    track->words[last] |= tail;
}

void track_mark_box(struct track *track, uint64_t offset, const struct shunt_plan_view *view)
{
    struct walk walk;
    walk_init(&walk, view->ndim, view->elem_bytes, view->shape, view->stride, view->stride);
    do {
        for (uint64_t i = 0; i < walk.count; i++) {
            uint64_t at = offset + walk.a + i * walk.a_step;
            mark_run(track, at / track->elem_bytes, walk.unit_bytes / track->elem_bytes);
        }
    } while (walk_next(&walk));
}

uint64_t track_count(const struct track *track)
{
    uint64_t count = 0;
    for (uint64_t w = 0; w < word_count(track->elems); w++)
        count += (uint64_t)__builtin_popcountll(track->words[w]);
    return count;
}

uint64_t track_find(const struct track *track, uint64_t from, bool marked)
{
    while (from < track->elems) {
        uint64_t word = track->words[from / 64];
        word = (marked ? word : ~word) >> (from % 64);
        if (word != 0) {
            from += (uint64_t)__builtin_ctzll(word);
            return from < track->elems ? from : track->elems;
        }
        from = (from / 64 + 1) * 64;
    }
    return track->elems;
}
