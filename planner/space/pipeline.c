/* SPDX-License-Identifier: Apache-2.0 */
#include "space/pipeline.h"

static enum shunt_status refuse(const struct cfg_layout *layout, struct cfg_pos pos, const char *field, int64_t found,
                                const char *expected, int64_t layers, struct shunt_err *err)
{
    return shunt_fail(err, SHUNT_ERR_INPUT,
                      "%s:%u:%u: %s: found %lld, expected %s (the model has %lld layers, pp is %lld)", layout->path,
                      pos.line, pos.column, field, (long long)found, expected, (long long)layers,
                      (long long)layout->size[CFG_AXIS_PP]);
}

enum shunt_status pipeline_split(const struct cfg_layout *layout, int64_t layers, int64_t *bounds,
                                 struct shunt_err *err)
{
    int64_t stages = layout->size[CFG_AXIS_PP];
    int64_t first = layout->first_stage_layers, last = layout->last_stage_layers;
    int64_t middle_stages = stages - (first >= 0) - (last >= 0);
    int64_t middle = layers - (first >= 0 ? first : 0) - (last >= 0 ? last : 0);
    struct cfg_pos pos = first >= 0 ? layout->first_stage_pos : layout->last_stage_pos;
    const char *field = first >= 0 ? "pipeline.first" : "pipeline.last";
    int64_t given = first >= 0 ? first : last;

    if (first < 0 && last < 0 && layers % stages != 0)
        return refuse(layout, layout->size_pos[CFG_AXIS_PP], "parallel.pp", stages,
                      "a divisor of the number of layers, or pipeline.first and pipeline.last", layers, err);
    if (middle_stages < 0)
        return refuse(layout, pos, field, given, "only one of first and last with a single stage", layers, err);
    if (middle < 0 || (middle_stages == 0 && middle != 0))
        return refuse(layout, pos, field, given, "first and last to leave the layers of the other stages", layers, err);
    if (middle_stages > 0 && middle % middle_stages != 0)
        return refuse(layout, pos, field, given, "the rest of the layers to divide evenly over the other stages",
                      layers, err);

    bounds[0] = 0;
    for (int64_t s = 0; s < stages; s++) {
        int64_t count = middle_stages > 0 ? middle / middle_stages : 0;
        if (s == 0 && first >= 0)
            count = first;
        else if (s == stages - 1 && last >= 0)
            count = last;
        bounds[s + 1] = bounds[s] + count;
    }
    return SHUNT_OK;
}
