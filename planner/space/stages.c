/* SPDX-License-Identifier: Apache-2.0 */
#include "space/stages.h"

bool stages_have(const struct stages *stages, int64_t stage)
{
    for (uint32_t i = 0; i < stages->count; i++) {
        if (stages->stages[i] == stage)
            return true;
    }
    return stages->all;
}

bool stages_equal(const struct stages *a, const struct stages *b)
{
    if (a->all != b->all || a->count != b->count)
        return false;
    for (uint32_t i = 0; i < a->count; i++) {
        if (a->stages[i] != b->stages[i])
            return false;
    }
    return true;
}

/** A second copy on a stage that has one already does not exist. */
static void add_chunk(struct stages *stages, const struct pipeline *pipeline, int64_t chunk)
{
    int64_t stage = chunk % pipeline->stages;
    if (stages_have(stages, stage))
        return;
    stages->chunks[stages->count] = chunk;
    stages->stages[stages->count++] = stage;
}

struct stages stages_of(const struct pipeline *pipeline, const struct space_family *family, int64_t layer)
{
    struct stages stages = {0};
    switch (family->stage) {
    case CFG_STAGE_ALL:
        stages.all = true;
        break;
    case CFG_STAGE_LAYER:
        add_chunk(&stages, pipeline, pipeline_chunk_of(pipeline, layer));
        break;
    case CFG_STAGE_FIRST:
        add_chunk(&stages, pipeline, pipeline->embedding_chunk);
        if (family->tied_last)
            add_chunk(&stages, pipeline, pipeline->loss_chunk);
        if (family->tied_mtp)
            add_chunk(&stages, pipeline, pipeline->mtp_chunk);
        break;
    case CFG_STAGE_LAST:
        add_chunk(&stages, pipeline, pipeline->loss_chunk);
        break;
    case CFG_STAGE_FINAL:
        add_chunk(&stages, pipeline, pipeline->final_chunk);
        break;
    case CFG_STAGE_MTP:
        add_chunk(&stages, pipeline, pipeline->mtp_chunk);
        break;
    }
    return stages;
}
