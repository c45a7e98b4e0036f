/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHUNT_PLANNER_CONFIG_YAML_TREE_H
#define SHUNT_PLANNER_CONFIG_YAML_TREE_H

/**
 * A YAML document as a tree of limited size. Aliases share their target, so the tree is a
 * directed acyclic graph; its size after expansion is counted while it is built, and a document
 * that would expand beyond the limits is refused before anyone walks it. No limit of the
 * installed libyaml is relied on.
 *
 * One list of the document, found under the key `bulk` of the outermost mapping, may be large. What it holds is
 * counted by itself, and only behind its beginning may a document go on past CFG_MAX_BYTES.
 *
 * Refused here: more than one document, tags, aliases to an enclosing or unknown anchor,
 * one anchor name used twice. Scalars stay text: what they mean is the field's business (scalar.h).
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "diag.h"
#include "mem.h"

#define CFG_MAX_DEPTH        64      /* lists and mappings inside each other, aliases expanded */
#define CFG_MAX_NODES        200000  /* scalars, lists and mappings, aliases expanded; without those of a bulk list */
#define CFG_MAX_BULK_NODES   4000000 /* with those written in a bulk list */
#define CFG_MAX_SCALAR_BYTES 65536
#define CFG_MAX_ANCHORS      256

enum cfg_node_kind { CFG_NODE_SCALAR, CFG_NODE_LIST, CFG_NODE_MAPPING };

struct cfg_node {
    enum cfg_node_kind kind;
    struct cfg_pos pos;
    bool plain;        /* a scalar without quotes */
    bool complete;     /* false while its end has not been read */
    uint32_t height;   /* 0: scalar; else 1 + the highest entry */
    uint32_t count;    /* entries of a list or mapping */
    uint32_t expanded; /* nodes in this subtree, this one included */
    const char *text;  /* scalar; NUL-terminated, and may contain NUL bytes (written "\0") */
    size_t length;     /* scalar; bytes */
    struct cfg_item *first, *last;
};

/** One entry of a list (key NULL) or mapping. */
struct cfg_item {
    const struct cfg_node *key, *value;
    struct cfg_item *next;
};

struct cfg_tree {
    struct cfg_arena arena;
    const struct cfg_node *root; /* NULL: an empty document */
};

/**
 * @param bulk  key of the list that may be large; NULL: none
 *
 * Problems go to diag. Whatever is returned, release with cfg_tree_finish().
 *
 * @return SHUNT_OK (possibly with reported tags), SHUNT_ERR_INPUT, SHUNT_ERR_NOMEM
 */
enum shunt_status cfg_tree_parse(struct cfg_tree *tree, const void *bytes, size_t size, const char *bulk,
                                 struct cfg_diag *diag);
void cfg_tree_finish(struct cfg_tree *tree);

/** Value of a key of a mapping, NULL if there is none. */
const struct cfg_node *cfg_node_find(const struct cfg_node *node, const char *key);

/** Is this scalar exactly the given text? */
bool cfg_node_is(const struct cfg_node *node, const char *text);

/** "a list", "a mapping", "nothing" or the quoted text; returns buffer. */
const char *cfg_node_describe(const struct cfg_node *node, char buffer[CFG_QUOTE_BYTES]);

#endif
