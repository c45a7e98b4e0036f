/* SPDX-License-Identifier: Apache-2.0 */

/* The DTensor form of a layout: `mesh` and `placements`. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "cursor.h"
#include "field.h"
#include "layout.h"
#include "names.h"

/* ---- the mesh ------------------------------------------------------------------------------ */

enum { MESH_NAMES, MESH_SHAPE, MESH_FIELD_COUNT };

int64_t cfg_mesh_ranks(const struct cfg_mesh *mesh)
{
    int64_t ranks = 1;
    for (uint32_t a = 0; a < mesh->axis_count && ranks <= CFG_MOST_RANKS; a++)
        ranks *= mesh->shape[a];
    return ranks <= CFG_MOST_RANKS ? ranks : CFG_MOST_RANKS + 1;
}

static bool read_name(const struct cfg_site *site, struct cfg_mesh *mesh, uint64_t index)
{
    const struct cfg_field field = {.type = CFG_TEXT, .size = sizeof(char *), .accept = cfg_accept_name};
    char quoted[CFG_QUOTE_BYTES];
    if (!cfg_field_read(site, &field, &mesh->names[index]))
        return false;
    for (uint64_t before = 0; before < index; before++) {
        if (mesh->names[before] == NULL || strcmp(mesh->names[before], mesh->names[index]) != 0)
            continue;
        cfg_report(site->loader->diag, site->node->pos, site->path, "found %s a second time, expected distinct names",
                   cfg_node_describe(site->node, quoted));
        return false;
    }
    return true;
}

static bool read_names(const struct cfg_site *site, const struct cfg_field *field, void *object)
{
    bool good = true;
    uint64_t index = 0;
    if (!cfg_site_list(site, field))
        return false;
    for (const struct cfg_item *item = site->node->first; item != NULL; item = item->next, index++) {
        const struct cfg_path path = {.up = site->path, .index = index};
        const struct cfg_site inner = {site->loader, item->value, &path};
        if (!read_name(&inner, object, index))
            good = false;
    }
    return good;
}

static void check_mesh(struct cfg_scope *scope)
{
    const struct cfg_mesh *mesh = scope->object;
    uint32_t names = 0;
    if (!cfg_scope_usable(scope, CFG_BIT(MESH_SHAPE)))
        return;
    if (cfg_mesh_ranks(mesh) > CFG_MOST_RANKS)
        cfg_scope_report(scope, "shape", "found axes whose product is more than %" PRId64 ", expected fewer ranks",
                         CFG_MOST_RANKS);
    while (names < CFG_MAX_MESH && mesh->names[names] != NULL)
        names++;
    if (cfg_scope_usable(scope, CFG_BIT(MESH_NAMES)) && names != mesh->axis_count)
        cfg_scope_report(scope, "names", "found %" PRIu32 " names, expected %" PRIu32 ", one for each axis of `shape`",
                         names, mesh->axis_count);
}

static void release_mesh(void *object)
{
    struct cfg_mesh *mesh = object;
    for (uint32_t a = 0; a < CFG_MAX_MESH; a++)
        free(mesh->names[a]);
}

static const struct cfg_field mesh_fields[] = {
    [MESH_NAMES] = {.key = "names",
                    .type = CFG_CUSTOM,
                    .required = true,
                    .read = read_names,
                    .min = 1,
                    .max = CFG_MAX_MESH,
                    .expected = "a list of 1 to 6 names of axes, such as [dp, tp]",
                    .json = "\"type\": \"array\", \"minItems\": 1, \"maxItems\": 6, \"uniqueItems\": true, \"items\": "
                            "{\"type\": \"string\", \"minLength\": 1}",
                    .help = "Names of the axes"},
    [MESH_SHAPE] = {.key = "shape",
                    .type = CFG_ARRAY,
                    .required = true,
                    CFG_MEMBER(struct cfg_mesh, shape),
                    CFG_NUMBER(struct cfg_mesh, axis_count),
                    .min = 1,
                    .max = CFG_MAX_MESH,
                    .element_max = CFG_MOST_RANKS,
                    .help =
                        "Sizes of the axes; they multiply to the number of ranks, which are numbered row-major, the "
                        "last axis fastest"},
};

const struct cfg_table cfg_mesh_table = {
    .help = "Named axes of the ranks",
    .fields = mesh_fields,
    .field_count = MESH_FIELD_COUNT,
    .check = check_mesh,
    .release = release_mesh,
};

/* ---- one placement ------------------------------------------------------------------------- */

static bool is_word(const char *word, size_t length, const char *wanted)
{
    return strlen(wanted) == length && memcmp(word, wanted, length) == 0;
}

/* "3", "NAME=3" or "OTHER=3" up to max; NULL, or why it is none */
static const char *scan_argument(struct cfg_cursor *cursor, const char *name, const char *other, int64_t min,
                                 int64_t max, int64_t *out)
{
    const char *word;
    size_t length = cfg_cursor_word(cursor, &word);
    if (length != 0 && !is_word(word, length, name) && !is_word(word, length, other))
        return "not one of its arguments";
    if (length != 0 && !cfg_cursor_take(cursor, '='))
        return "an argument without `=`";
    return cfg_cursor_count(cursor, min, max, out);
}

/* The brackets behind Shard and _StridedShard. */
static const char *scan_arguments(struct cfg_cursor *cursor, struct cfg_placement *out)
{
    int64_t dim = 0;
    if (!cfg_cursor_take(cursor, '('))
        return "no opening bracket";
    const char *reason = scan_argument(cursor, "dim", "dim", 0, SHUNT_MAX_DIMS - 1, &dim);
    out->dim = (int32_t)dim;
    if (reason == NULL && out->kind == CFG_PLACE_STRIDED)
        reason = !cfg_cursor_take(cursor, ',')
                     ? "no split factor; a comma needs quotes around the text"
                     : scan_argument(cursor, "sf", "split_factor", 1, CFG_MOST_RANKS, &out->split_factor);
    if (reason == NULL && !cfg_cursor_take(cursor, ')'))
        reason = "no closing bracket";
    return reason;
}

/* NULL, or why it is none */
static const char *scan_placement(const struct cfg_node *node, struct cfg_placement *out)
{
    struct cfg_cursor cursor = {node->text, node->text + node->length};
    const char *word, *reason = NULL;
    size_t length = cfg_cursor_word(&cursor, &word);
    *out = (struct cfg_placement){.kind = CFG_PLACE_REPLICATE};
    if (is_word(word, length, "Replicate")) {
        if (cfg_cursor_take(&cursor, '(') && !cfg_cursor_take(&cursor, ')'))
            reason = "no closing bracket";
    } else if (is_word(word, length, "Shard") || is_word(word, length, "_StridedShard")) {
        out->kind = word[0] == '_' ? CFG_PLACE_STRIDED : CFG_PLACE_SHARD;
        reason = scan_arguments(&cursor, out);
    } else if (memmem(word, length, "Partial", strlen("Partial")) != NULL) {
        return "partial sums are not state: reduce them first";
    } else {
        return "not a placement";
    }
    return reason == NULL && !cfg_cursor_at_end(&cursor) ? "something behind it" : reason;
}

static bool read_placement(const struct cfg_site *site, struct cfg_placement *out)
{
    static const struct cfg_field field = {
        .type = CFG_CUSTOM, .expected = "`Replicate`, `Shard(d)` or `_StridedShard(d, k)` with a dimension d below 6"};
    if (!cfg_site_scalar(site, &field))
        return false;
    const char *reason = scan_placement(site->node, out);
    return reason == NULL || cfg_site_refuse(site, &field, site->node->length != 0 ? reason : NULL);
}

/* ---- rules ----------------------------------------------------------------------------------- */

static bool read_placements(const struct cfg_site *site, const struct cfg_field *field, void *object)
{
    struct cfg_mesh_rule *rule = object;
    bool good = true;
    uint32_t index = 0;
    if (!cfg_site_list(site, field))
        return false;
    for (const struct cfg_item *item = site->node->first; item != NULL; item = item->next, index++) {
        const struct cfg_path path = {.up = site->path, .index = index};
        const struct cfg_site inner = {site->loader, item->value, &path};
        if (!read_placement(&inner, &rule->placement[index]))
            good = false;
    }
    rule->count = good ? index : 0;
    return good;
}

enum { RULE_TENSOR, RULE_STATES, RULE_PLACEMENTS, RULE_FIELD_COUNT };

/* A rule without states speaks of all of them; one whose tensor is not known, of none. */
static void check_rule(struct cfg_scope *scope)
{
    struct cfg_mesh_rule *rule = scope->object;
    bool usable = cfg_scope_usable(scope, CFG_BIT(RULE_TENSOR));
    if (usable && cfg_node_find(scope->node, "states") != NULL)
        return;
    for (unsigned s = 0; s < SHUNT_STATE_COUNT; s++)
        rule->state[s] = usable;
}

static const struct cfg_choice rule_states[] = {{"param", SHUNT_STATE_PARAM},
                                                {"grad", SHUNT_STATE_GRAD},
                                                {"master", SHUNT_STATE_MASTER},
                                                {"exp_avg", SHUNT_STATE_EXP_AVG},
                                                {"exp_avg_sq", SHUNT_STATE_EXP_AVG_SQ},
                                                {"momentum", SHUNT_STATE_MOMENTUM},
                                                {NULL, 0}};

static const struct cfg_field rule_fields[] = {
    [RULE_TENSOR] =
        {.key = "tensor",
         .type = CFG_TEXT,
         CFG_MEMBER(struct cfg_mesh_rule, tensor),
         .accept = cfg_accept_tensor_name,
         .help = "Name as the model writes it, with {i} and {e}; absent: every tensor without a rule of its own"},
    [RULE_STATES] = {.key = "states",
                     .type = CFG_CUSTOM,
                     CFG_MEMBER(struct cfg_mesh_rule, state),
                     .read = cfg_states_read,
                     .min = 1,
                     .max = SHUNT_STATE_COUNT,
                     .choices = rule_states,
                     .expected = "a list of states, such as [param]; buffers and scalars are whole on every rank",
                     .help = "States that it speaks of; absent: all"},
    [RULE_PLACEMENTS] =
        {.key = "placements",
         .type = CFG_CUSTOM,
         .required = true,
         .read = read_placements,
         .min = 1,
         .max = CFG_MAX_MESH,
         .expected = "a list of 1 to 6 placements, such as [Replicate, Shard(0)]",
         .json =
             "\"type\": \"array\", \"minItems\": 1, \"maxItems\": 6, \"items\": {\"type\": \"string\", \"pattern\": "
             "\"^ *(Replicate *(\\\\( *\\\\))?|Shard *\\\\( *(dim *= *)?[0-5] *\\\\)|_StridedShard *\\\\( *(dim *= "
             "*)?[0-5] *, *((sf|split_factor) *= *)?[1-9][0-9]* *\\\\)) *$\"}",
         .help = "What each axis of the mesh does to the tensor: Replicate, Shard(d), or _StridedShard(d, k), cut "
                 "behind as many of the later axes that cut dimension d as make k parts"},
};

const struct cfg_table cfg_mesh_rule_table = {
    .help = "What the axes of the mesh do to some tensors",
    .fields = rule_fields,
    .field_count = RULE_FIELD_COUNT,
    .size = sizeof(struct cfg_mesh_rule),
    CFG_POS(struct cfg_mesh_rule, pos),
    .check = check_rule,
};

/* ---- rules beside each other --------------------------------------------------------------- */

/* The rules by tensor, and for each the earlier one that it clashes with. */
struct rule_order {
    const struct cfg_mesh_rule **sorted;
    struct clash {
        const struct cfg_mesh_rule *first; /* NULL: none */
        unsigned state;
    } * clashes; /* by rule */
};

static int compare_tensors(const struct cfg_mesh_rule *a, const struct cfg_mesh_rule *b)
{
    if (a->tensor == NULL || b->tensor == NULL)
        return (a->tensor != NULL) - (b->tensor != NULL);
    return strcmp(a->tensor, b->tensor);
}

static int compare_rules(const void *a_, const void *b_)
{
    const struct cfg_mesh_rule *a = *(const struct cfg_mesh_rule *const *)a_;
    const struct cfg_mesh_rule *b = *(const struct cfg_mesh_rule *const *)b_;
    int order = compare_tensors(a, b);
    return order != 0 ? order : a < b ? -1 : a > b;
}

static void find_clashes(const struct cfg_mesh *mesh, struct rule_order *order)
{
    const struct cfg_mesh_rule *first[SHUNT_STATE_COUNT] = {NULL};
    for (uint32_t r = 0; r < mesh->rule_count; r++)
        order->sorted[r] = &mesh->rules[r];
    qsort(order->sorted, mesh->rule_count, sizeof(*order->sorted), compare_rules);
    for (uint32_t r = 0; r < mesh->rule_count; r++) {
        const struct cfg_mesh_rule *rule = order->sorted[r];
        struct clash *clash = &order->clashes[rule - mesh->rules];
        if (r == 0 || compare_tensors(order->sorted[r - 1], rule) != 0)
            memset(first, 0, sizeof(first));
        for (unsigned s = 0; s < SHUNT_STATE_COUNT; s++) {
            if (!rule->state[s])
                continue;
            if (first[s] == NULL)
                first[s] = rule;
            else if (clash->first == NULL)
                *clash = (struct clash){first[s], s};
        }
    }
}

static void report_clash(struct cfg_scope *entry, const struct clash *clash)
{
    const struct cfg_mesh_rule *rule = entry->object;
    char quoted[CFG_QUOTE_BYTES];
    cfg_scope_report(entry, "tensor",
                     "found a second rule for `%s` of %s (first on line %" PRIu32 "), expected one for each state",
                     shunt_state_name(clash->state),
                     rule->tensor != NULL ? cfg_quote(quoted, rule->tensor, strlen(rule->tensor)) : "every tensor",
                     clash->first->pos.line);
}

static void check_one_rule(struct cfg_scope *scope, struct cfg_scope *entry)
{
    const struct cfg_layout *layout = scope->object;
    const struct cfg_mesh_rule *rule = entry->object;
    if (cfg_scope_usable(scope, CFG_BIT(LAYOUT_MESH)) && rule->count != 0 && rule->count != layout->mesh.axis_count)
        cfg_scope_report(entry, "placements",
                         "found %" PRIu32 " placements, expected %" PRIu32 ", one for each axis of `mesh`", rule->count,
                         layout->mesh.axis_count);
    cfg_states_check(scope, entry, rule->state);
}

static void check_rules(struct cfg_scope *scope, const struct rule_order *order)
{
    struct cfg_layout *layout = scope->object;
    const struct cfg_node *list = cfg_node_find(scope->node, "placements");
    const struct cfg_path list_path = {.up = scope->path, .key = "placements"};
    const struct cfg_item *item = list != NULL ? list->first : NULL;
    for (uint32_t r = 0; r < layout->mesh.rule_count; r++, item = item->next) {
        const struct cfg_path path = {.up = &list_path, .index = r};
        struct cfg_scope entry = {scope->loader, item->value, &path, &layout->mesh.rules[r], UINT64_MAX};
        check_one_rule(scope, &entry);
        if (order->clashes[r].first != NULL)
            report_clash(&entry, &order->clashes[r]);
    }
}

void cfg_mesh_rules_check(struct cfg_scope *scope)
{
    const struct cfg_layout *layout = scope->object;
    const struct cfg_mesh *mesh = &layout->mesh;
    struct rule_order order = {.sorted = cfg_alloc(mesh->rule_count * sizeof(*order.sorted)),
                               .clashes = cfg_alloc(mesh->rule_count * sizeof(*order.clashes))};
    if (order.sorted != NULL && order.clashes != NULL) {
        find_clashes(mesh, &order);
        check_rules(scope, &order);
    } else {
        scope->loader->out_of_memory = true;
    }
    free(order.sorted);
    free(order.clashes);
}
