/* SPDX-License-Identifier: Apache-2.0 */
#include "verify_sort.h"

#include <stdbool.h>
#include <string.h>

static bool entry_less(const struct ventry *a, const struct ventry *b)
{
    return a->key != b->key ? a->key < b->key : a->index < b->index;
}

#define FEW_ENTRIES 8 /* sorted by insertion */

static void insert_entries(struct ventry *entries, size_t count)
{
    for (size_t i = 1; i < count; i++) {
        struct ventry entry = entries[i];
        size_t at = i;
        for (; at > 0 && entry_less(&entry, &entries[at - 1]); at--)
            entries[at] = entries[at - 1];
        entries[at] = entry;
    }
}

/* Two sorted runs, one behind the other, in one; `spare` is as long as the first. */
static void merge_entries(struct ventry *entries, size_t first, size_t count, struct ventry *spare)
{
    size_t a = 0, b = first, to = 0;
    if (!entry_less(&entries[first], &entries[first - 1]))
        return;
    memcpy(spare, entries, first * sizeof(*entries));
    while (a < first && b < count)
        entries[to++] = entry_less(&entries[b], &spare[a]) ? entries[b++] : spare[a++];
    memcpy(&entries[to], &spare[a], (first - a) * sizeof(*entries));
}

void vsort_entries(struct ventry *entries, size_t count, struct ventry *spare)
{
    for (size_t i = 0; i < count; i += FEW_ENTRIES)
        insert_entries(&entries[i], count - i < FEW_ENTRIES ? count - i : FEW_ENTRIES);
    for (size_t run = FEW_ENTRIES; run < count; run *= 2) {
        for (size_t i = 0; i + run < count; i += 2 * run)
            merge_entries(&entries[i], run, count - i < 2 * run ? count - i : 2 * run, spare);
    }
}
