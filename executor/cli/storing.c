/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/storing.h"

#include <stdlib.h>
#include <string.h>

#include "io/safetensors.h"

/* What one device says about its file: before the move how large it will be, after it what it is. */
struct storing_record {
    uint32_t rank; /* SHUNT_PLAN_NONE: no new rank here */
    struct manifest_file file;
};

static enum shunt_status vote(struct storing *storing, const char *what, world_judge judge, void *ctx,
                              struct shunt_err *err)
{
    return world_vote(storing->world, storing->records, sizeof(*storing->records), what, judge, ctx,
                      storing->options->timeout_seconds, err);
}

static enum shunt_status approve(void *ctx, const void *all, uint32_t size, struct shunt_err *err)
{
    (void)ctx, (void)all, (void)size, (void)err;
    return SHUNT_OK;
}

/* ---- before the move ------------------------------------------------------------------------- */

static enum shunt_status begin_load(struct storing *storing, const struct shunt_plan *first, struct shunt_err *err)
{
    enum shunt_status st = store_set_open(&storing->set, storing->options->load, err);
    if (st == SHUNT_OK && storing->world->transport->root)
        st = store_set_check(&storing->set, shunt_plan_get_header(first), err);
    return st;
}

static enum shunt_status measure(struct storing *storing, const struct shunt_plan *last, struct shunt_err *err)
{
    const struct transport *transport = storing->world->transport;
    for (uint32_t i = 0; i < transport->local_count; i++) {
        struct storing_record *record = &storing->records[i];
        struct shunt_exec_config config = {.plan = last, .device = transport->first_local + i};
        struct shunt_exec *exec;
        *record = (struct storing_record){.rank = shunt_plan_get_device(last, config.device)->to_rank};
        if (record->rank == SHUNT_PLAN_NONE)
            continue;
        enum shunt_status st = shunt_exec_open(&config, &exec, err);
        if (st != SHUNT_OK)
            return st;
        st = safetensors_bytes(exec, &record->file.bytes, err);
        shunt_exec_close(exec);
        if (st != SHUNT_OK)
            return st;
    }
    return SHUNT_OK;
}

struct opening {
    struct storing *storing;
    uint32_t ranks;
};

/* At the root: make the folder ready for all of it. */
static enum shunt_status open_store(void *ctx, const void *all, uint32_t size, struct shunt_err *err)
{
    const struct opening *opening = ctx;
    const struct storing_record *records = all;
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < size; i++)
        bytes += records[i].rank == SHUNT_PLAN_NONE ? 0 : records[i].file.bytes;
    return store_open(opening->storing->options->store, opening->ranks, bytes, &opening->storing->store, err);
}

static enum shunt_status reserve_files(struct storing *storing, struct shunt_err *err)
{
    for (uint32_t i = 0; i < storing->world->transport->local_count; i++) {
        const struct storing_record *record = &storing->records[i];
        if (record->rank == SHUNT_PLAN_NONE)
            continue;
        enum shunt_status st =
            store_reserve(storing->options->store, storing->staging, record->rank, record->file.bytes, err);
        if (st == SHUNT_OK)
            st = shunt_world_poll(storing->world, err);
        if (st != SHUNT_OK)
            return st;
    }
    return SHUNT_OK;
}

static enum shunt_status begin_store(struct storing *storing, const struct shunt_plan *last, struct shunt_err *err)
{
    struct opening opening = {storing, shunt_plan_get_header(last)->to_rank_count};
    enum shunt_status st = measure(storing, last, err);
    if (st == SHUNT_OK)
        st = vote(storing, "agreement on the store", open_store, &opening, err);
    if (st == SHUNT_OK && storing->store != NULL)
        memcpy(storing->staging, store_staging(storing->store), sizeof(storing->staging));
    if (st == SHUNT_OK)
        st = world_share(storing->world, storing->staging, sizeof(storing->staging), "name of the store",
                         storing->options->timeout_seconds, err);
    storing->staging[sizeof(storing->staging) - 1] = '\0';
    if (st == SHUNT_OK && !manifest_is_staging(storing->staging))
        st = shunt_fail(err, SHUNT_ERR_TRANSPORT, "a malformed name of the store came from device 0");
    if (st == SHUNT_OK)
        st = reserve_files(storing, err);
    return st == SHUNT_OK ? vote(storing, "readiness of the store", approve, NULL, err) : st;
}

enum shunt_status storing_begin(struct storing *storing, const struct options *options, struct shunt_world *world,
                                const struct shunt_plan *first, const struct shunt_plan *last, struct shunt_err *err)
{
    enum shunt_status st = SHUNT_OK;
    *storing = (struct storing){.options = options, .world = world, .poll = contents_poll_world(world)};
    storing->records = calloc(world->transport->local_count, sizeof(*storing->records));
    if (storing->records == NULL)
        return shunt_fail(err, SHUNT_ERR_NOMEM, "out of memory");
    if (options->load != NULL)
        st = begin_load(storing, first, err);
    return st == SHUNT_OK && options->store != NULL ? begin_store(storing, last, err) : st;
}

/* ---- after the move -------------------------------------------------------------------------- */

static enum shunt_status write_file(struct storing *storing, const struct shunt_exec *exec,
                                    struct storing_record *record, struct shunt_err *err)
{
    struct store_file file;
    if (record->rank == SHUNT_PLAN_NONE)
        return SHUNT_OK;
    enum shunt_status st =
        store_file_open(&file, storing->options->store, storing->staging, record->rank, &storing->poll, err);
    if (st == SHUNT_OK)
        st = safetensors_store(exec, &file, err);
    if (st == SHUNT_OK)
        st = store_file_sync(&file, err);
    store_file_close(&file);
    record->file = file.written;
    return st;
}

/* At the root: what all have written. */
static enum shunt_status take_files(void *ctx, const void *all, uint32_t size, struct shunt_err *err)
{
    const struct storing *storing = ctx;
    const struct storing_record *records = all;
    (void)err;
    for (uint32_t i = 0; i < size; i++)
        store_put_file(storing->store, records[i].rank, &records[i].file); /* NONE is no rank of the set */
    return SHUNT_OK;
}

enum shunt_status storing_write(struct storing *storing, struct shunt_exec *const *execs, struct shunt_err *err)
{
    enum shunt_status st = SHUNT_OK;
    meet_beat(storing->world->meet, MEET_STORING, 0);
    for (uint32_t i = 0; i < storing->world->transport->local_count && st == SHUNT_OK; i++)
        st = write_file(storing, execs[i], &storing->records[i], err);
    if (st == SHUNT_OK)
        st = vote(storing, "storing", take_files, storing, err);
    if (st == SHUNT_OK && storing->store != NULL)
        st = store_commit(storing->store, shunt_plan_get_header(shunt_exec_get_plan(execs[0])), &storing->poll, err);
    return st == SHUNT_OK ? vote(storing, "commit of the store", approve, NULL, err) : st;
}

void storing_end(struct storing *storing)
{
    store_close(storing->store);
    store_set_close(&storing->set);
    free(storing->records);
    *storing = (struct storing){0};
}
