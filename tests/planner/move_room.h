/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHUNT_TESTS_MOVE_ROOM_H
#define SHUNT_TESTS_MOVE_ROOM_H

/** Moves of a toy model between layouts that a test writes itself: documents in a folder of their own, and routes. */

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "compile.h"
#include "harness.h"
#include "routing/route.h"
#include "space/pair.h"

#define ADAM "master: fp32, exp_avg: fp32, exp_avg_sq: fp32"

/* Rounds and messages cost nothing: what is worth it is a matter of bytes alone. */
static const char room_cluster[] = "kind: cluster\nname: toy\ndevices_per_node: 4\ndevice: {memory: 1 GiB}\n"
                                   "links: {intra_node: 90 GB/s, inter_node: 10 GB/s}\ncopy: 500 GB/s\n"
                                   "costs: {round: 0 us, message: 0 us}\n";

struct move_text {
    const char *name, *model, *from, *to; /* the layouts: what they say of themselves */
};

struct room {
    struct arena arena;
    struct compile_options options;
    struct compile_documents documents;
    struct route *base, *better; /* what the test compares */
};

enum room_file { FROM, TO, MODEL, MACHINES, ROOM_FILES };

static char room_folder[32];
static char room_paths[ROOM_FILES][64];

static inline bool room_write(enum room_file file, const char *text)
{
    static const char *const names[ROOM_FILES] = {"from", "to", "model", "cluster"};
    snprintf(room_paths[file], sizeof(room_paths[file]), "%s/%s.yaml", room_folder, names[file]);
    FILE *out = fopen(room_paths[file], "w");
    if (out == NULL)
        return false;
    if (file <= TO)
        fprintf(out, "kind: layout\nname: %s\nmodel: model.yaml\n", names[file]);
    fprintf(out, "%s\n", text);
    return fclose(out) == 0;
}

static inline bool room_route(struct room *room, void (*improve)(struct room *room), struct shunt_err *err)
{
    const struct compile_documents *documents = &room->documents;
    struct pair pair;
    struct world *world;
    if (pair_build(&room->arena, documents->model, documents->from, documents->to, &pair, err) != SHUNT_OK ||
        world_build(&room->arena, documents->cluster, pair.from, pair.to, &world, err) != SHUNT_OK ||
        route_build(&room->arena, pair.space, pair.from, pair.to, world, &room->base, err) != SHUNT_OK)
        return false;
    improve(room);
    return true;
}

/** Writes, loads and routes a move; `improve` finds the direct route in `base` and sets `better`. */
static inline bool room_open(struct room *room, const struct move_text *move, void (*improve)(struct room *room))
{
    struct shunt_err err = {0};
    memset(room, 0, sizeof(*room));
    bool written = room_write(FROM, move->from) && room_write(TO, move->to) && room_write(MODEL, move->model) &&
                   room_write(MACHINES, room_cluster);
    CHECK(written);
    room->options = (struct compile_options){
        .from_path = room_paths[FROM], .to_path = room_paths[TO], .cluster = room_paths[MACHINES]};
    bool loaded = written && compile_load(&room->options, &room->documents, stdout) == SHUNT_OK;
    CHECK_MSG(loaded, "%s", move->name);
    arena_init(&room->arena);
    bool built = loaded && setjmp(room->arena.on_failure) == 0 && room_route(room, improve, &err);
    CHECK_MSG(built, "%s: %s", move->name, err.text);
    return built;
}

static inline void room_close(struct room *room)
{
    arena_finish(&room->arena);
    compile_unload(&room->documents);
}

/** Runs a check whose rooms all write the same files. */
static inline void room_folder_around(void (*check)(void))
{
    if (mkdtemp(strcpy(room_folder, "/tmp/shunt-room-XXXXXX")) == NULL) {
        test_skip("no temporary folder");
        return;
    }
    check();
    for (int file = 0; file < ROOM_FILES; file++)
        unlink(room_paths[file]);
    rmdir(room_folder);
}

#endif
