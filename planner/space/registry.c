/* SPDX-License-Identifier: Apache-2.0 */
#include "space/registry.h"

#include "space/listing.h"

struct registry {
    struct arena *arena;
    const struct registry_input *input;
    struct listing listing;
    int64_t stage; /* at hand */
    struct flat_place *places;
    const struct space_family *mixed; /* a tensor of another dtype in a flat parameter */
};

/** Stages come in turn: a tied tensor gets a place on each of its own. */
static void set_tensor_place(struct registry *registry, int64_t tensor, int64_t start, int64_t bucket)
{
    struct flat_place *last = &registry->places[tensor];
    const struct flat_place place = {.start = start, .bucket = bucket, .stage = registry->stage};
    if (last->bucket == 0) {
        *last = place;
        return;
    }
    while (last->next != NULL)
        last = last->next;
    last->next = ARENA_NEW(registry->arena, struct flat_place, 1);
    *last->next = place;
}

/** The tensors of a stack lie one behind the other. */
static void set_place(struct registry *registry, const struct entry *entry, int64_t start, int64_t bucket)
{
    if (entry->tensor == LISTING_UNUSED)
        return;
    for (int64_t k = 0; k < entry->stack; k++)
        set_tensor_place(registry, entry->tensor + k, start + k * (entry->elements / entry->stack), bucket);
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

/** One flat group of those of [begin, end) that match: starts at multiples of `align`, the end at one of `multiple`. */
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
        entry_list list = listing_chunk(&registry->listing, chunk);
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
    enum shunt_status status = listing_init(&registry.listing, arena, input, err);
    if (status != SHUNT_OK)
        return status;
    for (registry.stage = 0; registry.stage < input->pipeline->stages; registry.stage++)
        place_stage(&registry, registry.stage);
    if (registry.mixed != NULL)
        return shunt_fail(err, SHUNT_ERR_UNSUPPORTED,
                          "%s:%u:%u: shard.rule: found a rule that puts %s into one flat group with tensors of another "
                          "dtype (not supported: a flat group of several dtypes)",
                          input->layout->path, input->layout->shard.pos.line, input->layout->shard.pos.column,
                          registry.mixed->name);
    *places_out = registry.places;
    return SHUNT_OK;
}
