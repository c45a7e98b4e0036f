/* SPDX-License-Identifier: Apache-2.0 */
#include "space/pipeline.h"

#include "space/pipeline_string.h"

static enum shunt_status refuse(const struct cfg_layout *layout, struct cfg_pos pos, const char *field, int64_t found,
                                const char *expected, int64_t layers, struct shunt_err *err)
{
    return shunt_fail(err, SHUNT_ERR_INPUT,
                      "%s:%u:%u: %s: found %lld, expected %s (the model has %lld layers, pp is %lld, vpp is %lld)",
                      layout->path, pos.line, pos.column, field, (long long)found, expected, (long long)layers,
                      (long long)layout->size[CFG_AXIS_PP], (long long)layout->vpp);
}

/** Even split; the embedding and the loss may each take the place of one layer. */
static enum shunt_status split_even(const struct cfg_layout *layout, int64_t layers, struct pipeline *pipeline,
                                    struct shunt_err *err)
{
    int64_t places = layers + layout->count_embedding + layout->count_loss;
    int64_t each = places / pipeline->chunks;
    if (places % pipeline->chunks != 0) {
        bool virtual = layout->vpp > 1;
        return refuse(layout, virtual ? layout->vpp_pos : layout->size_pos[CFG_AXIS_PP],
                      virtual ? "parallel.vpp" : "parallel.pp", virtual ? layout->vpp : pipeline->stages,
                      layout->count_embedding || layout->count_loss
                          ? "pp times vpp to divide the layers with the embedding and the loss that are counted"
                          : "pp times vpp to divide the number of layers, or pipeline.first and pipeline.last",
                      layers, err);
    }
    if (each - layout->count_embedding - (pipeline->chunks == 1 ? layout->count_loss : 0) < 0)
        return refuse(layout, layout->size_pos[CFG_AXIS_PP], "parallel.pp", pipeline->stages, "fewer stages", layers,
                      err);
    for (int64_t s = 0; s < pipeline->chunks; s++) {
        int64_t count =
            each - (s == 0 ? layout->count_embedding : 0) - (s == pipeline->chunks - 1 ? layout->count_loss : 0);
        pipeline->chunk_begin[s + 1] = pipeline->chunk_begin[s] + count;
    }
    return SHUNT_OK;
}

/** First and last stage of given size, the others even; each stage divides evenly over its chunks. */
static enum shunt_status split_uneven(const struct cfg_layout *layout, int64_t layers, struct pipeline *pipeline,
                                      struct shunt_err *err)
{
    int64_t first = layout->first_stage_layers, last = layout->last_stage_layers, vpp = layout->vpp;
    int64_t others = pipeline->stages - (first >= 0) - (last >= 0);
    int64_t rest = layers - (first >= 0 ? first : 0) - (last >= 0 ? last : 0);
    struct cfg_pos pos = first >= 0 ? layout->first_stage_pos : layout->last_stage_pos;
    const char *field = first >= 0 ? "pipeline.first" : "pipeline.last";
    int64_t given = first >= 0 ? first : last;
    const char *expected = NULL;
    if (others < 0)
        expected = "only one of first and last with a single stage";
    else if (rest < 0 || (others == 0 && rest != 0))
        expected = "first and last to leave the layers of the other stages";
    else if (others > 0 && rest % others != 0)
        expected = "the rest of the layers to divide evenly over the other stages";
    else if (first % vpp * (first >= 0) != 0 || last % vpp * (last >= 0) != 0 ||
             (others > 0 && rest / others % vpp != 0))
        expected = "vpp to divide the layers of every stage";
    if (expected != NULL)
        return refuse(layout, pos, field, given, expected, layers, err);
    for (int64_t s = 0; s < pipeline->chunks; s++) {
        int64_t stage = s % pipeline->stages;
        int64_t count = others > 0 ? rest / others : 0;
        if (stage == 0 && first >= 0)
            count = first;
        else if (stage == pipeline->stages - 1 && last >= 0)
            count = last;
        pipeline->chunk_begin[s + 1] = pipeline->chunk_begin[s] + count / vpp;
    }
    return SHUNT_OK;
}

int64_t pipeline_chunk_of(const struct pipeline *pipeline, int64_t layer)
{
    int64_t lo = 0, hi = pipeline->chunks;
    while (lo + 1 < hi) {
        int64_t middle = (lo + hi) / 2;
        if (pipeline->chunk_begin[middle] <= layer)
            lo = middle;
        else
            hi = middle;
    }
    return lo;
}

enum shunt_status pipeline_build(struct arena *arena, const struct cfg_layout *layout, const struct cfg_model *model,
                                 struct pipeline *pipeline_out, struct shunt_err *err)
{
    struct pipeline pipeline = {.stages = layout->size[CFG_AXIS_PP]};
    enum shunt_status status;
    if (layout->pipeline_layout != NULL) {
        status = pipeline_string_parse(arena, layout, model, &pipeline, err);
    } else {
        pipeline.chunks = pipeline.stages * layout->vpp;
        pipeline.chunk_begin = ARENA_NEW(arena, int64_t, pipeline.chunks + 1);
        pipeline.loss_chunk = pipeline.mtp_chunk = pipeline.chunks - 1;
        bool even = layout->first_stage_layers < 0 && layout->last_stage_layers < 0;
        status = even ? split_even(layout, model->layers, &pipeline, err)
                      : split_uneven(layout, model->layers, &pipeline, err);
    }
    if (status != SHUNT_OK)
        return status;
    /* the final norm follows the last layer when an MTP block stands between it and the loss */
    pipeline.final_chunk = model->mtp ? pipeline_chunk_of(&pipeline, model->layers - 1) : pipeline.chunks - 1;
    *pipeline_out = pipeline;
    return SHUNT_OK;
}
