/* SPDX-License-Identifier: Apache-2.0 */
#include "yaml_tree.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <yaml.h>

#include "text_check.h"

/* Far behind the last value and past CFG_MAX_BYTES, so many bytes without another one are no document of ours. */
#define MAX_SILENT_BYTES ((size_t)1 << 20)

struct anchor {
    const char *name;
    struct cfg_node *node;
};

struct builder {
    yaml_parser_t parser;
    struct cfg_tree *tree;
    struct cfg_diag *diag;
    const char *bulk; /* key of the list that may be large; NULL: none */
    const unsigned char *bytes;
    size_t size, given;    /* given: what the parser has asked for so far */
    size_t given_at_event; /* at the latest event */
    bool too_long;         /* it asked for more than the document may have */
    bool bulk_seen;        /* the large list has begun */
    uint32_t nodes;        /* so far, aliases expanded */
    uint32_t bulk_nodes;   /* those that are written in the large list */
    uint32_t depth;        /* open lists and mappings */
    struct cfg_node *open[CFG_MAX_DEPTH];
    struct cfg_node *key[CFG_MAX_DEPTH]; /* the latest key of each open mapping */
    bool value_next[CFG_MAX_DEPTH];      /* that key's value is still to come */
    struct anchor anchors[CFG_MAX_ANCHORS];
    uint32_t anchor_count;
    uint32_t document_count;
};

static struct cfg_pos mark_pos(yaml_mark_t mark)
{
    return (struct cfg_pos){(uint32_t)mark.line + 1, (uint32_t)mark.column + 1};
}

/* ---- problems ------------------------------------------------------------------- */

/* The step from open list or mapping d to the value that is being read in it; false while a key is read. */
static bool step_into(const struct builder *b, uint32_t d, struct cfg_path *step)
{
    bool innermost = d + 1 == b->depth;
    const struct cfg_node *parent = b->open[d], *key = b->key[d];
    if (parent->kind == CFG_NODE_LIST) {
        step->index = innermost ? parent->count : parent->count - 1;
        return true;
    }
    if (key == NULL || key->kind != CFG_NODE_SCALAR || key->length == 0 || (innermost && !b->value_next[d]))
        return false;
    step->key = key->text;
    step->key_length = key->length;
    return true;
}

/* Report at the value that is being read; always SHUNT_ERR_INPUT. */
__attribute__((format(printf, 3, 4))) static enum shunt_status refuse(struct builder *b, yaml_mark_t mark,
                                                                      const char *format, ...)
{
    struct cfg_path steps[CFG_MAX_DEPTH];
    const struct cfg_path *path = NULL;
    for (uint32_t d = 0; d < b->depth; d++) {
        steps[d] = (struct cfg_path){.up = path};
        if (step_into(b, d, &steps[d]))
            path = &steps[d];
    }
    char text[256];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    cfg_report(b->diag, mark_pos(mark), path, "%s", text);
    return SHUNT_ERR_INPUT;
}

static enum shunt_status syntax_problem(struct builder *b)
{
    const yaml_parser_t *parser = &b->parser;
    if (parser->error == YAML_MEMORY_ERROR)
        return SHUNT_ERR_NOMEM;
    if (b->too_long)
        return refuse(b, parser->mark, "found more than %zu bytes without values of `%s`, expected a smaller document",
                      CFG_MAX_BYTES, b->bulk);
    const char *problem = parser->problem != NULL ? parser->problem : "not YAML";
    struct cfg_pos pos = mark_pos(parser->problem_mark);
    if (parser->context != NULL)
        cfg_report(b->diag, pos, NULL, "found a syntax error, expected YAML: %s (%s from line %zu)", problem,
                   parser->context, parser->context_mark.line + 1);
    else
        cfg_report(b->diag, pos, NULL, "found a syntax error, expected YAML: %s", problem);
    return SHUNT_ERR_INPUT;
}

/* ---- building -------------------------------------------------------------------- */

static struct cfg_node *new_node(struct builder *b, enum cfg_node_kind kind, yaml_mark_t mark)
{
    struct cfg_node *node = cfg_arena_alloc(&b->tree->arena, sizeof(*node));
    if (node != NULL) {
        node->kind = kind;
        node->pos = mark_pos(mark);
        node->expanded = 1;
        node->height = kind == CFG_NODE_SCALAR ? 0 : 1;
    }
    return node;
}

static enum shunt_status add_item(struct builder *b, struct cfg_node *parent, const struct cfg_node *key,
                                  const struct cfg_node *value)
{
    struct cfg_item *item = cfg_arena_alloc(&b->tree->arena, sizeof(*item));
    if (item == NULL)
        return SHUNT_ERR_NOMEM;
    item->key = key;
    item->value = value;
    if (parent->last != NULL)
        parent->last->next = item;
    else
        parent->first = item;
    parent->last = item;
    parent->count++;
    return SHUNT_OK;
}

/* Hang a node under the innermost open list or mapping, as key or as value. */
static enum shunt_status attach(struct builder *b, struct cfg_node *node)
{
    if (b->depth == 0) {
        b->tree->root = node;
        return SHUNT_OK;
    }
    uint32_t d = b->depth - 1;
    struct cfg_node *parent = b->open[d];
    if (parent->kind == CFG_NODE_LIST)
        return add_item(b, parent, NULL, node);
    b->value_next[d] = !b->value_next[d];
    if (!b->value_next[d])
        return add_item(b, parent, b->key[d], node);
    b->key[d] = node;
    return SHUNT_OK;
}

/* A parent knows the height of its entries once they are complete. */
static void raise_parent(struct builder *b, const struct cfg_node *node)
{
    if (b->depth != 0 && b->open[b->depth - 1]->height < node->height + 1)
        b->open[b->depth - 1]->height = node->height + 1;
}

/* Is this the list that may be large, or inside it? */
static bool in_bulk(const struct builder *b)
{
    bool in_value = b->depth > 1 || (b->depth == 1 && b->value_next[0]);
    return b->bulk != NULL && in_value && b->key[0] != NULL && cfg_node_is(b->key[0], b->bulk);
}

static enum shunt_status count_nodes(struct builder *b, uint32_t more, yaml_mark_t mark)
{
    b->nodes += more;
    if (b->nodes - b->bulk_nodes > CFG_MAX_NODES)
        return refuse(b, mark, "found more than %d values after expanding aliases, expected a smaller document",
                      CFG_MAX_NODES);
    if (b->nodes > CFG_MAX_BULK_NODES)
        return refuse(b, mark, "found more than %d values, expected a smaller document", CFG_MAX_BULK_NODES);
    return SHUNT_OK;
}

static enum shunt_status count_node(struct builder *b, yaml_mark_t mark)
{
    bool bulk = in_bulk(b);
    b->bulk_seen |= bulk;
    b->bulk_nodes += bulk;
    return count_nodes(b, 1, mark);
}

/* Tags are reported and otherwise ignored, so that the rest of the document is still checked. */
static void refuse_tag(struct builder *b, const yaml_char_t *tag, yaml_mark_t mark)
{
    char quoted[CFG_QUOTE_BYTES];
    if (tag != NULL)
        refuse(b, mark, "found the tag %s, expected a value without a tag",
               cfg_quote(quoted, (const char *)tag, strlen((const char *)tag)));
}

static const struct anchor *find_anchor(const struct builder *b, const char *name)
{
    for (uint32_t i = 0; i < b->anchor_count; i++) {
        if (strcmp(b->anchors[i].name, name) == 0)
            return &b->anchors[i];
    }
    return NULL;
}

static enum shunt_status add_anchor(struct builder *b, const yaml_char_t *name, struct cfg_node *node, yaml_mark_t mark)
{
    if (name == NULL)
        return SHUNT_OK;
    size_t length = strlen((const char *)name);
    char quoted[CFG_QUOTE_BYTES];
    cfg_quote(quoted, (const char *)name, length);
    if (find_anchor(b, (const char *)name) != NULL)
        return refuse(b, mark, "found the anchor %s a second time, expected each name once", quoted);
    if (b->anchor_count == CFG_MAX_ANCHORS)
        return refuse(b, mark, "found more than %d anchors, expected fewer", CFG_MAX_ANCHORS);
    char *copy = cfg_arena_alloc(&b->tree->arena, length + 1);
    if (copy == NULL)
        return SHUNT_ERR_NOMEM;
    memcpy(copy, name, length);
    b->anchors[b->anchor_count++] = (struct anchor){copy, node};
    return SHUNT_OK;
}

/* ---- events ------------------------------------------------------------------------ */

static enum shunt_status on_scalar(struct builder *b, const yaml_event_t *event)
{
    enum shunt_status status = count_node(b, event->start_mark);
    if (status != SHUNT_OK)
        return status;
    size_t length = event->data.scalar.length;
    if (length > CFG_MAX_SCALAR_BYTES)
        return refuse(b, event->start_mark, "found a text of %zu bytes, expected at most %d", length,
                      CFG_MAX_SCALAR_BYTES);
    refuse_tag(b, event->data.scalar.tag, event->start_mark);
    struct cfg_node *node = new_node(b, CFG_NODE_SCALAR, event->start_mark);
    char *text = cfg_arena_alloc(&b->tree->arena, length + 1);
    if (node == NULL || text == NULL)
        return SHUNT_ERR_NOMEM;
    memcpy(text, event->data.scalar.value, length);
    node->plain = event->data.scalar.style == YAML_PLAIN_SCALAR_STYLE;
    node->text = text;
    node->length = length;
    node->complete = true;
    status = add_anchor(b, event->data.scalar.anchor, node, event->start_mark);
    if (status != SHUNT_OK)
        return status;
    raise_parent(b, node);
    return attach(b, node);
}

static enum shunt_status on_open(struct builder *b, const yaml_event_t *event)
{
    bool mapping = event->type == YAML_MAPPING_START_EVENT;
    enum shunt_status status = count_node(b, event->start_mark);
    if (status != SHUNT_OK)
        return status;
    if (b->depth == CFG_MAX_DEPTH)
        return refuse(b, event->start_mark, "found nesting deeper than %d, expected less", CFG_MAX_DEPTH);
    refuse_tag(b, mapping ? event->data.mapping_start.tag : event->data.sequence_start.tag, event->start_mark);
    struct cfg_node *node = new_node(b, mapping ? CFG_NODE_MAPPING : CFG_NODE_LIST, event->start_mark);
    if (node == NULL)
        return SHUNT_ERR_NOMEM;
    const yaml_char_t *name = mapping ? event->data.mapping_start.anchor : event->data.sequence_start.anchor;
    status = add_anchor(b, name, node, event->start_mark);
    if (status == SHUNT_OK)
        status = attach(b, node);
    if (status != SHUNT_OK)
        return status;
    node->expanded = b->nodes; /* until the end is read: nodes up to and including this one */
    b->open[b->depth] = node;
    b->key[b->depth] = NULL;
    b->value_next[b->depth] = false;
    b->depth++;
    return SHUNT_OK;
}

static enum shunt_status on_close(struct builder *b)
{
    struct cfg_node *node = b->open[--b->depth];
    node->expanded = b->nodes - node->expanded + 1;
    node->complete = true;
    raise_parent(b, node);
    return SHUNT_OK;
}

static enum shunt_status on_alias(struct builder *b, const yaml_event_t *event)
{
    const char *name = (const char *)event->data.alias.anchor;
    const struct anchor *anchor = find_anchor(b, name);
    char quoted[CFG_QUOTE_BYTES];
    cfg_quote(quoted, name, strlen(name));
    if (anchor == NULL)
        return refuse(b, event->start_mark, "found the alias %s without an anchor before it", quoted);
    struct cfg_node *node = anchor->node;
    if (!node->complete)
        return refuse(b, event->start_mark, "found the alias %s inside its own anchor, expected no self-reference",
                      quoted);
    if (b->depth + node->height > CFG_MAX_DEPTH)
        return refuse(b, event->start_mark, "found nesting deeper than %d, expected less", CFG_MAX_DEPTH);
    enum shunt_status status = count_nodes(b, node->expanded, event->start_mark);
    if (status != SHUNT_OK)
        return status;
    raise_parent(b, node);
    return attach(b, node);
}

static enum shunt_status on_document(struct builder *b, const yaml_event_t *event)
{
    if (++b->document_count > 1)
        return refuse(b, event->start_mark, "found a second document in the file, expected one");
    return SHUNT_OK;
}

static enum shunt_status on_event(struct builder *b, const yaml_event_t *event)
{
    switch (event->type) {
    case YAML_DOCUMENT_START_EVENT:
        return on_document(b, event);
    case YAML_SCALAR_EVENT:
        return on_scalar(b, event);
    case YAML_ALIAS_EVENT:
        return on_alias(b, event);
    case YAML_SEQUENCE_START_EVENT:
    case YAML_MAPPING_START_EVENT:
        return on_open(b, event);
    case YAML_SEQUENCE_END_EVENT:
    case YAML_MAPPING_END_EVENT:
        return on_close(b);
    default:
        return SHUNT_OK;
    }
}

static enum shunt_status run(struct builder *b)
{
    enum shunt_status status = SHUNT_OK;
    bool end = false;
    while (status == SHUNT_OK && !end) {
        yaml_event_t event;
        if (!yaml_parser_parse(&b->parser, &event))
            return syntax_problem(b);
        status = on_event(b, &event);
        end = event.type == YAML_STREAM_END_EVENT;
        yaml_event_delete(&event);
        b->given_at_event = b->given;
    }
    return status;
}

/* Past CFG_MAX_BYTES there is more only in a document whose large list has begun, and while it makes progress. */
static int read_more(void *builder, unsigned char *buffer, size_t size, size_t *size_read)
{
    struct builder *b = builder;
    bool progress = b->bulk_seen && b->given - b->given_at_event < MAX_SILENT_BYTES;
    b->too_long = b->given >= CFG_MAX_BYTES && b->given < b->size && !progress;
    if (b->too_long)
        return 0;
    *size_read = size < b->size - b->given ? size : b->size - b->given;
    memcpy(buffer, b->bytes + b->given, *size_read);
    b->given += *size_read;
    return 1;
}

enum shunt_status cfg_tree_parse(struct cfg_tree *tree, const void *bytes, size_t size, const char *bulk,
                                 struct cfg_diag *diag)
{
    *tree = (struct cfg_tree){0};
    size_t skip;
    if (!cfg_text_check(diag, bytes, size, bulk != NULL ? CFG_MAX_BULK_BYTES : CFG_MAX_BYTES, &skip))
        return SHUNT_ERR_INPUT;
    struct builder b = {
        .tree = tree, .diag = diag, .bulk = bulk, .bytes = (const unsigned char *)bytes + skip, .size = size - skip};
    if (!yaml_parser_initialize(&b.parser))
        return SHUNT_ERR_NOMEM;
    yaml_parser_set_encoding(&b.parser, YAML_UTF8_ENCODING);
    yaml_parser_set_input(&b.parser, read_more, &b);
    enum shunt_status status = run(&b);
    yaml_parser_delete(&b.parser);
    return status;
}

void cfg_tree_finish(struct cfg_tree *tree)
{
    cfg_arena_finish(&tree->arena);
    tree->root = NULL;
}
