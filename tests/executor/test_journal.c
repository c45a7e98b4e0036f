/* SPDX-License-Identifier: Apache-2.0 */
/* The journal: what it says when a run breaks off anywhere, and that it says nothing wrong when it is damaged. */
#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "rig.h"

static char folder[] = "/tmp/shunt-journal-XXXXXX";

static const char *path_of(uint32_t device)
{
    static char path[64];
    snprintf(path, sizeof(path), "%s/%u", folder, device);
    return path;
}

/* All devices again, with journals. */
static void keep_journals(struct rig *rig)
{
    for (uint32_t d = 0; d < rig->count; d++) {
        struct shunt_exec_config config = {.plan = rig->plan, .device = d, .on = rig->on, .journal_path = path_of(d)};
        shunt_exec_close(rig->execs[d]);
        CHECK_MSG(shunt_exec_open(&config, &rig->execs[d], &rig->err) == SHUNT_OK, "%s", rig->err.text);
        CHECK_EQ_U64(shunt_exec_trust(rig->execs[d], &rig->err), SHUNT_OK);
    }
}

static struct shunt_exec_journal read_back(uint32_t device)
{
    struct shunt_exec_journal journal = {.device = UINT32_MAX};
    struct shunt_err err = {{0}};
    CHECK_MSG(shunt_exec_read_journal(path_of(device), &journal, &err) == SHUNT_OK, "%s", err.text);
    CHECK_EQ_U64(journal.device, device);
    return journal;
}

static void whole_runs_are_done(void)
{
    struct rig rig;
    rig_open(&rig, build_tiny(), &(struct rig_options){.watched = -1});
    keep_journals(&rig);
    CHECK_EQ_U64(read_back(0).phase, SHUNT_EXEC_PHASE_READY);
    rig_bind(&rig, 3, false);
    CHECK_EQ_U64(rig_run(&rig), SHUNT_OK);
    for (uint32_t d = 0; d < rig.count; d++) {
        struct shunt_exec_journal journal = read_back(d);
        CHECK_EQ_U64(journal.phase, SHUNT_EXEC_PHASE_DONE);
        CHECK_EQ_U64(journal.begun, journal.round_count);
        CHECK_EQ_U64(journal.freed, journal.round_count);
        CHECK_EQ_U64(journal.device_count, rig.count);
        CHECK(memcmp(journal.plan_id, shunt_plan_get_header(rig.plan)->plan_id, sizeof(journal.plan_id)) == 0);
    }
    rig_unbind(&rig);
    CHECK_EQ_U64(read_back(1).phase, SHUNT_EXEC_PHASE_READY);
    rig_close(&rig);
}

/* What the old side holds, before and after a run that broke off. */
static unsigned char *copy_old(const struct rig *rig, uint32_t device, uint32_t index, uint64_t bytes)
{
    unsigned char *copy = malloc(bytes + 1);
    if (rig->memory[device][index] != NULL)
        rig_peek(copy, rig->memory[device][index], bytes);
    return copy;
}

/* The tiny plan has depth 2: when the wait for a round fails, the next one has been filled, and the one before freed. */
static void broken_runs_say_where(void)
{
    for (uint32_t round = 0; round < 2; round++) {
        struct rig rig;
        unsigned char *old[RIG_MAX_DEVICES][RIG_MAX_BUFFERS];
        rig_open(&rig, build_tiny(), &(struct rig_options){.transport = &transport_faulty, .watched = -1});
        keep_journals(&rig);
        rig_bind(&rig, 3, false);
        for (uint32_t d = 0; d < rig.count; d++) {
            for (uint32_t i = 0; i < rig.execs[d]->engine.part.header->buffer_count; i++)
                old[d][i] = copy_old(&rig, d, i, rig.execs[d]->engine.part.buffers[i].bytes);
        }
        fault = (struct fault){FAULT_LATE, round, 0, 0};
        CHECK_EQ_U64(rig_run(&rig), SHUNT_ERR_TIMEOUT);
        CHECK_CONTAINS(rig.err.text, "timed out by the test");
        fault.kind = FAULT_NONE;
        for (uint32_t d = 0; d < rig.count; d++) {
            const struct engine *engine = &rig.execs[d]->engine;
            struct shunt_exec_journal journal = read_back(d);
            CHECK_EQ_U64(journal.phase, SHUNT_EXEC_PHASE_FAILED);
            CHECK_EQ_U64(journal.status, SHUNT_ERR_TIMEOUT);
            CHECK_EQ_U64(journal.begun, 2);
            CHECK_EQ_U64(journal.filled, 2);
            CHECK_EQ_U64(journal.done, round);
            CHECK_EQ_U64(journal.freeing, round);
            CHECK_EQ_U64(journal.freed, round);
            for (uint32_t i = 0; i < engine->part.header->buffer_count; i++) {
                const struct shunt_plan_buffer *buffer = &engine->part.buffers[i];
                if (shunt_plan_on_old_side(buffer) && buffer->free_round >= journal.freeing) {
                    unsigned char *now = copy_old(&rig, d, i, buffer->bytes);
                    CHECK(memcmp(old[d][i], now, buffer->bytes) == 0);
                    free(now);
                }
                free(old[d][i]);
            }
        }
        rig_close(&rig);
    }
}

static void disagreement_touches_nothing(void)
{
    struct rig rig;
    rig_open(&rig, build_tiny(), &(struct rig_options){.watched = -1});
    keep_journals(&rig);
    struct shunt_exec_config config = {.plan = rig.plan, .device = 2, .on = rig.on, .journal_path = path_of(2)};
    shunt_exec_close(rig.execs[2]);
    CHECK_EQ_U64(shunt_exec_open(&config, &rig.execs[2], &rig.err), SHUNT_OK);
    CHECK_EQ_U64(shunt_exec_trust(rig.execs[2], &rig.err), SHUNT_OK);
    rig_bind(&rig, 3, false);
    rig.execs[2]->engine.buffers[0].dtype ^= 1;
    rig.execs[2]->engine.buffers[0].bound = true;
    CHECK_EQ_U64(rig_run(&rig), SHUNT_ERR_MISMATCH);
    CHECK_EQ_U64(read_back(2).begun, 0);
    CHECK_EQ_U64(read_back(2).phase, SHUNT_EXEC_PHASE_FAILED);
    CHECK_EQ_U64(read_back(0).status, SHUNT_ERR_MISMATCH);
    rig_close(&rig);
}

static size_t slurp(const char *path, unsigned char *bytes, size_t size)
{
    FILE *file = fopen(path, "rb");
    size_t got = file == NULL ? 0 : fread(bytes, 1, size, file);
    if (file != NULL)
        fclose(file);
    return got;
}

static void spit(const char *path, const unsigned char *bytes, size_t size)
{
    FILE *file = fopen(path, "wb");
    CHECK(file != NULL && fwrite(bytes, 1, size, file) == size && fclose(file) == 0);
}

/* Any damaged byte: the head's makes it no journal, a state's leaves the other state. */
static void damage_is_never_believed(void)
{
    struct rig rig;
    unsigned char whole[4096], damaged[4096];
    rig_open(&rig, build_tiny(), &(struct rig_options){.watched = -1});
    keep_journals(&rig);
    rig_bind(&rig, 3, false);
    CHECK_EQ_U64(rig_run(&rig), SHUNT_OK);
    rig_close(&rig);
    size_t size = slurp(path_of(1), whole, sizeof(whole));
    CHECK(size > 100 && size < sizeof(whole));
    uint32_t refused = 0, former = 0, last = 0;
    for (size_t at = 0; at < size; at++) {
        struct shunt_exec_journal journal;
        memcpy(damaged, whole, size);
        damaged[at] ^= 0x04;
        spit(path_of(9), damaged, size);
        enum shunt_status st = shunt_exec_read_journal(path_of(9), &journal, NULL);
        if (st != SHUNT_OK) {
            CHECK_EQ_U64(st, SHUNT_ERR_INPUT);
            refused++;
            continue;
        }
        bool done = journal.phase == SHUNT_EXEC_PHASE_DONE;
        CHECK(journal.freed == 2 && (done || journal.phase == SHUNT_EXEC_PHASE_MOVING));
        *(done ? &last : &former) += 1;
    }
    CHECK(refused > 60 && former > 30 && last > 30);
    spit(path_of(9), whole, size - 1);
    CHECK_EQ_U64(shunt_exec_read_journal(path_of(9), &(struct shunt_exec_journal){.device = 0}, NULL), SHUNT_ERR_INPUT);
    CHECK_EQ_U64(shunt_exec_read_journal(path_of(99), &(struct shunt_exec_journal){.device = 0}, NULL), SHUNT_ERR_IO);
}

static void no_place_no_exec(void)
{
    struct rig rig;
    struct shunt_exec *exec;
    rig_open(&rig, build_tiny(), &(struct rig_options){.watched = -1});
    struct shunt_exec_config config = {.plan = rig.plan, .journal_path = "/nowhere/at/all"};
    CHECK_EQ_U64(shunt_exec_open(&config, &exec, &rig.err), SHUNT_ERR_IO);
    CHECK_CONTAINS(rig.err.text, "journal /nowhere/at/all: make it: No such file or directory");
    rig_close(&rig);
}

static void clean_up(void)
{
    for (uint32_t d = 0; d < 10; d++)
        unlink(path_of(d));
    CHECK(rmdir(folder) == 0);
}

static void make_folder(void)
{
    CHECK(mkdtemp(folder) != NULL);
}

static const struct test_case cases[] = {
    {"make_folder", make_folder},
    {"whole_runs_are_done", whole_runs_are_done},
    {"broken_runs_say_where", broken_runs_say_where},
    {"disagreement_touches_nothing", disagreement_touches_nothing},
    {"damage_is_never_believed", damage_is_never_believed},
    {"no_place_no_exec", no_place_no_exec},
    {"clean_up", clean_up},
};
TEST_MAIN(cases)
