/* SPDX-License-Identifier: Apache-2.0 */

/* Reading a tree that was built. */
#include <string.h>

#include "yaml_tree.h"

bool cfg_node_is(const struct cfg_node *node, const char *text)
{
    size_t length = strlen(text);
    return node->kind == CFG_NODE_SCALAR && node->length == length && memcmp(node->text, text, length) == 0;
}

const struct cfg_node *cfg_node_find(const struct cfg_node *node, const char *key)
{
    if (node->kind != CFG_NODE_MAPPING)
        return NULL;
    for (const struct cfg_item *item = node->first; item != NULL; item = item->next) {
        if (cfg_node_is(item->key, key))
            return item->value;
    }
    return NULL;
}

const char *cfg_node_describe(const struct cfg_node *node, char buffer[CFG_QUOTE_BYTES])
{
    if (node->kind == CFG_NODE_LIST)
        return strcpy(buffer, "a list");
    if (node->kind == CFG_NODE_MAPPING)
        return strcpy(buffer, "a mapping");
    if (node->plain && node->length == 0)
        return strcpy(buffer, "nothing");
    return cfg_quote(buffer, node->text, node->length);
}
