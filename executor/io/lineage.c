/* SPDX-License-Identifier: Apache-2.0 */
#include "io/lineage.h"

#include <stdlib.h>
#include <string.h>

static int compare_entries(const void *a, const void *b)
{
    const struct lineage_entry *x = a, *y = b;
    if (x->state != y->state)
        return x->state < y->state ? -1 : 1;
    return strcmp(x->tensor, y->tensor);
}

struct descent lineage_find(const struct lineage *lineage, unsigned state, const char *tensor)
{
    const struct lineage_entry wanted = {.tensor = tensor, .state = (uint8_t)state}, *found = NULL;
    if (lineage->count > 0)
        found = bsearch(&wanted, lineage->entries, lineage->count, sizeof(wanted), compare_entries);
    return found != NULL ? found->descent : (struct descent){.state = (uint8_t)state};
}

static bool push(struct lineage *lineage, const struct lineage_entry *entry)
{
    if (lineage->count == lineage->space) {
        size_t space = lineage->space > 0 ? 2 * lineage->space : 64;
        struct lineage_entry *entries = realloc(lineage->entries, space * sizeof(*entries));
        if (entries == NULL)
            return false;
        lineage->entries = entries;
        lineage->space = space;
    }
    lineage->entries[lineage->count++] = *entry;
    return true;
}

/* In order, and each once: copies on other devices are made alike. */
static void tidy(struct lineage *lineage)
{
    size_t kept = 0;
    if (lineage->count == 0)
        return;
    qsort(lineage->entries, lineage->count, sizeof(*lineage->entries), compare_entries);
    for (size_t i = 1; i < lineage->count; i++) {
        if (compare_entries(&lineage->entries[kept], &lineage->entries[i]) != 0)
            lineage->entries[++kept] = lineage->entries[i];
    }
    lineage->count = kept + 1;
}

static bool add_buffer(struct lineage *next, const struct lineage *before, const struct shunt_plan *plan,
                       const struct shunt_plan_buffer *buffer)
{
    const char *tensor = shunt_plan_string(plan, shunt_plan_get_tensor(plan, buffer->tensor)->name);
    const struct descent made = descent_of(buffer), first = lineage_find(before, made.state, tensor);
    const struct lineage_entry entry = {tensor, buffer->state, descent_join(&first, &made)};
    if (entry.descent.state == entry.state && entry.descent.cast_count == 0)
        return true;
    return push(next, &entry);
}

static bool add_part(struct lineage *next, const struct lineage *before, const struct shunt_plan *plan,
                     const struct shunt_plan_part *part)
{
    for (uint32_t i = 0; i < part->header->buffer_count; i++) {
        if (part->buffers[i].side != SHUNT_SIDE_FROM && !add_buffer(next, before, plan, &part->buffers[i]))
            return false;
    }
    tidy(next);
    return true;
}

enum shunt_status lineage_advance(struct lineage *lineage, const struct shunt_plan *plan, struct shunt_err *err)
{
    struct lineage next = {0};
    enum shunt_status st = SHUNT_OK;
    for (uint32_t d = 0; d < shunt_plan_get_header(plan)->device_count && st == SHUNT_OK; d++) {
        struct shunt_plan_part part;
        st = shunt_plan_get_part(plan, d, &part, err);
        if (st == SHUNT_OK && !add_part(&next, lineage, plan, &part))
            st = shunt_fail(err, SHUNT_ERR_NOMEM, "out of memory");
        shunt_plan_drop_part(plan, d);
    }
    lineage_finish(lineage);
    *lineage = next;
    return st;
}

void lineage_finish(struct lineage *lineage)
{
    free(lineage->entries);
    *lineage = (struct lineage){0};
}
