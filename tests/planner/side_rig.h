/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHUNT_TESTS_SIDE_RIG_H
#define SHUNT_TESTS_SIDE_RIG_H

/** Sides of small models that are made in place, for tables of rules. */

#include "harness.h"
#include "space/side.h"

static inline struct cfg_layout rig_layout(void)
{
    struct cfg_layout layout = {.path = (char *)"layout.yaml",
                                .name = (char *)"layout",
                                .size = {1, 1, 1, 1, 1},
                                .order = {CFG_AXIS_TP, CFG_AXIS_CP, CFG_AXIS_EP, CFG_AXIS_DP, CFG_AXIS_PP},
                                .vpp = 1,
                                .shard = {.instances = 1, .use_orig_params = true},
                                .first_stage_layers = -1,
                                .last_stage_layers = -1,
                                .vocab_divisible_by = 128};
    for (int s = 0; s < SHUNT_STATE_COUNT; s++)
        layout.state_dtype[s] = -1;
    layout.state_dtype[SHUNT_STATE_PARAM] = SHUNT_DTYPE_BF16;
    layout.state_dtype[SHUNT_STATE_MASTER] = SHUNT_DTYPE_FP32;
    return layout;
}

/** Lays a model over a layout and lets `check` look at it; refused layouts must say `text`. */
static inline void rig_side(const struct cfg_model *model, const struct cfg_layout *layout, const char *text,
                            void (*check)(struct arena *arena, struct side *side, const void *row), const void *row)
{
    struct arena arena;
    struct space *space;
    struct side *side;
    struct shunt_err err = {0};
    arena_init(&arena);
    if (setjmp(arena.on_failure) == 0) {
        enum shunt_status status = space_build(&arena, model, layout, layout, &space, &err);
        if (status == SHUNT_OK)
            status = side_build(&arena, space, layout, &side, &err);
        CHECK_MSG((status == SHUNT_OK) == (text == NULL), "%s", err.text);
        if (text != NULL)
            CHECK_CONTAINS(err.text, text);
        else if (status == SHUNT_OK)
            check(&arena, side, row);
    } else {
        CHECK(!"out of memory");
    }
    arena_finish(&arena);
}

#endif
