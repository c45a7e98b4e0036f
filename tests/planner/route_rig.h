/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHUNT_TESTS_ROUTE_RIG_H
#define SHUNT_TESTS_ROUTE_RIG_H

/** Routes of moves between documents, and small random numbers. */

#include <stdlib.h>

#include "compile.h"
#include "harness.h"
#include "routing/route.h"
#include "space/pair.h"

struct rig_random {
    uint64_t state;
};

static inline uint32_t rig_draw(struct rig_random *random, uint32_t below)
{
    random->state = random->state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)((random->state >> 33) % below);
}

struct rig_work {
    void (*check)(struct arena *arena, const struct route *route, const char *what);
    const char *what;
    const struct compile_documents *documents;
};

static inline void rig_route_in(struct arena *arena, const struct rig_work *work)
{
    struct pair pair;
    struct world *world;
    struct route *route = NULL;
    struct shunt_err err = {0};
    const struct compile_documents *documents = work->documents;
    enum shunt_status status = pair_build(arena, documents->model, documents->from, documents->to, &pair, &err);
    if (status == SHUNT_OK)
        status = world_build(arena, documents->cluster, pair.from, pair.to, &world, &err);
    if (status == SHUNT_OK)
        status = route_build(arena, pair.space, pair.from, pair.to, world, &route, &err);
    CHECK_MSG(status == SHUNT_OK, "%s: %s", work->what, err.text);
    if (status == SHUNT_OK)
        work->check(arena, route, work->what);
}

/** Route the move between two documents of a folder of the sources, and let `check` look at it. */
static inline void rig_route(const char *folder, const char *from, const char *to, const char *cluster,
                             void (*check)(struct arena *arena, const struct route *route, const char *what))
{
    char paths[3][512], what[256];
    struct compile_documents documents;
    struct arena arena;
    snprintf(paths[0], sizeof(paths[0]), "%s/../%s/%s.yaml", SHUNT_SOURCE_PLANS, folder, from);
    snprintf(paths[1], sizeof(paths[1]), "%s/../%s/%s.yaml", SHUNT_SOURCE_PLANS, folder, to);
    snprintf(paths[2], sizeof(paths[2]), "%s/clusters/%s.yaml", SHUNT_SOURCE_PLANS, cluster != NULL ? cluster : "");
    snprintf(what, sizeof(what), "%s -> %s", from, to);
    const struct compile_options options = {
        .from_path = paths[0], .to_path = paths[1], .cluster = cluster != NULL ? paths[2] : NULL};
    enum shunt_status status = compile_load(&options, &documents, stdout);
    CHECK_MSG(status == SHUNT_OK, "%s", what);
    if (status != SHUNT_OK)
        return;
    const struct rig_work work = {.check = check, .what = what, .documents = &documents};
    arena_init(&arena);
    if (setjmp(arena.on_failure) == 0)
        rig_route_in(&arena, &work);
    else
        CHECK(!"out of memory");
    arena_finish(&arena);
    compile_unload(&documents);
}

#endif
