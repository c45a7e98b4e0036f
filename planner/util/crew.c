/* SPDX-License-Identifier: Apache-2.0 */
#include "util/crew.h"

#include <stdatomic.h>
#include <stdbool.h>

#include "shunt/workers.h"

struct crew {
    struct arena *arena; /* that it is of */
    uint32_t size;
    struct arena *own; /* by worker */
    crew_work *work;
    void *context;
    atomic_bool failed; /* some allocation has: nothing else need be made */
};

struct crew *crew_open(struct arena *arena, uint32_t threads)
{
    struct crew *crew = ARENA_NEW(arena, struct crew, 1);
    crew->arena = arena;
    crew->size = threads < 1 ? 1 : threads < SHUNT_MAX_WORKERS ? threads : SHUNT_MAX_WORKERS;
    crew->own = ARENA_NEW(arena, struct arena, crew->size);
    for (uint32_t w = 0; w < crew->size; w++) {
        arena_init(&crew->own[w]);
        crew->own[w].next = arena->scratch;
        arena->scratch = &crew->own[w];
    }
    return crew;
}

uint32_t crew_size(const struct crew *crew)
{
    return crew->size;
}

static void work_batch(void *context, uint32_t worker, uint32_t begin, uint32_t end)
{
    struct crew *crew = context;
    struct arena *own = &crew->own[worker];
    if (atomic_load(&crew->failed))
        return;
    if (setjmp(own->on_failure) == 0)
        crew->work(own, crew->context, worker, begin, end);
    else
        atomic_store(&crew->failed, true);
}

void crew_share(struct crew *crew, uint32_t count, uint32_t batch, crew_work *work, void *context)
{
    crew->work = work;
    crew->context = context;
    shunt_share_work(crew->size, count, batch, work_batch, crew);
    if (atomic_load(&crew->failed))
        longjmp(crew->arena->on_failure, 1); /* whoever finishes the arena finishes those of the workers too */
}

void crew_close(struct crew *crew)
{
    crew->arena->scratch = crew->own[0].next;
    for (uint32_t w = 0; w < crew->size; w++)
        arena_finish(&crew->own[w]);
}
