/* SPDX-License-Identifier: Apache-2.0 */
#include "verify_box.h"

#include <stdlib.h>
#include <string.h>

#include "alloc.h"

bool vbox_list_add(struct vbox_list *list, const struct vbox *box)
{
    if (list->count == list->room) {
        size_t room = list->room > 0 ? list->room * 2 : 16;
        struct vbox *at = schema_alloc(room, sizeof(*at));
        if (at == NULL)
            return false;
        if (list->count > 0)
            memcpy(at, list->at, list->count * sizeof(*at));
        free(list->at);
        list->at = at;
        list->room = room;
    }
    list->at[list->count++] = *box;
    return true;
}

void vbox_list_finish(struct vbox_list *list)
{
    free(list->at);
    *list = (struct vbox_list){0};
}

bool vbox_meet(const struct vbox *a, const struct vbox *b)
{
    for (int d = 0; d < SHUNT_MAX_DIMS; d++) {
        if (a->lo[d] >= b->hi[d] || b->lo[d] >= a->hi[d])
            return false;
    }
    return true;
}

bool vbox_equal(const struct vbox *a, const struct vbox *b)
{
    return memcmp(a, b, sizeof(*a)) == 0;
}

bool vbox_holds_point(const struct vbox *box, const int64_t *point)
{
    for (int d = 0; d < SHUNT_MAX_DIMS; d++) {
        if (point[d] < box->lo[d] || point[d] >= box->hi[d])
            return false;
    }
    return true;
}

uint64_t vbox_volume(const struct vbox *box)
{
    uint64_t volume = 1;
    for (int d = 0; d < SHUNT_MAX_DIMS; d++)
        volume *= (uint64_t)(box->hi[d] - box->lo[d]);
    return volume;
}

uint64_t vbox_shared(const struct vbox *a, const struct vbox *b)
{
    uint64_t volume = 1;
    for (int d = 0; d < SHUNT_MAX_DIMS; d++) {
        int64_t lo = a->lo[d] > b->lo[d] ? a->lo[d] : b->lo[d];
        int64_t hi = a->hi[d] < b->hi[d] ? a->hi[d] : b->hi[d];
        if (lo >= hi)
            return 0;
        volume *= (uint64_t)(hi - lo);
    }
    return volume;
}

void vbox_widen(const struct vbox *boxes, size_t count, struct vbox *hull)
{
    for (size_t i = 0; i < count; i++) {
        for (int d = 0; d < SHUNT_MAX_DIMS; d++) {
            hull->lo[d] = boxes[i].lo[d] < hull->lo[d] ? boxes[i].lo[d] : hull->lo[d];
            hull->hi[d] = boxes[i].hi[d] > hull->hi[d] ? boxes[i].hi[d] : hull->hi[d];
        }
    }
}
