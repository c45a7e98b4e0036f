/* SPDX-License-Identifier: Apache-2.0 */
#include "schedule/frugal.h"

#include <stdlib.h>
#include <string.h>

#define MOST_EXPANDED 400u      /* states of one search */
#define MOST_CHILDREN 8u        /* of a state that are kept */
#define MOST_WORK     40000000u /* kinds looked at, over all searches */
#define HALVINGS      8
#define NEAR_ENOUGH   0.002 /* of the least peak */
#define NO_NODE       UINT32_MAX
#define PROGRESS      100.0 /* what a job that has run counts beside the fullness of devices */

/** What a job does on a device, in the direction of the search. */
struct step {
    uint32_t device;
    uint64_t needs, gives;
};

/** Jobs of one memory, in order. */
struct kind {
    uint32_t first, count; /* in `jobs` */
    uint32_t step_count;
    struct step *steps;
};

/** A state: what has run is in counts and memory beside it. */
struct node {
    uint32_t parent;
    uint32_t path, path_count; /* kinds run since the parent */
    uint32_t done;
    double key; /* less is better */
};

struct search {
    struct arena *arena;
    const struct problem *problem;
    uint32_t devices, kind_count;
    struct kind *kinds;
    uint32_t *jobs;   /* by kind */
    uint64_t *limit;  /* by device: most bytes of buffers */
    uint64_t *memory; /* by node and device */
    uint16_t *counts; /* by node and kind */
    struct node *nodes;
    uint32_t node_count;
    uint32_t *heap, heap_count;
    uint32_t *table, table_mask; /* of states met: node + 1 */
    VEC(uint32_t) path;
    uint64_t work;
    bool reversed;
};

/* ---- kinds -------------------------------------------------------------------------- */

static int compare_memory(const struct job *x, const struct job *y)
{
    if (x->memory_count != y->memory_count)
        return x->memory_count < y->memory_count ? -1 : 1;
    for (uint32_t m = 0; m < x->memory_count; m++) {
        const struct job_memory *a = &x->memory[m], *b = &y->memory[m];
        if (a->device != b->device)
            return a->device < b->device ? -1 : 1;
        if (a->alloc != b->alloc)
            return a->alloc < b->alloc ? -1 : 1;
        if (a->release != b->release)
            return a->release < b->release ? -1 : 1;
    }
    return 0;
}

static int compare_jobs(const void *a, const void *b)
{
    const struct job *const *x = a, *const *y = b;
    int order = compare_memory(*x, *y);
    return order != 0 ? order : (*x > *y) - (*x < *y); /* of one array */
}

static void list_kinds(struct search *search)
{
    const struct problem *problem = search->problem;
    const struct job **sorted = ARENA_NEW(search->arena, const struct job *, problem->job_count);
    for (uint32_t j = 0; j < problem->job_count; j++)
        sorted[j] = &problem->jobs[j];
    qsort(sorted, problem->job_count, sizeof(*sorted), compare_jobs);
    search->jobs = ARENA_NEW(search->arena, uint32_t, problem->job_count);
    search->kinds = ARENA_NEW(search->arena, struct kind, problem->job_count);
    for (uint32_t j = 0; j < problem->job_count; j++) {
        search->jobs[j] = (uint32_t)(sorted[j] - problem->jobs);
        if (j == 0 || compare_memory(sorted[j - 1], sorted[j]) != 0)
            search->kinds[search->kind_count++] =
                (struct kind){.first = j,
                              .step_count = sorted[j]->memory_count,
                              .steps = ARENA_NEW(search->arena, struct step, sorted[j]->memory_count)};
        search->kinds[search->kind_count - 1].count++;
    }
}

/** Backwards in time what was released is needed, and what was allocated is given back. */
static void turn(struct search *search, bool reversed)
{
    search->reversed = reversed;
    for (uint32_t k = 0; k < search->kind_count; k++) {
        const struct kind *kind = &search->kinds[k];
        const struct job *job = &search->problem->jobs[search->jobs[kind->first]];
        for (uint32_t m = 0; m < kind->step_count; m++) {
            const struct job_memory *memory = &job->memory[m];
            kind->steps[m] = reversed ? (struct step){memory->device, memory->release, memory->alloc}
                                      : (struct step){memory->device, memory->alloc, memory->release};
        }
    }
}

/* ---- states ------------------------------------------------------------------------- */

static uint64_t *memory_of(const struct search *search, uint32_t node)
{
    return &search->memory[(size_t)node * search->devices];
}

static uint16_t *counts_of(const struct search *search, uint32_t node)
{
    return &search->counts[(size_t)node * search->kind_count];
}

static bool fits(const struct search *search, const struct kind *kind, const uint64_t *memory)
{
    for (uint32_t s = 0; s < kind->step_count; s++) {
        const struct step *step = &kind->steps[s];
        if (memory[step->device] + step->needs > search->limit[step->device])
            return false;
    }
    return true;
}

static bool is_free(const struct kind *kind)
{
    for (uint32_t s = 0; s < kind->step_count; s++) {
        if (kind->steps[s].needs > kind->steps[s].gives)
            return false;
    }
    return true;
}

static void run_kind(struct search *search, uint32_t n, uint32_t k)
{
    uint64_t *memory = memory_of(search, n);
    for (uint32_t s = 0; s < search->kinds[k].step_count; s++)
        memory[search->kinds[k].steps[s].device] += search->kinds[k].steps[s].needs - search->kinds[k].steps[s].gives;
    counts_of(search, n)[k]++;
    search->nodes[n].done++;
    search->nodes[n].path_count++;
    *VEC_EXTEND(search->arena, &search->path) = k;
}

/** Run what fits and leaves nothing fuller, until nothing is left of it. */
static void run_free(struct search *search, uint32_t n)
{
    const uint16_t *counts = counts_of(search, n);
    for (bool again = true; again;) {
        again = false;
        for (uint32_t k = 0; k < search->kind_count; k++) {
            const struct kind *kind = &search->kinds[k];
            if (counts[k] == kind->count || !is_free(kind))
                continue;
            search->work++;
            while (counts[k] < kind->count && fits(search, kind, memory_of(search, n))) {
                run_kind(search, n, k);
                again = true;
            }
        }
    }
}

/** How full a device is: steep, so that the fullest ones count. */
static double fullness(const struct search *search, uint32_t device, uint64_t memory)
{
    double share = (double)memory / ((double)search->limit[device] + 1);
    for (int i = 0; i < 6; i++)
        share *= share;
    return share;
}

static void weigh(struct search *search, uint32_t n)
{
    struct node *node = &search->nodes[n];
    double sum = 0;
    for (uint32_t d = 0; d < search->devices; d++)
        sum += fullness(search, d, memory_of(search, n)[d]);
    node->key = sum / search->devices - PROGRESS * node->done / search->problem->job_count;
}

static uint32_t hash_counts(const uint16_t *counts, uint32_t count)
{
    uint64_t hash = UINT64_C(0xcbf29ce484222325);
    for (uint32_t k = 0; k < count; k++)
        hash = (hash ^ counts[k]) * UINT64_C(0x100000001b3);
    return (uint32_t)(hash ^ (hash >> 32));
}

/** Whether a state is a new one, which is then known. */
static bool note(struct search *search, uint32_t n)
{
    size_t bytes = search->kind_count * sizeof(uint16_t);
    uint32_t at = hash_counts(counts_of(search, n), search->kind_count) & search->table_mask;
    for (; search->table[at] != 0; at = (at + 1) & search->table_mask) {
        if (memcmp(counts_of(search, search->table[at] - 1), counts_of(search, n), bytes) == 0)
            return false;
    }
    search->table[at] = n + 1;
    return true;
}

/* ---- the heap of open states -------------------------------------------------------- */

static bool comes_first(const struct search *search, uint32_t a, uint32_t b)
{
    const struct node *x = &search->nodes[a], *y = &search->nodes[b];
    return x->key != y->key ? x->key < y->key : a < b;
}

static void push(struct search *search, uint32_t n)
{
    uint32_t at = search->heap_count++;
    for (; at > 0 && comes_first(search, n, search->heap[(at - 1) / 2]); at = (at - 1) / 2)
        search->heap[at] = search->heap[(at - 1) / 2];
    search->heap[at] = n;
}

static uint32_t pop(struct search *search)
{
    uint32_t first = search->heap[0], last = search->heap[--search->heap_count], at = 0;
    for (;;) {
        uint32_t child = 2 * at + 1;
        if (child >= search->heap_count)
            break;
        if (child + 1 < search->heap_count && comes_first(search, search->heap[child + 1], search->heap[child]))
            child++;
        if (!comes_first(search, search->heap[child], last))
            break;
        search->heap[at] = search->heap[child];
        at = child;
    }
    search->heap[at] = last;
    return first;
}

/* ---- the search --------------------------------------------------------------------- */

/** A state beside its parent: the same, but for what runs now; k == kind_count: nothing. */
static void add_node(struct search *search, uint32_t parent, uint32_t k)
{
    uint32_t n = search->node_count++;
    struct node *node = &search->nodes[n];
    *node = (struct node){.parent = parent, .path = (uint32_t)search->path.count};
    if (parent != NO_NODE) {
        node->done = search->nodes[parent].done;
        memcpy(memory_of(search, n), memory_of(search, parent), search->devices * sizeof(uint64_t));
        memcpy(counts_of(search, n), counts_of(search, parent), search->kind_count * sizeof(uint16_t));
        run_kind(search, n, k);
    }
    run_free(search, n);
    if (!note(search, n)) {
        search->node_count--;
        return;
    }
    weigh(search, n);
    push(search, n);
}

/** What a child is about. */
struct child {
    double change;
    uint32_t kind;
};

/** The best children of a state, best first. @return their number */
static uint32_t list_children(struct search *search, uint32_t n, struct child *best)
{
    const uint64_t *memory = memory_of(search, n);
    uint32_t count = 0;
    for (uint32_t k = 0; k < search->kind_count; k++) {
        const struct kind *kind = &search->kinds[k];
        if (counts_of(search, n)[k] == kind->count || !fits(search, kind, memory))
            continue;
        struct child child = {.kind = k};
        for (uint32_t s = 0; s < kind->step_count; s++) {
            uint32_t d = kind->steps[s].device;
            child.change += fullness(search, d, memory[d] + kind->steps[s].needs - kind->steps[s].gives) -
                            fullness(search, d, memory[d]);
        }
        uint32_t at = count < MOST_CHILDREN ? count++ : MOST_CHILDREN;
        for (; at > 0 && child.change < best[at - 1].change; at--) {
            if (at < MOST_CHILDREN)
                best[at] = best[at - 1];
        }
        if (at < MOST_CHILDREN)
            best[at] = child;
    }
    search->work += search->kind_count;
    return count;
}

/** The order that leads to a state with nothing left. */
static void trace(const struct search *search, uint32_t end, uint32_t *order)
{
    uint32_t at = search->problem->job_count;
    uint32_t *taken = ARENA_NEW(search->arena, uint32_t, search->kind_count);
    for (uint32_t n = end; n != NO_NODE; n = search->nodes[n].parent) {
        const struct node *node = &search->nodes[n];
        for (uint32_t i = node->path_count; i-- > 0;)
            order[--at] = search->path.items[node->path + i];
    }
    for (uint32_t j = 0; j < search->problem->job_count; j++) {
        uint32_t k = order[j];
        order[j] = search->jobs[search->kinds[k].first + taken[k]++];
    }
    for (uint32_t j = 0; search->reversed && j < search->problem->job_count / 2; j++) {
        uint32_t other = search->problem->job_count - 1 - j, job = order[j];
        order[j] = order[other];
        order[other] = job;
    }
}

static void set_start(struct search *search, const uint64_t *slot, uint64_t cap)
{
    for (uint32_t d = 0; d < search->devices; d++) {
        const struct problem_device *device = &search->problem->devices[d];
        uint64_t own = problem_cap(search->problem, cap, d), taken = device->fixed + slot[d];
        search->limit[d] = own > taken ? own - taken : 0;
        search->memory[d] = search->reversed ? device->to : device->from - device->unread;
    }
    memset(search->counts, 0, search->kind_count * sizeof(uint16_t));
    memset(search->table, 0, (search->table_mask + 1) * sizeof(*search->table));
    search->node_count = search->heap_count = 0;
    search->path.count = 0;
}

/** Whether some order has no device above a cap. */
static bool reach(struct search *search, const uint64_t *slot, uint64_t cap, uint32_t *order)
{
    struct child children[MOST_CHILDREN];
    set_start(search, slot, cap);
    add_node(search, NO_NODE, search->kind_count);
    for (uint32_t expanded = 0; search->heap_count > 0; expanded++) {
        uint32_t n = pop(search);
        if (search->nodes[n].done == search->problem->job_count) {
            trace(search, n, order);
            return true;
        }
        if (expanded == MOST_EXPANDED || search->work > MOST_WORK)
            return false;
        uint32_t count = list_children(search, n, children);
        for (uint32_t c = 0; c < count; c++)
            add_node(search, n, children[c].kind);
    }
    return false;
}

static void prepare(struct arena *arena, const struct problem *problem, struct search *search)
{
    const size_t nodes = (size_t)MOST_EXPANDED * MOST_CHILDREN + 2;
    *search = (struct search){
        .arena = arena, .problem = problem, .devices = problem->route->world->device_count, .table_mask = 16383};
    list_kinds(search);
    search->limit = ARENA_NEW(arena, uint64_t, search->devices);
    search->memory = ARENA_NEW(arena, uint64_t, nodes * search->devices);
    search->counts = ARENA_NEW(arena, uint16_t, nodes * search->kind_count);
    search->nodes = ARENA_NEW(arena, struct node, nodes);
    search->heap = ARENA_NEW(arena, uint32_t, nodes);
    search->table = ARENA_NEW(arena, uint32_t, search->table_mask + 1);
}

struct frugal_work {
    const struct problem *problem;
    const struct frugal_options *options;
    uint32_t *order; /* the best so far */
    bool found;
};

/** The peak of an order. */
static uint64_t peak_of(const struct search *search, const uint64_t *slot, const uint32_t *order, uint64_t *memory)
{
    const struct problem *problem = search->problem;
    uint64_t peak = 0;
    for (uint32_t d = 0; d < search->devices; d++) {
        memory[d] = problem->devices[d].fixed + slot[d];
        peak = memory[d] + problem->devices[d].from > peak ? memory[d] + problem->devices[d].from : peak;
        memory[d] += problem->devices[d].from - problem->devices[d].unread;
    }
    for (uint32_t i = 0; i < problem->job_count; i++) {
        const struct job *job = &problem->jobs[order[i]];
        for (uint32_t m = 0; m < job->memory_count; m++) {
            uint64_t *live = &memory[job->memory[m].device];
            *live += job->memory[m].alloc;
            peak = *live > peak ? *live : peak;
            *live -= job->memory[m].release;
        }
    }
    return peak;
}

static void halve(struct arena *scratch, void *context)
{
    struct frugal_work *work = context;
    const struct frugal_options *options = work->options;
    struct search search;
    prepare(scratch, work->problem, &search);
    uint32_t *order = ARENA_NEW(scratch, uint32_t, work->problem->job_count);
    uint64_t *memory = ARENA_NEW(scratch, uint64_t, search.devices);
    uint64_t low = options->least, high = options->most - 1, enough = (uint64_t)(NEAR_ENOUGH * (double)low);
    for (int i = 0; i < HALVINGS && low + enough < high && search.work < MOST_WORK; i++) {
        uint64_t cap = i == 0 ? low + enough : low + (high - low) / 2;
        bool reached = false;
        for (int back = 1; back >= 0 && !reached; back--) {
            turn(&search, back != 0);
            reached = reach(&search, options->slot, cap, order);
        }
        if (!reached) {
            low = cap;
            continue;
        }
        uint64_t peak = peak_of(&search, options->slot, order, memory);
        if (peak >= high && work->found)
            break;
        work->found = true;
        memcpy(work->order, order, work->problem->job_count * sizeof(*order));
        high = peak;
    }
}

uint32_t *frugal_order(struct arena *arena, const struct problem *problem, const struct frugal_options *options)
{
    struct frugal_work work = {
        .problem = problem, .options = options, .order = ARENA_NEW(arena, uint32_t, problem->job_count)};
    for (uint32_t j = 0; j < problem->job_count; j++) {
        if (problem->jobs[j].after != JOB_NONE || problem->job_count > UINT16_MAX)
            return NULL;
    }
    arena_with_scratch(arena, halve, &work);
    return work.found ? work.order : NULL;
}
