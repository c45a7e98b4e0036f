/* SPDX-License-Identifier: Apache-2.0 */
#include "space/registry.h"

#include <string.h>

#include "space/stages.h"

/** One tensor in registration order. */
struct entry {
    uint32_t family, tensor;
    int64_t elements;
    uint8_t dtype; /* of the weight: each has buffers of its own */
    bool expert;   /* goes to the expert buffer */
    bool shared;   /* an embedding with replicas on other stages */
};

typedef VEC(struct entry) entry_list;

struct registry {
    struct arena *arena;
    const struct registry_input *input;
    uint32_t *order; /* trainable families */
    uint32_t order_count;
    struct flat_place *places;
    const struct space_family *conflict; /* a tied tensor with unlike places */
    const struct space_family *mixed;    /* a tensor of another dtype in a flat parameter */
};

static bool is_trainable(const struct space_family *family)
{
    return family->state[0] == SHUNT_STATE_PARAM;
}

/* ---- order ------------------------------------------------------------------- */

static uint32_t find_family(const struct space *space, const char *name)
{
    for (uint32_t f = 0; f < space->family_count; f++) {
        if (strcmp(space->families[f].name, name) == 0)
            return f;
    }
    return UINT32_MAX;
}

static enum shunt_status order_as_listed(struct registry *registry, struct shunt_err *err)
{
    const struct cfg_layout *layout = registry->input->layout;
    const struct cfg_shard *shard = &layout->shard;
    const struct space *space = registry->input->space;
    bool *seen = ARENA_NEW(registry->arena, bool, space->family_count);
    for (uint32_t i = 0; i < shard->order_count; i++) {
        uint32_t f = find_family(space, shard->order[i]);
        if (f == UINT32_MAX || !is_trainable(&space->families[f]) || seen[f])
            return shunt_fail(err, SHUNT_ERR_INPUT,
                              "%s:%u:%u: shard.order[%u]: found \"%.200s\", expected each trainable tensor of %s once",
                              layout->path, shard->order_pos.line, shard->order_pos.column, i, shard->order[i],
                              space->model->name);
        seen[f] = true;
        registry->order[registry->order_count++] = f;
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

static enum shunt_status order_families(struct registry *registry, struct shunt_err *err)
{
    const struct space *space = registry->input->space;
    registry->order = ARENA_NEW(registry->arena, uint32_t, space->family_count);
    if (registry->input->layout->shard.order != NULL)
        return order_as_listed(registry, err);
    for (uint32_t f = 0; f < space->family_count; f++) {
        if (is_trainable(&space->families[f]))
            registry->order[registry->order_count++] = f;
    }
    return SHUNT_OK;
}

/* ---- entries of a chunk --------------------------------------------------------- */

static void add_entry(struct registry *registry, entry_list *list, uint32_t f, uint32_t layer_index, uint32_t expert,
                      bool shared)
{
    const struct space_family *family = &registry->input->space->families[f];
    *VEC_PUSH(registry->arena, list) =
        (struct entry){.family = f,
                       .tensor = family->tensor_begin + layer_index * family->expert_count + expert,
                       .elements = registry->input->family_elements[f],
                       .dtype = family->dtype[0],
                       .expert = family->expert && registry->input->expert_buffer,
                       .shared = shared};
}

/** Length of a family's module: its name up to the last dot. */
static size_t module_length(const struct space_family *family)
{
    const char *dot = strrchr(family->name, '.');
    return dot == NULL ? strlen(family->name) : (size_t)(dot - family->name);
}

static bool same_module(const struct space_family *a, const struct space_family *b)
{
    size_t length = module_length(a);
    return a->expert && b->expert && length == module_length(b) && memcmp(a->name, b->name, length) == 0;
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
static void add_module(struct registry *registry, entry_list *list, uint32_t begin, uint32_t end, int64_t layer,
                       bool shared)
{
    const struct space_family *families = registry->input->space->families;
    int64_t experts = families[registry->order[begin]].expert ? registry->input->local_experts : 1;
    for (int64_t e = 0; e < experts; e++) {
        for (uint32_t i = begin; i < end; i++) {
            uint32_t f = registry->order[i];
            uint32_t index = families[f].stage == CFG_STAGE_LAYER ? layer_index_of(&families[f], layer) : 0;
            if (index != UINT32_MAX)
                add_entry(registry, list, f, index, (uint32_t)e, shared);
        }
    }
}

static uint32_t module_end(const struct registry *registry, uint32_t begin, uint32_t limit)
{
    const struct space_family *families = registry->input->space->families;
    uint32_t end = begin + 1;
    while (end < limit && same_module(&families[registry->order[begin]], &families[registry->order[end]]))
        end++;
    return end;
}

/** A run of per-layer families: layer by layer. */
static void add_layers(struct registry *registry, entry_list *list, uint32_t begin, uint32_t end, int64_t chunk)
{
    const struct pipeline *pipeline = registry->input->pipeline;
    for (int64_t layer = pipeline->chunk_begin[chunk]; layer < pipeline->chunk_begin[chunk + 1]; layer++) {
        for (uint32_t i = begin; i < end;) {
            uint32_t next = module_end(registry, i, end);
            add_module(registry, list, i, next, layer, false);
            i = next;
        }
    }
}

/** Where in its chunks a family without layers stands: in document order, or behind all others for the tied head. */
enum position { POSITION_NONE, POSITION_HERE, POSITION_END };

static enum position position_in(const struct pipeline *pipeline, const struct space_family *family, int64_t chunk)
{
    struct stages stages = stages_of(pipeline, family, 0);
    if (stages.all) /* the first chunk of every stage */
        return chunk < pipeline->stages ? POSITION_HERE : POSITION_NONE;
    for (uint32_t i = 0; i < stages.count; i++) {
        if (stages.chunks[i] != chunk)
            continue;
        bool head = i > 0 && family->tied_last && chunk == pipeline->loss_chunk;
        return head ? POSITION_END : POSITION_HERE;
    }
    return POSITION_NONE;
}

static void add_single(struct registry *registry, entry_list *list, uint32_t begin, uint32_t end, int64_t chunk,
                       enum position wanted)
{
    const struct pipeline *pipeline = registry->input->pipeline;
    const struct space_family *family = &registry->input->space->families[registry->order[begin]];
    struct stages stages = stages_of(pipeline, family, 0);
    if (position_in(pipeline, family, chunk) == wanted)
        add_module(registry, list, begin, end, 0, stages.count > 1);
}

static entry_list list_chunk(struct registry *registry, int64_t chunk)
{
    const struct space_family *families = registry->input->space->families;
    entry_list list = {0};
    for (int pass = 0; pass < 2; pass++) {
        for (uint32_t i = 0; i < registry->order_count;) {
            uint32_t end = i + 1;
            if (families[registry->order[i]].stage == CFG_STAGE_LAYER) {
                while (end < registry->order_count && families[registry->order[end]].stage == CFG_STAGE_LAYER)
                    end++;
                if (pass == 0)
                    add_layers(registry, &list, i, end, chunk);
            } else {
                end = module_end(registry, i, registry->order_count);
                add_single(registry, &list, i, end, chunk, pass == 0 ? POSITION_HERE : POSITION_END);
            }
            i = end;
        }
    }
    return list;
}

/* ---- rules ---------------------------------------------------------------------- */

static void set_place(struct registry *registry, const struct entry *entry, int64_t start, int64_t bucket)
{
    struct flat_place *place = &registry->places[entry->tensor];
    if (place->bucket != 0 && (place->start != start || place->bucket != bucket))
        registry->conflict = &registry->input->space->families[entry->family];
    *place = (struct flat_place){.start = start, .bucket = bucket};
}

static int64_t round_up(int64_t value, int64_t multiple)
{
    return (value + multiple - 1) / multiple * multiple;
}

static int64_t least_common_multiple(int64_t a, int64_t b)
{
    int64_t x = a, y = b;
    while (y != 0) {
        int64_t rest = x % y;
        x = y;
        y = rest;
    }
    return a / x * b;
}

/** Give the entries of a closed bucket their places. Members were collected with starts counted from the bucket. */
static void close_bucket(struct registry *registry, const entry_list *members, const int64_t *starts, int64_t used,
                         int64_t multiple)
{
    for (size_t m = 0; m < members->count; m++)
        set_place(registry, &members->items[m], starts[m], round_up(used, multiple));
}

/**
 * Megatron's distributed optimizer: reverse order, starts at multiples of 64 elements; a bucket closes at its
 * size and around a shared embedding, and ends at a multiple of lcm(shards, 128).
 */
static void place_buffer(struct registry *registry, const entry_list *list, bool expert, uint8_t dtype,
                         int64_t bucket_elements)
{
    int64_t shards = expert ? registry->input->expert_shards : registry->input->shards;
    int64_t multiple = least_common_multiple(shards, 128);
    if (registry->input->layout->shard.pad_high_bandwidth)
        multiple = least_common_multiple(multiple, 1 << 16);
    entry_list members = {0};
    int64_t *starts = ARENA_NEW(registry->arena, int64_t, list->count), at = 0;
    for (size_t i = list->count; i-- > 0;) {
        const struct entry *entry = &list->items[i];
        if (entry->expert != expert || entry->dtype != dtype)
            continue;
        at = round_up(at, 64);
        if (entry->shared && members.count > 0) {
            close_bucket(registry, &members, starts, at, multiple);
            members.count = 0;
            at = 0;
        }
        starts[members.count] = at;
        *VEC_PUSH(registry->arena, &members) = *entry;
        at += entry->elements;
        if ((bucket_elements > 0 && at >= bucket_elements) || entry->shared) {
            close_bucket(registry, &members, starts, at, multiple);
            members.count = 0;
            at = 0;
        }
    }
    close_bucket(registry, &members, starts, at, multiple);
}

/** The buffers of a chunk: one for each kind (dense, expert) and dtype of the weights. */
static void place_megatron(struct registry *registry, const entry_list *list, int64_t bucket_elements)
{
    for (uint8_t dtype = 0; dtype < SHUNT_DTYPE_COUNT; dtype++) {
        place_buffer(registry, list, false, dtype, bucket_elements);
        place_buffer(registry, list, true, dtype, bucket_elements);
    }
}

/** One flat group of the entries [begin, end) that match: starts at multiples of `align`, the end at one of `multiple`. */
static void place_group(struct registry *registry, const entry_list *list, size_t begin, size_t end, bool expert,
                        int64_t align, int64_t multiple)
{
    int64_t total = 0;
    for (size_t i = begin + 1; i < end; i++) {
        if (list->items[i].dtype != list->items[begin].dtype)
            registry->mixed = &registry->input->space->families[list->items[i].family];
    }
    for (int pass = 0; pass < 2; pass++) {
        int64_t at = 0;
        for (size_t i = begin; i < end; i++) {
            if (list->items[i].expert != expert)
                continue;
            at = round_up(at, align);
            if (pass == 1)
                set_place(registry, &list->items[i], at, round_up(total, multiple));
            at += list->items[i].elements;
        }
        total = at;
    }
}

/** DeepSpeed ZeRO-1 and 2: all tensors of a stage in one group, no alignment, padded to twice the number of shards. */
static void place_zero1(struct registry *registry, const entry_list *stage)
{
    place_group(registry, stage, 0, stage->count, false, 1, 2 * registry->input->shards);
    if (registry->input->expert_buffer)
        place_group(registry, stage, 0, stage->count, true, 1, 2 * registry->input->expert_shards);
}

/** FSDP1: a flat parameter per layer, and one for everything else. */
static void place_fsdp1(struct registry *registry, const entry_list *chunk)
{
    const struct space *space = registry->input->space;
    const struct cfg_layout *layout = registry->input->layout;
    int64_t align =
        layout->shard.use_orig_params ? 16 / shunt_dtype_bytes((unsigned)layout->state_dtype[SHUNT_STATE_PARAM]) : 1;
    entry_list rest = {0};
    for (size_t i = 0; i < chunk->count;) {
        const struct space_family *family = &space->families[chunk->items[i].family];
        size_t end = i + 1;
        if (family->stage != CFG_STAGE_LAYER) {
            *VEC_PUSH(registry->arena, &rest) = chunk->items[i];
            i = end;
            continue;
        }
        int64_t layer =
            space->items[family->item_begin + (chunk->items[i].tensor - family->tensor_begin) * family->state_count]
                .layer;
        while (end < chunk->count) {
            const struct space_family *next = &space->families[chunk->items[end].family];
            uint32_t item = next->item_begin + (chunk->items[end].tensor - next->tensor_begin) * next->state_count;
            if (next->stage != CFG_STAGE_LAYER || space->items[item].layer != layer)
                break;
            end++;
        }
        place_group(registry, chunk, i, end, false, align, registry->input->shards);
        i = end;
    }
    place_group(registry, &rest, 0, rest.count, false, align, registry->input->shards);
}

static void place_stage(struct registry *registry, int64_t stage)
{
    const struct pipeline *pipeline = registry->input->pipeline;
    const struct cfg_shard *shard = &registry->input->layout->shard;
    entry_list all = {0};
    for (int64_t chunk = stage; chunk < pipeline->chunks; chunk += pipeline->stages) {
        entry_list list = list_chunk(registry, chunk);
        for (size_t i = 0; i < list.count; i++)
            *VEC_PUSH(registry->arena, &all) = list.items[i];
        if (shard->rule == CFG_SHARD_MEGATRON) {
            int64_t bucket = chunk == 0 ? shard->bucket_elements : 0;
            place_megatron(registry, &list, bucket);
        }
    }
    if (shard->rule == CFG_SHARD_ZERO1)
        place_zero1(registry, &all);
    else if (shard->rule == CFG_SHARD_FSDP1)
        place_fsdp1(registry, &all);
}

enum shunt_status registry_build(struct arena *arena, const struct registry_input *input,
                                 struct flat_place **places_out, struct shunt_err *err)
{
    struct registry registry = {.arena = arena, .input = input};
    registry.places = ARENA_NEW(arena, struct flat_place, input->space->tensor_count);
    enum shunt_status status = order_families(&registry, err);
    if (status != SHUNT_OK)
        return status;
    for (int64_t stage = 0; stage < input->pipeline->stages; stage++)
        place_stage(&registry, stage);
    if (registry.mixed != NULL)
        return shunt_fail(err, SHUNT_ERR_UNSUPPORTED,
                          "%s:%u:%u: shard.rule: found a rule that puts %s into one flat group with tensors of another "
                          "dtype (not supported: a flat group of several dtypes)",
                          input->layout->path, input->layout->shard.pos.line, input->layout->shard.pos.column,
                          registry.mixed->name);
    if (registry.conflict != NULL)
        return shunt_fail(err, SHUNT_ERR_UNSUPPORTED,
                          "%s:%u:%u: shard.rule: found a rule under which the replicas of %s are cut unlike on their "
                          "stages (not supported: a tied tensor with unlike shards)",
                          input->layout->path, input->layout->shard.pos.line, input->layout->shard.pos.column,
                          registry.conflict->name);
    *places_out = registry.places;
    return SHUNT_OK;
}
