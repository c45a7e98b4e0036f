/* SPDX-License-Identifier: Apache-2.0 */
#include "space/pair.h"

#include "space/current.h"
#include "space/scale.h"
#include "space/states.h"

typedef enum shunt_status build_function(struct arena *arena, const struct space *space,
                                         const struct cfg_layout *layout, struct side **side_out,
                                         struct shunt_err *err);

static enum shunt_status build_checked(build_function *build, struct arena *arena, const struct space *space,
                                       const struct cfg_layout *layout, struct side **side_out, struct shunt_err *err)
{
    enum shunt_status status = build(arena, space, layout, side_out, err);
    return status == SHUNT_OK ? states_check_remainders(arena, *side_out, err) : status;
}

enum shunt_status pair_build(struct arena *arena, const struct cfg_model *model, const struct cfg_layout *from,
                             const struct cfg_layout *to, struct pair *pair_out, struct shunt_err *err)
{
    struct pair pair = {0};
    enum shunt_status status = states_check(model, from, to, err);
    if (status == SHUNT_OK)
        status = space_build(arena, model, from, to, &pair.space, err);
    if (status == SHUNT_OK)
        status = build_checked(to != from ? current_side_build : side_build, arena, pair.space, from, &pair.from, err);
    if (status == SHUNT_OK && to != from)
        status = build_checked(side_build, arena, pair.space, to, &pair.to, err);
    else
        pair.to = pair.from;
    if (status == SHUNT_OK)
        status = scale_extend(arena, pair.space, pair.from, pair.to, err);
    if (status != SHUNT_OK)
        return status;
    side_index_build(arena, pair.from);
    if (to != from)
        side_index_build(arena, pair.to);
    *pair_out = pair;
    return SHUNT_OK;
}
