/* SPDX-License-Identifier: Apache-2.0 */
/** Cells that must enter nodes, class by class, each sender by its quota. */
#include <string.h>

#include "routing/classes.h"
#include "routing/relay_quota.h"
#include "routing/relay_work.h"

/** Classes of cells that must enter nodes, and the tasks of each. */
struct quota_tasks {
    uint32_t count;
    struct relay_class *classes;
    uint32_t *begin; /* by class: its tasks are those from begin[c] to begin[c + 1] */
    uint32_t *tasks;
};

/** By type and cell: 1 + its class; 0: nothing of it must be sent. */
static uint32_t **index_classes(struct arena *arena, const struct route *route, const struct classes *classes)
{
    uint32_t **class_of = ARENA_NEW(arena, uint32_t *, route->type_count);
    for (uint32_t t = 0; t < route->type_count; t++)
        class_of[t] = ARENA_NEW(arena, uint32_t, route->types[t].cell_count);
    for (uint32_t c = 0; c < classes->count; c++) {
        for (uint32_t i = 0; i < classes->classes[c].cell_count; i++) {
            const struct class_cell *cell = &classes->classes[c].cells[i];
            class_of[cell->type][route->types[cell->type].pieces[cell->pieces[0]].cell->number] = 1 + c;
        }
    }
    return class_of;
}

/** Bytes of a task's cell in all items that may be sent on. */
static uint64_t forwarded_bytes(const struct relay *relay, const struct relay_task *task)
{
    const struct route_type *type = &relay->route->types[task->type];
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < type->item_count; i++) {
        if (relay_can_forward(relay->route, type->items[i]))
            bytes += relay_target_of(relay, task, i).bytes;
    }
    return bytes;
}

/** The holders of a cell and the takers of all runs that need it. */
static void list_senders(struct arena *arena, const struct relay *relay, const struct relay_task *task,
                         uint32_t run_count, struct relay_class *class)
{
    const struct route_type *type = &relay->route->types[task->type];
    uint32_t total = 0;
    for (uint32_t r = 0; r < run_count; r++)
        total += relay->runs[r].kind == RELAY_NEEDY ? relay->runs[r].count : 0;
    uint32_t *senders = NULL;
    for (uint32_t r = 0; r < run_count; r++) {
        const struct relay_run *run = &relay->runs[r];
        const struct route_piece *piece = &type->pieces[run->pieces[0]];
        if (run->kind != RELAY_NEEDY)
            continue;
        if (senders == NULL) {
            senders = ARENA_NEW(arena, uint32_t, piece->candidate_count + total);
            memcpy(senders, piece->candidates, piece->candidate_count * sizeof(*senders));
            class->holder_count = class->sender_count = piece->candidate_count;
        }
        class->needy++;
        for (uint32_t i = 0; i < run->count; i++)
            senders[class->sender_count++] = type->pieces[run->pieces[i]].taker;
    }
    class->senders = senders;
    class->quota = ARENA_NEW(arena, int64_t, class->sender_count);
}

/** Sort the tasks that must enter nodes by their classes, in the order in which these have the first. */
static void sort_tasks(struct arena *arena, struct relay *relay, struct quota_tasks *sorted)
{
    struct classes classes;
    classes_build(arena, relay->route, &classes);
    uint32_t **class_of = index_classes(arena, relay->route, &classes);
    uint32_t *number = ARENA_NEW(arena, uint32_t, (size_t)classes.count + 1); /* 1 + place in sorted->classes */
    uint32_t *place = ARENA_NEW(arena, uint32_t, relay->task_count);          /* by task, likewise */
    *sorted = (struct quota_tasks){.classes = ARENA_NEW(arena, struct relay_class, classes.count),
                                   .begin = ARENA_NEW(arena, uint32_t, (size_t)classes.count + 2),
                                   .tasks = ARENA_NEW(arena, uint32_t, relay->task_count)};
    for (size_t i = 0; i < relay->task_count; i++) {
        const struct relay_task *task = &relay->tasks[i];
        uint32_t class = class_of[task->type][task->cell], run_count = relay_list_task(relay, task);
        uint64_t bytes = class > 0 && relay_count_needy(relay, run_count) > 0 ? forwarded_bytes(relay, task) : 0;
        if (bytes == 0)
            continue;
        if (number[class] == 0) {
            list_senders(arena, relay, task, run_count, &sorted->classes[sorted->count]);
            number[class] = ++sorted->count;
        }
        place[i] = number[class];
        sorted->classes[place[i] - 1].bytes += bytes;
        sorted->begin[place[i] + 1]++;
    }
    uint32_t *next = sorted->begin + 1;
    for (uint32_t c = 0; c < sorted->count; c++)
        next[c + 1] += next[c];
    for (size_t i = 0; i < relay->task_count; i++) {
        if (place[i] > 0)
            sorted->tasks[next[place[i] - 1]++] = (uint32_t)i;
    }
}

/** Supply all runs of a class so that its senders keep to their quotas. */
static void supply_class(struct relay *relay, const struct relay_class *class, const uint32_t *tasks, uint32_t count)
{
    double carry = 0.5, share = 0;
    for (uint32_t s = 0; s < class->sender_count; s++) {
        relay->left[class->senders[s]] = class->quota[s];
        share += s < class->holder_count ? (double)class->quota[s] / (double)class->bytes : 0;
    }
    for (uint32_t t = 0; t < count; t++) {
        const struct relay_task *task = &relay->tasks[tasks[t]];
        struct route_type *type = &relay->route->types[task->type];
        uint32_t run_count = relay_list_task(relay, task);
        for (uint32_t n = 0; n < type->item_count; n++) {
            uint32_t i = relay->widest_first[task->type][n];
            const struct relay_target target = relay_target_of(relay, task, i);
            if (!relay_can_forward(relay->route, type->items[i]))
                continue;
            carry += share;
            uint32_t direct = carry < 1 ? 1 : carry > class->needy ? class->needy : (uint32_t)carry;
            carry -= direct;
            relay_supply_runs(relay, &target, run_count, direct);
        }
    }
}

void relay_supply_by_quota(struct arena *arena, struct relay *relay, double start)
{
    struct quota_tasks sorted;
    sort_tasks(arena, relay, &sorted);
    relay_quota_find(arena, relay->route->world, sorted.classes, sorted.count, relay->ports.net_out, start);
    relay->left = ARENA_NEW(arena, int64_t, relay->route->world->device_count);
    for (uint32_t c = 0; c < sorted.count; c++)
        supply_class(relay, &sorted.classes[c], &sorted.tasks[sorted.begin[c]], sorted.begin[c + 1] - sorted.begin[c]);
}
