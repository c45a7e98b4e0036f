/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>

#include "alloc.h"
#include "verify_box.h"
#include "verify_sip.h"

bool vbox_set_begin(struct vbox_set *set)
{
    *set = (struct vbox_set){0};
    return vsip_draw(set->key, 2);
}

/* Under a key of this set: a plan whose boxes all fall into one slot cannot be made. */
static uint64_t hash_box(const struct vbox_set *set, const struct vbox *box)
{
    uint64_t words[2 * SHUNT_MAX_DIMS];
    uint32_t used = 0; /* words; the last dimensions of most are 1 element long, from 0 */
    for (uint32_t d = 0; d < SHUNT_MAX_DIMS; d++) {
        words[2 * d] = (uint64_t)box->lo[d];
        words[2 * d + 1] = (uint64_t)box->hi[d];
        if (box->lo[d] != 0 || box->hi[d] != 1)
            used = 2 * d + 2;
    }
    return vsip_words(set->key, words, used);
}

/* The slot of a box: its own, or the empty one where it belongs. */
static size_t find_slot(const struct vbox_set *set, const struct vbox *box)
{
    size_t mask = set->slot_count - 1, slot = hash_box(set, box) & mask;
    while (set->slots[slot] != 0 && !vbox_equal(&set->list.at[set->slots[slot] - 1], box))
        slot = (slot + 1) & mask;
    return slot;
}

static bool grow(struct vbox_set *set)
{
    size_t count = set->slot_count > 0 ? set->slot_count * 2 : 256;
    uint32_t *slots = schema_alloc(count, sizeof(*slots));
    if (slots == NULL)
        return false;
    free(set->slots);
    set->slots = slots;
    set->slot_count = count;
    for (size_t i = 0; i < set->list.count; i++)
        slots[find_slot(set, &set->list.at[i])] = (uint32_t)i + 1;
    return true;
}

bool vbox_set_add(struct vbox_set *set, const struct vbox *box, uint32_t *number_out)
{
    if (set->list.count * 2 >= set->slot_count && !grow(set))
        return false;
    size_t slot = find_slot(set, box);
    if (set->slots[slot] == 0) {
        if (set->list.count >= UINT32_MAX - 1 || !vbox_list_add(&set->list, box))
            return false;
        set->slots[slot] = (uint32_t)set->list.count;
    }
    *number_out = set->slots[slot] - 1;
    return true;
}

void vbox_set_finish(struct vbox_set *set)
{
    vbox_list_finish(&set->list);
    free(set->slots);
    *set = (struct vbox_set){0};
}
