/* SPDX-License-Identifier: Apache-2.0 */
#include "space/listing.h"

#include "space/experts.h"
#include "space/stages.h"

static bool is_trainable(const struct space_family *family)
{
    return family->state[0] == SHUNT_STATE_PARAM;
}

/* ---- order ------------------------------------------------------------------- */

static enum shunt_status order_as_listed(struct listing *listing, struct shunt_err *err)
{
    const struct cfg_layout *layout = listing->input->layout;
    const struct cfg_shard *shard = &layout->shard;
    const struct space *space = listing->input->space;
    bool *seen = ARENA_NEW(listing->arena, bool, space->family_count);
    for (uint32_t i = 0; i < shard->order_count; i++) {
        const struct space_family *family = space_find_family(space, shard->order[i]);
        if (family == NULL || !is_trainable(family) || seen[family - space->families])
            return shunt_fail(err, SHUNT_ERR_INPUT,
                              "%s:%u:%u: shard.order[%u]: found \"%.200s\", expected each trainable tensor of %s once",
                              layout->path, shard->order_pos.line, shard->order_pos.column, i, shard->order[i],
                              space->model->name);
        seen[family - space->families] = true;
        listing->order[listing->order_count++] = (uint32_t)(family - space->families);
    }
    for (uint32_t f = 0; f < space->family_count; f++) {
        if (is_trainable(&space->families[f]) && !seen[f])
            return shunt_fail(err, SHUNT_ERR_INPUT,
                              "%s:%u:%u: shard.order: found no \"%.200s\", expected each trainable tensor of %s once",
                              layout->path, shard->order_pos.line, shard->order_pos.column, space->families[f].name,
                              space->model->name);
    }
    return SHUNT_OK;
}

static enum shunt_status order_families(struct listing *listing, struct shunt_err *err)
{
    const struct space *space = listing->input->space;
    listing->order = ARENA_NEW(listing->arena, uint32_t, space->family_count);
    if (listing->input->layout->shard.order != NULL)
        return order_as_listed(listing, err);
    for (uint32_t f = 0; f < space->family_count; f++) {
        if (is_trainable(&space->families[f]))
            listing->order[listing->order_count++] = f;
    }
    return SHUNT_OK;
}

/* ---- entries of a chunk --------------------------------------------------------- */

static void add_entry(const struct listing *listing, entry_list *list, uint32_t f, uint32_t layer_index,
                      uint32_t expert, bool shared)
{
    const struct space_family *family = &listing->input->space->families[f];
    int64_t stack = experts_in_stack(listing->input->layout->shard.experts, family, listing->input->local_experts);
    *VEC_PUSH(listing->arena, list) =
        (struct entry){.family = f,
                       .tensor = family->tensor_begin + layer_index * family->expert_count + expert,
                       .elements = stack * listing->input->family_elements[f],
                       .stack = stack,
                       .dtype = family->dtype[space_side_of(listing->input->space, listing->input->layout)][0],
                       .expert = family->expert && listing->input->expert_buffer,
                       .shared = shared};
}

/** Index of a layer among a family's layers; UINT32_MAX if it has none there. */
static uint32_t layer_index_of(const struct space_family *family, int64_t layer)
{
    for (uint32_t l = 0; l < family->layer_count; l++) {
        if (family->layers[l] == layer)
            return l;
    }
    return UINT32_MAX;
}

/** Families order[begin, end) of one module: expert by expert, or a single tensor. */
static void add_module(const struct listing *listing, entry_list *list, uint32_t begin, uint32_t end, int64_t layer,
                       bool shared)
{
    const struct space_family *families = listing->input->space->families;
    const struct space_family *first = &families[listing->order[begin]];
    int64_t experts = first->expert ? listing->input->local_experts : 1;
    experts /= experts_in_stack(listing->input->layout->shard.experts, first, listing->input->local_experts);
    for (int64_t e = 0; e < experts; e++) {
        for (uint32_t i = begin; i < end; i++) {
            uint32_t f = listing->order[i];
            uint32_t index = families[f].stage == CFG_STAGE_LAYER ? layer_index_of(&families[f], layer) : 0;
            if (index != UINT32_MAX)
                add_entry(listing, list, f, index, (uint32_t)e, shared);
        }
    }
}

static uint32_t module_end(const struct listing *listing, uint32_t begin, uint32_t limit)
{
    const struct space_family *families = listing->input->space->families;
    uint32_t end = begin + 1;
    enum cfg_experts how = listing->input->layout->shard.experts;
    while (end < limit && experts_together(how, &families[listing->order[begin]], &families[listing->order[end]]))
        end++;
    return end;
}

/** A run of per-layer families: layer by layer. */
static void add_layers(const struct listing *listing, entry_list *list, uint32_t begin, uint32_t end, int64_t chunk)
{
    const struct pipeline *pipeline = listing->input->pipeline;
    for (int64_t layer = pipeline->chunk_begin[chunk]; layer < pipeline->chunk_begin[chunk + 1]; layer++) {
        for (uint32_t i = begin; i < end;) {
            uint32_t next = module_end(listing, i, end);
            add_module(listing, list, i, next, layer, false);
            i = next;
        }
    }
}

/** Where in its chunks a family without layers stands: at its own place, or behind all others for the tied head. */
enum position { POSITION_NONE, POSITION_HERE, POSITION_END };

/** Whether the copy on the last chunk is an output layer; the prediction block's copy is an embedding. */
static bool is_head(const struct listing *listing, const struct space_family *family, int64_t chunk)
{
    const struct pipeline *pipeline = listing->input->pipeline;
    return listing->input->layout->shard.rule != CFG_SHARD_ZERO1 && family->tied_last &&
           chunk == pipeline->loss_chunk && !(family->tied_mtp && chunk == pipeline->mtp_chunk);
}

static enum position position_in(const struct listing *listing, const struct space_family *family, int64_t chunk)
{
    const struct pipeline *pipeline = listing->input->pipeline;
    struct stages stages = stages_of(pipeline, family, 0);
    if (stages.all) /* the first chunk of every stage */
        return chunk < pipeline->stages ? POSITION_HERE : POSITION_NONE;
    for (uint32_t i = 0; i < stages.count; i++) {
        if (stages.chunks[i] == chunk)
            return i > 0 && is_head(listing, family, chunk) ? POSITION_END : POSITION_HERE;
    }
    return POSITION_NONE;
}

static void add_single(const struct listing *listing, entry_list *list, uint32_t begin, uint32_t end, int64_t chunk,
                       enum position wanted)
{
    const struct space_family *family = &listing->input->space->families[listing->order[begin]];
    bool shared = listing->input->pipeline->stages > 1 && (family->tied_last || family->tied_mtp);
    if (position_in(listing, family, chunk) == wanted)
        add_module(listing, list, begin, end, 0, shared);
}

/** Megatron's output layer beside a prediction block that has the tied embedding already. */
static void add_unused_head(const struct listing *listing, entry_list *list, uint32_t f, int64_t chunk)
{
    const struct pipeline *pipeline = listing->input->pipeline;
    const struct space_family *family = &listing->input->space->families[f];
    if (listing->input->layout->shard.rule != CFG_SHARD_MEGATRON || pipeline->stages == 1 || !family->tied_last ||
        !family->tied_mtp || chunk != pipeline->loss_chunk || chunk != pipeline->mtp_chunk)
        return;
    add_entry(listing, list, f, 0, 0, false);
    list->items[list->count - 1].tensor = LISTING_UNUSED;
}

/** Families that stand at `wanted` of the chunk; layers stand at their own place. */
static void add_families(const struct listing *listing, entry_list *list, int64_t chunk, enum position wanted)
{
    const struct space_family *families = listing->input->space->families;
    for (uint32_t i = 0; i < listing->order_count;) {
        uint32_t end = i + 1;
        if (families[listing->order[i]].stage != CFG_STAGE_LAYER) {
            end = module_end(listing, i, listing->order_count);
            add_single(listing, list, i, end, chunk, wanted);
        } else {
            while (end < listing->order_count && families[listing->order[end]].stage == CFG_STAGE_LAYER)
                end++;
            if (wanted == POSITION_HERE)
                add_layers(listing, list, i, end, chunk);
        }
        i = end;
    }
}

entry_list listing_chunk(const struct listing *listing, int64_t chunk)
{
    entry_list list = {0};
    add_families(listing, &list, chunk, POSITION_HERE);
    add_families(listing, &list, chunk, POSITION_END);
    for (uint32_t i = 0; i < listing->order_count; i++)
        add_unused_head(listing, &list, listing->order[i], chunk);
    return list;
}

enum shunt_status listing_init(struct listing *listing, struct arena *arena, const struct registry_input *input,
                               struct shunt_err *err)
{
    *listing = (struct listing){.arena = arena, .input = input};
    return order_families(listing, err);
}
