/* SPDX-License-Identifier: Apache-2.0 */
#include "shunt/workers.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

#define DEFAULT_WORKERS 8u

struct crew {
    shunt_work *work;
    void *context;
    uint32_t count, batch;
    _Atomic uint64_t next;
};

struct member {
    struct crew *crew;
    uint32_t worker;
    pthread_t thread;
};

static void *take_batches(void *argument)
{
    const struct member *member = argument;
    struct crew *crew = member->crew;
    uint64_t begin;
    while ((begin = atomic_fetch_add(&crew->next, crew->batch)) < crew->count) {
        uint64_t end = begin + crew->batch < crew->count ? begin + crew->batch : crew->count;
        crew->work(crew->context, member->worker, (uint32_t)begin, (uint32_t)end);
    }
    return NULL;
}

void shunt_share_work(uint32_t threads, uint32_t count, uint32_t batch, shunt_work *work, void *context)
{
    struct crew crew = {.work = work, .context = context, .count = count, .batch = batch > 0 ? batch : 1};
    struct member members[SHUNT_MAX_WORKERS];
    uint64_t batches = ((uint64_t)count + crew.batch - 1) / crew.batch;
    uint32_t most = threads < SHUNT_MAX_WORKERS ? threads : SHUNT_MAX_WORKERS, hired = 1;
    members[0] = (struct member){.crew = &crew};
    while (hired < most && hired < batches) {
        members[hired] = (struct member){.crew = &crew, .worker = hired};
        if (pthread_create(&members[hired].thread, NULL, take_batches, &members[hired]) != 0)
            break;
        hired++;
    }
    take_batches(&members[0]);
    for (uint32_t m = 1; m < hired; m++)
        pthread_join(members[m].thread, NULL);
}

uint32_t shunt_default_workers(void)
{
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof(set), &set) != 0)
        return 1;
    uint32_t count = (uint32_t)CPU_COUNT(&set);
    return count < 1 ? 1 : count < DEFAULT_WORKERS ? count : DEFAULT_WORKERS;
}
