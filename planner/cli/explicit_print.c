/* SPDX-License-Identifier: Apache-2.0 */
#include "explicit_print.h"

#include <stdio.h>

#include "space/keys.h"
#include "space/scale.h"

/** A text in double quotes, as YAML reads it back. Names hold no control characters. */
static void print_quoted(const char *text)
{
    putchar('"');
    for (; *text != '\0'; text++) {
        if (*text == '"' || *text == '\\')
            putchar('\\');
        putchar(*text);
    }
    putchar('"');
}

static void print_field(const char *key, const char *text)
{
    printf("%s: ", key);
    print_quoted(text);
    putchar('\n');
}

/** A dtype, or a mapping where that does not say all. */
static void print_state(const struct cfg_layout *layout, unsigned s)
{
    static const char *const scales[] = {
        [CFG_SCALE_UNSAID] = "", [CFG_SCALE_NONE] = ", scale: none", [CFG_SCALE_SHARD] = ", scale: per-shard"};
    const char *dtype = shunt_dtype_name((unsigned)layout->state_dtype[s]);
    if (layout->state_derived[s])
        dtype = s == SHUNT_STATE_PARAM ? "from-master" : "from-param";
    bool host = layout->state_tier[s] == CFG_TIER_HOST;
    if (!host && layout->state_scale[s] == CFG_SCALE_UNSAID)
        fputs(dtype, stdout);
    else
        printf("{dtype: %s%s%s}", dtype, host ? ", tier: host" : "", scales[layout->state_scale[s]]);
}

static void print_head(const struct side *side)
{
    const struct cfg_layout *layout = side->layout;
    bool first = true;
    printf("kind: layout\n");
    print_field("name", layout->name);
    if (layout->model != NULL)
        print_field("model", layout->model);
    if (layout->cluster != NULL)
        print_field("cluster", layout->cluster);
    printf("state: {");
    for (unsigned s = 0; s < SHUNT_STATE_COUNT; s++) {
        if (layout->state_dtype[s] < 0)
            continue;
        printf("%s%s: ", first ? "" : ", ", shunt_state_name(s));
        print_state(layout, s);
        first = false;
    }
    printf("}\n%sranks: %u\n", layout->current_owner ? "current: owner\n" : "", side->grid.rank_count);
    if (layout->device_count > 0) {
        printf("devices: [");
        for (uint32_t r = 0; r < layout->device_count; r++)
            printf("%s%u", r > 0 ? ", " : "", layout->devices[r]);
        printf("]\n");
    }
}

/** Sizes that entries with rows go by, where there are such entries. */
static void print_axes(const struct side *side)
{
    bool first = true, keyed = false;
    for (uint32_t f = 0; f < side->space->family_count; f++)
        keyed = keyed || side->space->families[f].per != NULL;
    if (!keyed)
        return;
    printf("axes: {");
    for (int k = 0; k < CFG_KEY_COUNT; k++) {
        int64_t size = keys_size(side->layout, (enum cfg_key)k);
        if (size == 0)
            continue; /* a mesh without axes of that name; nothing goes by them */
        printf("%s%s: %lld", first ? "" : ", ", cfg_key_names[k], (long long)size);
        first = false;
    }
    printf("}\n");
}

/** Copies that are cut unlike overlap, and must say so. */
static bool has_copies(const struct placement *placement)
{
    for (uint32_t v = 0; v < placement->variant_count; v++) {
        for (uint32_t w = 0; w < v; w++) {
            const struct placement_variant *a = &placement->variants[v], *b = &placement->variants[w];
            struct box common;
            for (uint32_t i = 0; i < a->holding_count; i++) {
                for (uint32_t j = 0; j < b->holding_count; j++) {
                    if (box_intersect(&a->holdings[i].box, &b->holdings[j].box, &common))
                        return true;
                }
            }
        }
    }
    return false;
}

static void print_box(const struct placement_holding *holding)
{
    const struct box *box = &holding->box;
    putchar('"');
    for (uint32_t d = 0; d < box->ndim; d++)
        printf("%s%lld:%lld", d > 0 ? ", " : "", (long long)box->lo[d], (long long)box->hi[d]);
    printf(" @ %lld / ", (long long)holding->offset);
    for (uint32_t d = 0; d < box->ndim; d++)
        printf("%s%lld", d > 0 ? "," : "", (long long)holding->stride[d]);
    putchar('"');
}

static void print_variant(const char *tensor, const char *states, const struct placement_variant *variant, bool copies)
{
    printf("  - {ranks: [");
    for (uint32_t i = 0; i < variant->rank_count; i++)
        printf("%s%u", i > 0 ? ", " : "", variant->ranks[i]);
    printf("], tensor: ");
    print_quoted(tensor);
    printf(", states: [%s], shape: [", states);
    for (uint32_t d = 0; d < variant->ndim && variant->elements > 0; d++)
        printf("%s%lld", d > 0 ? ", " : "", (long long)variant->shape[d]);
    if (variant->elements == 0)
        putchar('0');
    printf("], boxes: [");
    for (uint32_t h = 0; h < variant->holding_count; h++) {
        printf("%s", h > 0 ? ", " : "");
        print_box(&variant->holdings[h]);
    }
    printf("]%s}\n", copies ? ", copy: true" : "");
}

void explicit_print(struct arena *arena, const struct side *side)
{
    const struct space *space = side->space;
    print_head(side);
    print_axes(side);
    printf("holdings:\n");
    for (uint32_t i = 0; i < space->item_count;) {
        const struct space_item *item = &space->items[i];
        const struct placement *placement = side_placement(side, i);
        char states[128];
        size_t used = 0;
        uint32_t end = i;
        if (scale_is_family(&space->families[item->family]))
            break; /* scales follow from the states that have them */
        /* states of the tensor that lie alike are one entry */
        while (end < space->item_count && space->items[end].tensor == item->tensor &&
               side->item_placement[end] == side->item_placement[i]) {
            used += (size_t)snprintf(states + used, sizeof(states) - used, "%s%s", used > 0 ? ", " : "",
                                     shunt_state_name(space->items[end].state));
            end++;
        }
        const char *name = space_tensor_name(arena, &space->families[item->family], item->layer, item->expert);
        bool copies = has_copies(placement);
        for (uint32_t v = 0; v < placement->variant_count; v++) {
            if (placement->variants[v].rank_count > 0)
                print_variant(name, states, &placement->variants[v], copies);
        }
        i = end;
    }
}
