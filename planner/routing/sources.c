/* SPDX-License-Identifier: Apache-2.0 */
#include "routing/sources.h"

void sources_choose(struct arena *arena, struct route *route, const struct classes *classes)
{
    for (uint32_t t = 0; t < route->type_count; t++) {
        struct route_type *type = &route->types[t];
        type->sources = ARENA_NEW(arena, uint32_t, (size_t)type->item_count * type->piece_count);
        for (uint32_t i = 0; i < type->item_count; i++) {
            for (uint32_t p = 0; p < type->piece_count; p++)
                type->sources[(size_t)i * type->piece_count + p] = type->pieces[p].taker;
        }
    }
    quota_choose(arena, classes, &route->quotas);
}
