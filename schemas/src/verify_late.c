/* SPDX-License-Identifier: Apache-2.0 */
#include "verify_late.h"

#include <stdlib.h>

#include "alloc.h"

#define SMALL_RANGE 8 /* looked at one by one */

struct key {
    int64_t lo;
    uint32_t write;
};

static int compare_keys(const void *a, const void *b)
{
    const struct key *x = a, *y = b;
    if (x->lo != y->lo)
        return x->lo < y->lo ? -1 : 1;
    return (x->write > y->write) - (x->write < y->write);
}

static void sort_by(const struct vlate *late, uint32_t begin, uint32_t end, int dim, struct key *keys)
{
    for (uint32_t i = begin; i < end; i++)
        keys[i - begin] = (struct key){late->writes[late->order[i]].box.lo[dim], late->order[i]};
    qsort(keys, end - begin, sizeof(*keys), compare_keys);
}

/* Of boxes sorted by their lower edges: how many of the lower half reach into the upper one. */
static uint32_t count_across(const struct vlate *late, const struct key *keys, uint32_t count, int dim)
{
    uint32_t across = 0;
    for (uint32_t i = 0; i < count / 2; i++)
        across += late->writes[keys[i].write].box.hi[dim] > keys[count / 2].lo;
    return across;
}

/* Order a range by the dimension along which its halves share least. */
static void order_range(struct vlate *late, uint32_t begin, uint32_t end, struct key *keys)
{
    int best_dim = 0;
    uint32_t best = UINT32_MAX;
    for (int d = 0; d < SHUNT_MAX_DIMS && best > 0; d++) {
        sort_by(late, begin, end, d, keys);
        uint32_t across = count_across(late, keys, end - begin, d);
        if (across < best) {
            best = across;
            best_dim = d;
        }
    }
    sort_by(late, begin, end, best_dim, keys);
    for (uint32_t i = begin; i < end; i++)
        late->order[i] = keys[i - begin].write;
}

/* The hull and last round of a range. */
static struct vlate_write sum_up(const struct vlate *late, uint32_t begin, uint32_t end)
{
    struct vlate_write sum = late->writes[late->order[begin]];
    for (uint32_t i = begin + 1; i < end; i++) {
        const struct vlate_write *write = &late->writes[late->order[i]];
        vbox_widen(&write->box, 1, &sum.box);
        sum.round = write->round > sum.round ? write->round : sum.round;
    }
    return sum;
}

/* As deep as the count has bits. A range has a middle of its own. */
static void halve(struct vlate *late, uint32_t begin, uint32_t end, struct key *keys)
{
    if (end - begin <= SMALL_RANGE)
        return;
    uint32_t middle = begin + (end - begin) / 2;
    order_range(late, begin, end, keys);
    late->halves[middle] = sum_up(late, begin, end);
    halve(late, begin, middle, keys);
    halve(late, middle, end, keys);
}

bool vlate_build(struct vlate *late, const struct vlate_write *writes, uint32_t count)
{
    *late = (struct vlate){.writes = writes, .count = count};
    late->order = schema_alloc(count, sizeof(*late->order));
    late->halves = schema_alloc(count, sizeof(*late->halves));
    struct key *keys = schema_alloc(count, sizeof(*keys));
    bool there = late->order != NULL && late->halves != NULL && keys != NULL;
    for (uint32_t i = 0; there && i < count; i++)
        late->order[i] = i;
    if (there)
        halve(late, 0, count, keys);
    free(keys);
    return there;
}

void vlate_finish(struct vlate *late)
{
    free(late->order);
    free(late->halves);
    *late = (struct vlate){0};
}

static bool is_hit(const struct vlate_write *write, const struct vbox *box, uint32_t first)
{
    return write->round >= first && vbox_meet(&write->box, box);
}

static const struct vlate_write *find_in(const struct vlate *late, uint32_t begin, uint32_t end, const struct vbox *box,
                                         uint32_t first)
{
    uint32_t middle = begin + (end - begin) / 2;
    if (end - begin > SMALL_RANGE) {
        if (!is_hit(&late->halves[middle], box, first))
            return NULL;
        const struct vlate_write *found = find_in(late, begin, middle, box, first);
        return found != NULL ? found : find_in(late, middle, end, box, first);
    }
    for (uint32_t i = begin; i < end; i++) {
        const struct vlate_write *write = &late->writes[late->order[i]];
        if (is_hit(write, box, first))
            return write;
    }
    return NULL;
}

const struct vlate_write *vlate_find(const struct vlate *late, const struct vbox *box, uint32_t first)
{
    return find_in(late, 0, late->count, box, first);
}
