/* SPDX-License-Identifier: Apache-2.0 */
#include "place/deal.h"

#define NO_PLACE UINT32_MAX

static struct transport_link *find_link(const struct deal *deal, const size_t *begin, uint32_t row, uint32_t column)
{
    size_t lo = begin[row], hi = begin[row + 1];
    while (lo < hi) {
        size_t middle = lo + (hi - lo) / 2;
        if (deal->flow->items[middle].column < column)
            lo = middle + 1;
        else
            hi = middle;
    }
    return lo < begin[row + 1] && deal->flow->items[lo].column == column ? &deal->flow->items[lo] : NULL;
}

static void grant_wishes(const struct deal *deal, const size_t *begin, uint32_t *place_out)
{
    for (uint32_t i = 0; i < deal->item_count; i++) {
        uint32_t place = deal->wished[i];
        if (place == NO_PLACE || deal->room[place] == 0)
            continue;
        struct transport_link *link = find_link(deal, begin, deal->item_class[i], deal->place_class[place]);
        if (link == NULL || link->units == 0)
            continue;
        link->units--;
        deal->room[place]--;
        place_out[i] = place;
    }
}

/** Deal the units of the flow that are left, from the first item and the first place of their classes on. */
static void deal_flow(struct arena *arena, const struct deal *deal, uint32_t *place_out)
{
    struct class_index items = classes_index(arena, deal->item_classes, deal->item_count, deal->item_class);
    struct class_index places = classes_index(arena, deal->place_classes, deal->place_count, deal->place_class);
    for (size_t l = 0; l < deal->flow->count; l++) {
        struct transport_link *link = &deal->flow->items[l];
        uint32_t *item = &items.begin[link->row], *place = &places.begin[link->column]; /* what is done is skipped */
        for (; link->units > 0; link->units--) {
            while (place_out[items.members[*item]] != NO_PLACE)
                ++*item;
            while (deal->room[places.members[*place]] == 0)
                ++*place;
            place_out[items.members[*item]] = places.members[*place];
            deal->room[places.members[*place]]--;
        }
    }
}

static void deal_rest(const struct deal *deal, uint32_t *place_out)
{
    for (uint32_t i = 0; i < deal->item_count; i++) {
        uint32_t place = deal->wished[i];
        if (place_out[i] != NO_PLACE || place == NO_PLACE || deal->room[place] == 0)
            continue;
        deal->room[place]--;
        place_out[i] = place;
    }
    for (uint32_t i = 0, place = 0; i < deal->item_count; i++) {
        if (place_out[i] != NO_PLACE)
            continue;
        while (deal->room[place] == 0)
            place++;
        deal->room[place]--;
        place_out[i] = place;
    }
}

void deal_places(struct arena *arena, const struct deal *deal, uint32_t *place_out)
{
    size_t *begin = ARENA_NEW(arena, size_t, (size_t)deal->item_classes + 1);
    for (size_t l = 0; l < deal->flow->count; l++)
        begin[deal->flow->items[l].row + 1]++;
    for (uint32_t c = 0; c < deal->item_classes; c++)
        begin[c + 1] += begin[c];
    for (uint32_t i = 0; i < deal->item_count; i++)
        place_out[i] = NO_PLACE;
    grant_wishes(deal, begin, place_out);
    deal_flow(arena, deal, place_out);
    deal_rest(deal, place_out);
}
