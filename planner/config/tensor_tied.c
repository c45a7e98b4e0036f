/* SPDX-License-Identifier: Apache-2.0 */
#include "field.h"
#include "model.h"

enum { TIE_LAST, TIE_MTP };

static const struct cfg_choice ties[] = {{"last", TIE_LAST}, {"mtp", TIE_MTP}, {NULL, 0}};

static bool read_tie(const struct cfg_site *site, struct cfg_tensor *tensor)
{
    const struct cfg_field field = {.type = CFG_CHOICE, .size = sizeof(int32_t), .choices = ties};
    int32_t tie = TIE_LAST;
    if (!cfg_field_read(site, &field, &tie))
        return false;
    bool *member = tie == TIE_LAST ? &tensor->tied_last : &tensor->tied_mtp;
    if (*member)
        return cfg_site_refuse(site, &field, "a second time");
    *member = true;
    return true;
}

bool cfg_ties_read(const struct cfg_site *site, const struct cfg_field *field, void *object)
{
    bool good = true;
    uint64_t index = 0;
    if (site->node->kind == CFG_NODE_SCALAR)
        return read_tie(site, object);
    if (site->node->kind != CFG_NODE_LIST || site->node->count == 0)
        return cfg_site_refuse(site, field, site->node->kind == CFG_NODE_LIST ? "of none" : NULL);
    for (const struct cfg_item *item = site->node->first; item != NULL; item = item->next, index++) {
        const struct cfg_path path = {.up = site->path, .index = index};
        const struct cfg_site inner = {site->loader, item->value, &path};
        if (!read_tie(&inner, object))
            good = false;
    }
    return good;
}
