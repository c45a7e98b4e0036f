/* SPDX-License-Identifier: Apache-2.0 */
#include "place/teams.h"

#include <string.h>

/** Ranks whose numbers differ by multiples of `stride`, `size` of them. */
struct line {
    int64_t size, stride;
};

/** The tensor-parallel line of a layout with axes: dense, or of the expert grid. */
static struct line parallel_line(const struct cfg_layout *layout, int64_t tp, enum cfg_axis left_out)
{
    struct line line = {tp, 1};
    for (int i = 0; i < CFG_AXIS_COUNT && layout->order[i] != CFG_AXIS_TP; i++) {
        if (layout->order[i] != left_out)
            line.stride *= layout->size[layout->order[i]];
    }
    return line;
}

static struct line mesh_line(const struct cfg_mesh *mesh)
{
    struct line line = {1, 1};
    int64_t stride = 1;
    for (uint32_t a = mesh->axis_count; a-- > 0;) {
        if (strcmp(mesh->names[a], "tp") == 0)
            line = (struct line){mesh->shape[a], stride};
        stride *= mesh->shape[a];
    }
    return line;
}

static struct line line_of(const struct side *to)
{
    const struct cfg_layout *layout = to->layout;
    if (layout->form == CFG_FORM_HOLDINGS)
        return (struct line){1, 1};
    if (layout->form == CFG_FORM_MESH)
        return mesh_line(&layout->mesh);
    struct line dense = parallel_line(layout, layout->size[CFG_AXIS_TP], CFG_AXIS_EP);
    struct line expert = parallel_line(layout, to->grid.etp, CFG_AXIS_CP);
    bool longer = expert.size > dense.size && expert.size % dense.size == 0 && dense.stride == 1 && expert.stride == 1;
    return longer ? expert : dense;
}

static int64_t common_divisor(int64_t a, int64_t b)
{
    while (b != 0) {
        int64_t rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

static struct teams make_teams(struct arena *arena, const struct side *to, int64_t size, int64_t stride)
{
    uint32_t ranks = to->grid.rank_count, n = 0;
    struct teams teams = {.size = (uint32_t)size, .count = ranks / (uint32_t)size};
    teams.ranks = ARENA_NEW(arena, uint32_t, ranks);
    for (int64_t r = 0; r < ranks; r++) {
        if (r / stride % size != 0) /* not the first one of its team */
            continue;
        for (int64_t i = 0; i < size; i++)
            teams.ranks[n++] = (uint32_t)(r + i * stride);
    }
    return teams;
}

struct teams teams_build(struct arena *arena, const struct side *to, uint32_t devices_per_node)
{
    struct line line = line_of(to);
    if (line.size < 1 || (int64_t)to->grid.rank_count % (line.size * line.stride) != 0)
        return teams_of_one(arena, to);
    if (line.size > devices_per_node)
        line.size = common_divisor(line.size, devices_per_node);
    return make_teams(arena, to, line.size, line.stride);
}

struct teams teams_of_one(struct arena *arena, const struct side *to)
{
    return make_teams(arena, to, 1, 1);
}
