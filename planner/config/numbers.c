/* SPDX-License-Identifier: Apache-2.0 */

/* Lists of numbers: "8-15", "0-3,8-11", 5 or [8, 9, 10, 11]. */
#include <string.h>

#include "field.h"
#include "scalar.h"

struct number_walk {
    const struct cfg_site *site;
    const struct cfg_field *field;
    cfg_number_function *use;
    void *context;
};

static const char *scan_number(const struct cfg_field *field, const char *text, size_t length, uint64_t *out)
{
    const char *reason = cfg_scan_count(text, length, out);
    return reason == NULL && *out > (uint64_t)field->max ? cfg_out_of_range : reason;
}

/* Each list is walked twice, hence the factor. */
static bool charge(const struct number_walk *walk, uint64_t count)
{
    struct cfg_loader *loader = walk->site->loader;
    if (count <= 2 * CFG_MAX_NUMBERS - loader->numbers) {
        loader->numbers += count;
        return true;
    }
    loader->numbers = 2 * CFG_MAX_NUMBERS;
    cfg_report(loader->diag, walk->site->node->pos, walk->site->path,
               "found more than %d numbers in all lists of the document, expected fewer", CFG_MAX_NUMBERS);
    return false;
}

/* "5" or "8-15" */
static bool walk_range(const struct number_walk *walk, const char *text, size_t length)
{
    const char *dash = memchr(text, '-', length);
    size_t first_length = dash != NULL ? (size_t)(dash - text) : length;
    uint64_t first, last;
    const char *reason = scan_number(walk->field, text, first_length, &first);
    if (reason == NULL && dash != NULL)
        reason = scan_number(walk->field, dash + 1, length - first_length - 1, &last);
    else
        last = first;
    if (reason == NULL && last < first)
        reason = "a range that counts down";
    if (reason != NULL)
        return cfg_site_refuse(walk->site, walk->field, reason);
    if (!charge(walk, last - first + 1))
        return false;
    for (uint64_t number = first; number <= last; number++) {
        if (!walk->use(walk->context, walk->site, number))
            return false;
    }
    return true;
}

static bool walk_text(const struct number_walk *walk)
{
    const char *at = walk->site->node->text, *end = at + walk->site->node->length;
    for (;;) {
        const char *comma = memchr(at, ',', (size_t)(end - at));
        if (!walk_range(walk, at, (size_t)((comma != NULL ? comma : end) - at)))
            return false;
        if (comma == NULL)
            return true;
        at = comma + 1;
        if (at < end && *at == ' ')
            at++;
    }
}

static bool walk_entry(const struct number_walk *walk, const struct cfg_site *site)
{
    const struct cfg_field entry = {.type = CFG_COUNT, .max = walk->field->max};
    uint64_t number;
    if (!cfg_site_plain(site, &entry))
        return false;
    const char *reason = scan_number(&entry, site->node->text, site->node->length, &number);
    return reason != NULL ? cfg_site_refuse(site, &entry, reason) : walk->use(walk->context, site, number);
}

static bool walk_list(const struct number_walk *walk)
{
    bool good = walk->site->node->count != 0 || cfg_site_refuse(walk->site, walk->field, "of none");
    uint64_t index = 0;
    if (!charge(walk, walk->site->node->count))
        return false;
    for (const struct cfg_item *item = walk->site->node->first; item != NULL; item = item->next, index++) {
        const struct cfg_path path = {.up = walk->site->path, .index = index};
        const struct cfg_site inner = {walk->site->loader, item->value, &path};
        if (!walk_entry(walk, &inner))
            good = false;
    }
    return good;
}

bool cfg_site_numbers(const struct cfg_site *site, const struct cfg_field *field, cfg_number_function *use,
                      void *context)
{
    const struct number_walk walk = {site, field, use, context};
    switch (site->node->kind) {
    case CFG_NODE_SCALAR:
        return walk_text(&walk);
    case CFG_NODE_LIST:
        return walk_list(&walk);
    default:
        return cfg_site_refuse(site, field, NULL);
    }
}
