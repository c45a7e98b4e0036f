/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Feed bytes to all loaders. Seeds: tests/planner/config/corpus and plans.
 * Checked besides memory errors: a refusal says something, an accepted document keeps its promises.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <string.h>

#include "config/ladder.h"
#include "config/load.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(int condition)
{
    if (!condition)
        abort();
}

static void check_model(const struct cfg_model *model)
{
    require(model->layers >= 1 && model->name != NULL && model->tensor_count >= 1);
    for (uint32_t t = 0; t < model->tensor_count; t++) {
        const struct cfg_tensor *tensor = &model->tensors[t];
        require(tensor->name != NULL && tensor->ndim >= 1 && tensor->ndim <= SHUNT_MAX_DIMS);
        require(tensor->layer_begin >= 0 && tensor->layer_begin < tensor->layer_end);
        require(tensor->layer_end <= model->layers);
        if (tensor->cut_dim < 0)
            continue;
        int64_t sum = 0;
        for (uint32_t s = 0; s < tensor->segment_count; s++)
            sum += tensor->segments[s];
        require(tensor->cut_dim < (int32_t)tensor->ndim && sum == tensor->shape[tensor->cut_dim]);
    }
}

static void check_layout(const struct cfg_layout *layout)
{
    int64_t world = cfg_layout_world(layout);
    unsigned axes = 0;
    require(world >= 1 && world <= 1 << 20);
    require(layout->device_count == 0 || layout->device_count == world);
    for (int k = 0; k < CFG_AXIS_COUNT; k++)
        axes |= 1u << layout->order[k];
    require(axes == (1u << CFG_AXIS_COUNT) - 1);
    require(layout->state_dtype[SHUNT_STATE_PARAM] >= 0);
}

static void check_ladder(const struct cfg_ladder *ladder)
{
    require(ladder->step_count >= 1 && ladder->name != NULL);
    for (uint32_t s = 0; s < ladder->step_count; s++) {
        const struct cfg_ladder_step *step = &ladder->steps[s];
        require(step->name[0] != '\0' && step->name[0] != '.' && strchr(step->name, '/') == NULL);
        require(step->from != NULL && step->to != NULL);
    }
}

static void check_index(const struct cfg_index *index)
{
    for (uint32_t e = 0; e < index->entry_count; e++) {
        const struct cfg_index_entry *entry = &index->entries[e];
        require(entry->name[0] != '\0' && strchr(entry->file, '/') == NULL && strlen(entry->plan_id) == 64);
        require(entry->cap >= -1 && entry->bytes >= 0);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct cfg_model *model = NULL;
    struct cfg_cluster *cluster = NULL;
    struct cfg_layout *layout = NULL;
    struct cfg_ladder *ladder = NULL;
    struct cfg_index *index = NULL;
    char *text = NULL;
    size_t length = 0;
    FILE *diag = open_memstream(&text, &length);
    require(diag != NULL);
    int refused = 0;
    refused += cfg_model_load_memory("model", data, size, &model, diag) != SHUNT_OK;
    refused += cfg_cluster_load_memory("cluster", data, size, &cluster, diag) != SHUNT_OK;
    refused += cfg_layout_load_memory("layout", data, size, &layout, diag) != SHUNT_OK;
    refused += cfg_ladder_load_memory("ladder", data, size, &ladder, diag) != SHUNT_OK;
    refused += cfg_index_load_memory("index", data, size, &index, diag) != SHUNT_OK;
    require(fclose(diag) == 0 && refused >= 4 && length > 0);
    if (model != NULL)
        check_model(model);
    if (layout != NULL)
        check_layout(layout);
    if (ladder != NULL)
        check_ladder(ladder);
    if (index != NULL)
        check_index(index);
    cfg_ladder_free(ladder);
    cfg_index_free(index);
    cfg_model_free(model);
    cfg_cluster_free(cluster);
    cfg_layout_free(layout);
    free(text);
    return 0;
}
