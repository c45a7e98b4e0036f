/* SPDX-License-Identifier: Apache-2.0 */
#include "space/grid.h"

#include <string.h>

/** Digits of a rank in a grid of these sizes, and the running index over cp and dp. */
static void split_rank(const struct cfg_layout *layout, const int64_t *size, int64_t rank, int64_t *at_out,
                       int64_t *dp_cp_out)
{
    int64_t stride = 1;
    *dp_cp_out = 0;
    for (int i = 0; i < CFG_AXIS_COUNT; i++) {
        enum cfg_axis axis = layout->order[i];
        at_out[axis] = rank % size[axis];
        rank /= size[axis];
        if (axis == CFG_AXIS_CP || axis == CFG_AXIS_DP) {
            *dp_cp_out += at_out[axis] * stride;
            stride *= size[axis];
        }
    }
}

/** Lay the expert grid over the ranks. */
static enum shunt_status add_expert_grid(const struct cfg_layout *layout, struct grid *grid, struct shunt_err *err)
{
    int64_t size[CFG_AXIS_COUNT], at[CFG_AXIS_COUNT], unused;
    memcpy(size, layout->size, sizeof(size));
    grid->etp = layout->etp > 0 ? layout->etp : layout->size[CFG_AXIS_TP];
    size[CFG_AXIS_TP] = grid->etp;
    size[CFG_AXIS_CP] = 1;
    int64_t model = grid->etp * size[CFG_AXIS_EP] * size[CFG_AXIS_PP];
    if (grid->rank_count % model != 0)
        return shunt_fail(err, SHUNT_ERR_INPUT,
                          "%s:%u:%u: parallel.ep: found %lld, expected etp %lld times ep times pp %lld to divide the "
                          "%u ranks",
                          layout->path, layout->size_pos[CFG_AXIS_EP].line, layout->size_pos[CFG_AXIS_EP].column,
                          (long long)size[CFG_AXIS_EP], (long long)grid->etp, (long long)size[CFG_AXIS_PP],
                          grid->rank_count);
    grid->edp = size[CFG_AXIS_DP] = grid->rank_count / model;
    for (uint32_t r = 0; r < grid->rank_count; r++) {
        struct grid_rank *rank = &grid->ranks[r];
        split_rank(layout, size, r, at, &unused);
        rank->at[CFG_AXIS_EP] = at[CFG_AXIS_EP];
        rank->etp = at[CFG_AXIS_TP];
        rank->edp = at[CFG_AXIS_DP];
        if (at[CFG_AXIS_PP] != rank->at[CFG_AXIS_PP])
            return shunt_fail(err, SHUNT_ERR_INPUT,
                              "%s:%u:%u: order: found an order in which rank %u is on stage %lld for dense tensors and "
                              "on stage %lld for experts, expected the same stages (let the order end in pp, or make "
                              "expert dp %lld equal to dp)",
                              layout->path, layout->order_pos.line, layout->order_pos.column, r,
                              (long long)rank->at[CFG_AXIS_PP], (long long)at[CFG_AXIS_PP], (long long)grid->edp);
    }
    return SHUNT_OK;
}

enum shunt_status grid_build(struct arena *arena, const struct cfg_layout *layout, bool experts, struct grid *grid_out,
                             struct shunt_err *err)
{
    struct grid grid = {.rank_count = (uint32_t)cfg_layout_world(layout)};
    int64_t size[CFG_AXIS_COUNT];
    memcpy(size, layout->size, sizeof(size));
    size[CFG_AXIS_EP] = 1;
    grid.dp_cp = size[CFG_AXIS_DP] * size[CFG_AXIS_CP];
    grid.ranks = ARENA_NEW(arena, struct grid_rank, grid.rank_count);
    for (uint32_t r = 0; r < grid.rank_count; r++) {
        struct grid_rank *rank = &grid.ranks[r];
        rank->device = layout->device_count > 0 ? layout->devices[r] : r;
        split_rank(layout, size, r, rank->at, &rank->dp_cp);
    }
    enum shunt_status status = experts ? add_expert_grid(layout, &grid, err) : SHUNT_OK;
    if (status == SHUNT_OK)
        *grid_out = grid;
    return status;
}
