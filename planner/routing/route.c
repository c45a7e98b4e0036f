/* SPDX-License-Identifier: Apache-2.0 */
#include "routing/route.h"

#include "routing/classes.h"
#include "routing/figures.h"
#include "routing/pieces.h"
#include "routing/sources.h"

enum shunt_status route_build(struct arena *arena, const struct space *space, const struct side *from,
                              const struct side *to, const struct world *world, struct route **route_out,
                              struct shunt_err *err)
{
    struct route *route = ARENA_NEW(arena, struct route, 1);
    route->space = space;
    route->from = from;
    route->to = to;
    route->world = world;
    struct classes classes;
    enum shunt_status status = pieces_build(arena, route, err);
    if (status != SHUNT_OK)
        return status;
    classes_build(arena, route, &classes);
    sources_choose(arena, route, &classes);
    route_figures_compute(arena, route, &classes);
    *route_out = route;
    return SHUNT_OK;
}
