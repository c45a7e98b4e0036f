/* SPDX-License-Identifier: Apache-2.0 */

/* The explicit form of a layout: `ranks` and `holdings`. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "cursor.h"
#include "field.h"
#include "layout.h"
#include "names.h"

#define MOST_EXTENT (INT64_C(1) << 40)
#define MOST_OFFSET (INT64_C(1) << 56)

/* ---- ranks of one entry -------------------------------------------------------------------- */

/* Ranks so far. The first walk counts, the second one writes. */
struct rank_walk {
    uint32_t *ranks; /* NULL in the first walk */
    uint32_t count;
};

static bool add_rank(void *context, const struct cfg_site *site, uint64_t rank)
{
    struct rank_walk *walk = context;
    (void)site;
    if (walk->ranks != NULL)
        walk->ranks[walk->count] = (uint32_t)rank;
    walk->count++;
    return true;
}

static int compare_ranks(const void *a_, const void *b_)
{
    uint32_t a = *(const uint32_t *)a_, b = *(const uint32_t *)b_;
    return a < b ? -1 : a > b;
}

static bool sort_ranks(const struct cfg_site *site, struct cfg_holding *holding)
{
    qsort(holding->ranks, holding->rank_count, sizeof(*holding->ranks), compare_ranks);
    for (uint32_t k = 1; k < holding->rank_count; k++) {
        if (holding->ranks[k - 1] != holding->ranks[k])
            continue;
        cfg_report(site->loader->diag, site->node->pos, site->path,
                   "found rank %" PRIu32 " twice, expected distinct ranks", holding->ranks[k]);
        return false;
    }
    return true;
}

static bool read_ranks(const struct cfg_site *site, const struct cfg_field *field, void *object)
{
    struct cfg_holding *holding = object;
    struct rank_walk walk = {0};
    if (!cfg_site_numbers(site, field, add_rank, &walk))
        return false;
    walk.ranks = cfg_site_alloc(site, walk.count * sizeof(*walk.ranks));
    holding->ranks = walk.ranks;
    walk.count = 0;
    if (walk.ranks == NULL || !cfg_site_numbers(site, field, add_rank, &walk))
        return false;
    holding->rank_count = walk.count;
    return sort_ranks(site, holding);
}

/* ---- boxes --------------------------------------------------------------------------------- */

/* "0:25, 0:16"; NULL, or why it is none */
static const char *scan_ranges(struct cfg_cursor *cursor, struct cfg_box *box)
{
    do {
        int64_t lo, hi;
        if (box->ndim == SHUNT_MAX_DIMS)
            return "more than 6 dimensions";
        const char *reason = cfg_cursor_count(cursor, 0, MOST_EXTENT, &lo);
        if (reason == NULL && !cfg_cursor_take(cursor, ':'))
            reason = "a number without a colon behind it";
        if (reason == NULL)
            reason = cfg_cursor_count(cursor, 0, MOST_EXTENT, &hi);
        if (reason == NULL && lo >= hi)
            reason = "an empty range";
        if (reason != NULL)
            return reason;
        box->lo[box->ndim] = lo;
        box->hi[box->ndim++] = hi;
    } while (cfg_cursor_take(cursor, ','));
    return NULL;
}

static const char *scan_strides(struct cfg_cursor *cursor, struct cfg_box *box)
{
    do {
        if (box->stride_count == box->ndim)
            return "more strides than dimensions";
        const char *reason = cfg_cursor_count(cursor, 0, MOST_OFFSET, &box->stride[box->stride_count++]);
        if (reason != NULL)
            return reason;
    } while (cfg_cursor_take(cursor, ','));
    return box->stride_count < box->ndim ? "fewer strides than dimensions" : NULL;
}

static const char *scan_box(const struct cfg_node *node, struct cfg_box *box)
{
    struct cfg_cursor cursor = {node->text, node->text + node->length};
    const char *reason = scan_ranges(&cursor, box);
    if (reason == NULL && cfg_cursor_take(&cursor, '@'))
        reason = cfg_cursor_count(&cursor, 0, MOST_OFFSET, &box->offset);
    if (reason == NULL && cfg_cursor_take(&cursor, '/'))
        reason = scan_strides(&cursor, box);
    return reason == NULL && !cfg_cursor_at_end(&cursor) ? "something behind it" : reason;
}

static bool read_box(const struct cfg_site *site, struct cfg_box *box)
{
    static const struct cfg_field field = {
        .type = CFG_CUSTOM,
        .expected = "lo:hi for each dimension, then perhaps @ and an offset, / and strides, such as "
                    "\"0:25, 0:16 @ 0 / 16,1\""};
    if (!cfg_site_scalar(site, &field))
        return false;
    const char *reason = scan_box(site->node, box);
    return reason == NULL || cfg_site_refuse(site, &field, site->node->length != 0 ? reason : NULL);
}

/* Boxes of one tensor have its number of dimensions. */
static bool same_dimensions(const struct cfg_site *site, const struct cfg_box *first, const struct cfg_box *box)
{
    if (box->ndim == first->ndim)
        return true;
    cfg_report(site->loader->diag, site->node->pos, site->path,
               "found %" PRIu32 " dimensions, expected %" PRIu32 ", as in the first box", box->ndim, first->ndim);
    return false;
}

static bool read_boxes(const struct cfg_site *site, const struct cfg_field *field, void *object)
{
    struct cfg_holding *holding = object;
    bool good = true;
    if (!cfg_site_list(site, field))
        return false;
    holding->boxes = cfg_site_alloc(site, site->node->count * sizeof(*holding->boxes));
    if (holding->boxes == NULL)
        return false;
    for (const struct cfg_item *item = site->node->first; item != NULL; item = item->next) {
        const struct cfg_path path = {.up = site->path, .index = holding->box_count};
        const struct cfg_site inner = {site->loader, item->value, &path};
        struct cfg_box *box = &holding->boxes[holding->box_count++];
        if (!read_box(&inner, box) || (good && !same_dimensions(&inner, holding->boxes, box)))
            good = false;
    }
    return good;
}

/* ---- entries ------------------------------------------------------------------------------- */

enum { HOLDING_RANKS, HOLDING_TENSOR, HOLDING_STATES, HOLDING_SHAPE, HOLDING_BOXES, HOLDING_COPY, HOLDING_FIELD_COUNT };

/* An empty buffer has its first extent 0 and no boxes; any other says its boxes, if only as []. */
static void check_holding(struct cfg_scope *scope)
{
    const struct cfg_holding *holding = scope->object;
    const struct cfg_node *boxes = cfg_node_find(scope->node, "boxes");
    if (!cfg_scope_usable(scope, CFG_BIT(HOLDING_SHAPE)))
        return;
    for (uint32_t d = 1; d < holding->ndim; d++) {
        if (holding->shape[d] == 0)
            cfg_scope_report(scope, "shape",
                             "found an extent of 0 in dimension %" PRIu32 ", expected it in dimension 0 only", d);
    }
    if (holding->shape[0] == 0 && boxes != NULL && boxes->count != 0)
        cfg_scope_report(scope, "boxes", "found boxes in a buffer whose first extent is 0, expected none");
    if (holding->shape[0] != 0 && boxes == NULL)
        cfg_scope_report(scope, "boxes", "found no such key, expected a list of boxes, [] if all of the buffer is pad");
}

static void release_holding(void *object)
{
    struct cfg_holding *holding = object;
    free(holding->ranks);
    free(holding->boxes);
}

#define COUNT_JSON "(0|[1-9][0-9]*)"
#define RANGE_JSON COUNT_JSON " *: *" COUNT_JSON

static const struct cfg_field holding_fields[] = {
    [HOLDING_RANKS] = {.key = "ranks",
                       .type = CFG_CUSTOM,
                       .required = true,
                       .read = read_ranks,
                       .max = CFG_MOST_RANKS - 1,
                       .expected = "ranks below 1048576, such as 5, \"0-3,8\" or [0, 2]",
                       .json = CFG_NUMBERS_JSON,
                       .help = "Ranks that have this buffer, replicas of each other"},
    [HOLDING_TENSOR] = {.key = "tensor",
                        .type = CFG_TEXT,
                        .required = true,
                        CFG_MEMBER(struct cfg_holding, tensor),
                        .accept = cfg_accept_scalar_name,
                        .help = "Global name, with layer and expert numbers written out"},
    [HOLDING_STATES] = {.key = "states",
                        .type = CFG_CUSTOM,
                        .required = true,
                        CFG_MEMBER(struct cfg_holding, state),
                        .read = cfg_states_read,
                        .min = 1,
                        .max = SHUNT_STATE_COUNT,
                        .choice_name = shunt_state_name,
                        .expected = "a list of states, such as [param, master]",
                        .help = "States that lie this way, each in a buffer of its own"},
    [HOLDING_SHAPE] = {.key = "shape",
                       .type = CFG_ARRAY,
                       .required = true,
                       CFG_MEMBER(struct cfg_holding, shape),
                       CFG_NUMBER(struct cfg_holding, ndim),
                       .min = 1,
                       .max = SHUNT_MAX_DIMS,
                       .zero_too = true,
                       .element_max = MOST_EXTENT,
                       .help = "Shape of the buffer, pads included; a first extent of 0 is an empty shard"},
    [HOLDING_BOXES] = {.key = "boxes",
                       .type = CFG_CUSTOM,
                       .read = read_boxes,
                       .max = INT64_MAX,
                       .expected = "a list of boxes, such as [\"0:25, 0:16 @ 0\"]",
                       .json = "\"type\": \"array\", \"items\": {\"type\": \"string\", \"pattern\": \"^ *" RANGE_JSON
                               " *(, *" RANGE_JSON " *){0,5}(@ *" COUNT_JSON " *)?(/ *" COUNT_JSON " *(, *" COUNT_JSON
                               " *){0,5})?$\"}",
                       .help = "Parts of the tensor in the buffer: `lo:hi` for each dimension of the tensor, `@` and "
                               "the offset of the first element (absent: 0), `/` and a stride for each dimension "
                               "(absent: those of the buffer, or of the box in a flat one), in elements. May be left "
                               "out for an empty shard"},
    [HOLDING_COPY] = {.key = "copy",
                      .type = CFG_BOOL,
                      CFG_MEMBER(struct cfg_holding, copy),
                      .fallback = "false",
                      .help = "Its boxes may also be held, cut otherwise, by entries that say so too"},
};

const struct cfg_table cfg_holding_table = {
    .help = "One buffer on some ranks, and what it holds of one tensor",
    .fields = holding_fields,
    .field_count = HOLDING_FIELD_COUNT,
    .size = sizeof(struct cfg_holding),
    CFG_POS(struct cfg_holding, pos),
    .check = check_holding,
    .release = release_holding,
};

/* ---- entries in the document ---------------------------------------------------------------- */

static void check_entry(struct cfg_scope *scope, struct cfg_scope *entry)
{
    const struct cfg_layout *layout = scope->object;
    const struct cfg_holding *holding = entry->object;
    uint32_t last = holding->rank_count != 0 ? holding->ranks[holding->rank_count - 1] : 0;
    if (cfg_scope_usable(scope, CFG_BIT(LAYOUT_RANKS)) && layout->ranks != 0 && last >= layout->ranks)
        cfg_scope_report(entry, "ranks", "found rank %" PRIu32 ", expected ranks below `ranks`, which is %" PRId64,
                         last, layout->ranks);
    cfg_states_check(scope, entry, holding->state);
}

void cfg_holdings_check(struct cfg_scope *scope)
{
    struct cfg_layout *layout = scope->object;
    const struct cfg_node *list = cfg_node_find(scope->node, "holdings");
    const struct cfg_path list_path = {.up = scope->path, .key = "holdings"};
    const struct cfg_item *item = list != NULL ? list->first : NULL;
    for (uint32_t h = 0; h < layout->holding_count; h++, item = item->next) {
        const struct cfg_path path = {.up = &list_path, .index = h};
        struct cfg_scope entry = {scope->loader, item->value, &path, &layout->holdings[h], UINT64_MAX};
        check_entry(scope, &entry);
    }
}
