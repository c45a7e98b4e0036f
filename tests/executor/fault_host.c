/* SPDX-License-Identifier: Apache-2.0 */
/**
 * A host of the library for tools/faults: one device whose buffers all lie in a file, so that its memory can be looked
 * at however it ended.
 *
 *     fault_host run PLAN FOLDER RANK SIZE TRANSPORT MEET JOB TIMEOUT SEED FAULT[:COUNT[:MILLISECONDS]]
 *     fault_host judge PLAN FOLDER SEED
 *
 * `run` leaves FOLDER/memory-RANK and FOLDER/journal-RANK. FAULT is what this device does to itself: `none`; `refuse` its
 * COUNTth allocation; `kill`, `stop` or `sleep` behind its COUNTth round, or, `die`, amid it: in an allocation. Memory
 * that was given back, or was never written, holds a pattern of its own.
 *
 * `judge` says of every device whether its journal is true: buffers that it says are whole hold what they held, and what
 * it says was moved is what a run that nothing disturbed leaves there.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "device/digest.h"
#include "device/walk.h"
#include "io/contents.h"
#include "replay/exec.h"

#define GIVEN_BACK 0xDD
#define UNWRITTEN  0xA7

enum { REFUSE = 0, KILL, STOP, SLEEP, DIE, FAULTS };
static const char *const fault_names[FAULTS] = {"refuse", "kill", "stop", "sleep", "die"};

struct host {
    struct shunt_exec *exec;
    struct shunt_device *on; /* NULL: host memory */
    bool lent;
    unsigned char *memory; /* all buffers, one after the other */
    uint64_t *offsets;
    int fault; /* FAULTS: none */
    uint32_t count, allocs;
    uint32_t milliseconds;
};

static const char *arg_path(char *text, size_t size, const char *folder, const char *name, unsigned rank)
{
    snprintf(text, size, "%s/%s-%u", folder, name, rank);
    return text;
}

static uint64_t lay_out(struct host *host)
{
    uint64_t at = 0;
    uint32_t count = shunt_exec_buffer_count(host->exec);
    host->offsets = calloc((size_t)count + 1, sizeof(uint64_t));
    for (uint32_t i = 0; i < count; i++) {
        struct shunt_exec_buffer buffer;
        shunt_exec_get_buffer(host->exec, i, &buffer);
        host->offsets[i] = at;
        at += (buffer.bytes + 127) / 64 * 64;
    }
    return at;
}

/* ---- run ------------------------------------------------------------------------- */

static void *give(void *ctx, const char *name, uint64_t bytes)
{
    struct host *host = ctx;
    host->allocs++;
    if (host->fault == DIE && host->allocs == host->count)
        raise(SIGKILL);
    if (host->fault == REFUSE && host->allocs == host->count)
        return NULL;
    int64_t index = engine_find(&host->exec->engine, name, SHUNT_SIDE_TO);
    memset(host->memory + host->offsets[index], UNWRITTEN, bytes);
    return host->memory + host->offsets[index];
}

static void take_back(void *ctx, const char *name, void *ptr, uint64_t bytes)
{
    (void)ctx, (void)name;
    memset(ptr, GIVEN_BACK, bytes);
}

static void round_done(void *ctx, uint32_t device, uint32_t round, uint32_t round_count)
{
    const struct host *host = ctx;
    (void)device, (void)round_count;
    if (round + 1 != host->count)
        return;
    if (host->fault == KILL)
        raise(SIGKILL);
    if (host->fault == STOP)
        raise(SIGSTOP);
    if (host->fault == SLEEP)
        sleep_ns((int64_t)host->milliseconds * NS_PER_MS);
}

static void read_fault(struct host *host, const char *text)
{
    char name[16] = "";
    host->fault = FAULTS;
    if (sscanf(text, "%15[a-z]:%u:%u", name, &host->count, &host->milliseconds) < 1)
        return;
    for (int i = 0; i < FAULTS; i++) {
        if (strcmp(name, fault_names[i]) == 0)
            host->fault = i;
    }
}

/* Over NCCL its memory is the file all the same, which the device is let reach. */
static enum shunt_status open_device(struct host *host, const char *transport, uint32_t rank, struct shunt_err *err)
{
    char name[24];
    snprintf(name, sizeof(name), "cuda:%u", rank);
    return strcmp(transport, "nccl") == 0 ? shunt_device_open(name, &host->on, err) : SHUNT_OK;
}

static enum shunt_status map_memory(struct host *host, const char *path, struct shunt_err *err)
{
    uint64_t bytes = lay_out(host);
    int fd = open(path, O_RDWR | O_CREAT | O_TRUNC, 0600);
    void *at = MAP_FAILED;
    if (fd >= 0 && ftruncate(fd, (off_t)bytes) == 0)
        at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (fd >= 0)
        close(fd);
    if (at == MAP_FAILED)
        return shunt_fail(err, SHUNT_ERR_IO, "%s: %s", path, strerror(errno));
    host->memory = at;
    return host->on == NULL ? SHUNT_OK : host->on->ops->lend_host(host->on, at, bytes, &host->lent, err);
}

static enum shunt_status bind_old(struct host *host, uint64_t seed, struct shunt_err *err)
{
    for (uint32_t i = 0; i < shunt_exec_buffer_count(host->exec); i++) {
        struct shunt_exec_buffer buffer;
        shunt_exec_get_buffer(host->exec, i, &buffer);
        if (buffer.side != SHUNT_SIDE_FROM && buffer.side != SHUNT_SIDE_BOTH)
            continue;
        enum shunt_status st = shunt_exec_bind(host->exec, SHUNT_SIDE_FROM, buffer.name, buffer.dtype,
                                               host->memory + host->offsets[i], buffer.bytes, err);
        if (st != SHUNT_OK)
            return st;
    }
    return contents_fill(host->exec, seed, NULL, err);
}

static enum shunt_status run(char **argv, struct shunt_err *err)
{
    char journal[4096], memory[4096];
    struct host host = {0};
    struct shunt_world *world = NULL;
    uint32_t rank = (uint32_t)atoi(argv[2]);
    enum shunt_status st = open_device(&host, argv[4], rank, err);
    struct shunt_exec_config config = {.plan_path = argv[0],
                                       .device = rank,
                                       .on = host.on,
                                       .memory = {&host, give, take_back},
                                       .progress = {&host, round_done},
                                       .journal_path = arg_path(journal, sizeof(journal), argv[1], "journal", rank),
                                       .checksum = digest_available()};
    struct shunt_world_config meeting = {.transport = argv[4],
                                         .rank = rank,
                                         .size = (uint32_t)atoi(argv[3]),
                                         .meet_dir = argv[5],
                                         .job = argv[6],
                                         .timeout_seconds = atof(argv[7])};
    read_fault(&host, argv[9]);
    if (st == SHUNT_OK)
        st = shunt_exec_open(&config, &host.exec, err);
    if (st == SHUNT_OK)
        st = shunt_exec_trust(host.exec, err);
    if (st == SHUNT_OK)
        st = map_memory(&host, arg_path(memory, sizeof(memory), argv[1], "memory", rank), err);
    if (st == SHUNT_OK)
        st = bind_old(&host, strtoull(argv[8], NULL, 10), err);
    if (st == SHUNT_OK)
        st = shunt_world_open(&meeting, &world, err);
    if (st == SHUNT_OK)
        st = shunt_exec_run(world, &host.exec, 1, meeting.timeout_seconds, err);
    shunt_world_close(world);
    shunt_exec_close(host.exec);
    if (host.lent)
        host.on->ops->return_host(host.on, host.memory);
    shunt_device_close(host.on);
    free(host.offsets);
    return st;
}

/* ---- judge ------------------------------------------------------------------------ */

/* What an undisturbed run starts from and leaves, on one device. */
struct truth {
    struct host host;
    unsigned char *before; /* the memory as filled */
    uint64_t bytes;
};

static void keep(void *ctx, const char *name, void *ptr, uint64_t bytes)
{
    (void)ctx, (void)name, (void)ptr, (void)bytes;
}

static enum shunt_status open_truth(struct truth *truth, const char *plan, uint32_t device, uint64_t seed,
                                    struct shunt_err *err)
{
    struct shunt_exec_config config = {.plan_path = plan, .device = device, .memory = {&truth->host, give, keep}};
    truth->host.fault = FAULTS;
    enum shunt_status st = shunt_exec_open(&config, &truth->host.exec, err);
    if (st != SHUNT_OK)
        return st;
    truth->bytes = lay_out(&truth->host);
    truth->host.memory = aligned_alloc(64, truth->bytes + 64 - truth->bytes % 64);
    truth->before = malloc(truth->bytes + 1);
    memset(truth->host.memory, 0, truth->bytes);
    st = shunt_exec_trust(truth->host.exec, err);
    if (st == SHUNT_OK)
        st = bind_old(&truth->host, seed, err);
    memcpy(truth->before, truth->host.memory, truth->bytes);
    return st;
}

static enum shunt_status run_truths(struct truth *truths, uint32_t count, struct shunt_err *err)
{
    struct shunt_world *world;
    struct shunt_exec **execs = calloc(count, sizeof(*execs));
    struct shunt_world_config config = {.transport = "loopback", .size = count, .timeout_seconds = 60};
    for (uint32_t i = 0; i < count; i++)
        execs[i] = truths[i].host.exec;
    enum shunt_status st = shunt_world_open(&config, &world, err);
    if (st == SHUNT_OK) {
        st = shunt_exec_run(world, execs, count, 60, err);
        shunt_world_close(world);
    }
    free(execs);
    return st;
}

static bool boxes_agree(const unsigned char *found, const unsigned char *expected, const struct shunt_plan_view *view)
{
    struct walk walk;
    walk_init(&walk, view->ndim, view->elem_bytes, view->shape, view->stride, view->stride);
    do {
        for (uint64_t i = 0; i < walk.count; i++) {
            uint64_t at = walk.a + i * walk.a_step;
            if (memcmp(found + at, expected + at, walk.unit_bytes) != 0)
                return false;
        }
    } while (walk_next(&walk));
    return true;
}

struct finding {
    uint32_t device, old_whole, moved, problems;
};

static void complain(struct finding *finding, const char *what, const char *name, unsigned round)
{
    if (finding->problems++ < 5)
        printf("device %u: %s: %s (round %u)\n", finding->device, what, name, round);
}

static void judge_old(struct finding *finding, const struct truth *truth, const unsigned char *memory,
                      const struct shunt_exec_journal *journal)
{
    const struct engine *engine = &truth->host.exec->engine;
    for (uint32_t i = 0; i < engine->part.header->buffer_count; i++) {
        const struct shunt_plan_buffer *buffer = &engine->part.buffers[i];
        bool freed = buffer->free_round != SHUNT_PLAN_NONE && buffer->free_round < journal->freeing;
        uint64_t at = truth->host.offsets[i];
        if (!shunt_plan_on_old_side(buffer) || freed)
            continue;
        finding->old_whole++;
        if (memcmp(memory + at, truth->before + at, buffer->bytes) != 0)
            complain(finding, "not what it was, though not given back", engine->buffers[i].name, buffer->free_round);
    }
}

static void judge_new(struct finding *finding, const struct truth *truth, const unsigned char *memory,
                      const struct shunt_exec_journal *journal)
{
    const struct engine *engine = &truth->host.exec->engine;
    for (uint32_t k = 0; k < journal->round_count; k++) {
        for (uint32_t i = engine->part.rounds[k].op_begin; i < engine->part.rounds[k + 1].op_begin; i++) {
            const struct shunt_plan_op *op = &engine->part.ops[i];
            bool done = k < (op->kind == SHUNT_OP_UNPACK ? journal->done : journal->filled);
            if (!done || op->kind == SHUNT_OP_PACK || engine->part.buffers[op->dst_buffer].side == SHUNT_SIDE_SCRATCH)
                continue;
            uint64_t at = truth->host.offsets[op->dst_buffer] + op->dst_offset;
            finding->moved++;
            if (!boxes_agree(memory + at, truth->host.memory + at, &engine->part.views[op->dst_view]))
                complain(finding, "not moved, though said to be", engine->buffers[op->dst_buffer].name, k);
        }
    }
}

static enum shunt_status judge_device(const struct truth *truth, const char *folder, struct finding *finding,
                                      struct shunt_err *err)
{
    char path[4096];
    struct shunt_exec_journal journal;
    unsigned device = truth->host.exec->engine.device;
    *finding = (struct finding){.device = device};
    if (access(arg_path(path, sizeof(path), folder, "journal", device), F_OK) != 0)
        return SHUNT_OK; /* it never opened its plan */
    enum shunt_status st = shunt_exec_read_journal(path, &journal, err);
    if (st != SHUNT_OK)
        return st;
    unsigned char *memory = calloc(1, truth->bytes + 1);
    FILE *file = fopen(arg_path(path, sizeof(path), folder, "memory", device), "rb");
    bool there = file != NULL && fread(memory, 1, truth->bytes, file) == truth->bytes;
    if (file != NULL)
        fclose(file);
    bool another = memcmp(journal.plan_id, truth->host.exec->engine.header->plan_id, sizeof(journal.plan_id)) != 0;
    if (another && journal.begun != 0)
        complain(finding, "moved something of another plan", "journal", journal.begun);
    /* before the fill has ended there is nothing to tell */
    if (there && !another && journal.begun != 0) {
        judge_old(finding, truth, memory, &journal);
        judge_new(finding, truth, memory, &journal);
    }
    if (journal.phase == SHUNT_EXEC_PHASE_DONE && journal.freed != journal.round_count)
        complain(finding, "done before its last round", "journal", journal.done);
    printf("device %u: phase %d, rounds begun %u, done %u of %u: %u old buffers whole, %u ops done, %u problems\n",
           device, (int)journal.phase, journal.begun, journal.done, journal.round_count, finding->old_whole,
           finding->moved, finding->problems);
    free(memory);
    return SHUNT_OK;
}

static enum shunt_status judge(char **argv, struct shunt_err *err)
{
    struct shunt_plan *plan;
    uint32_t problems = 0;
    enum shunt_status st = shunt_plan_open(argv[0], &plan, err);
    if (st != SHUNT_OK)
        return st;
    uint32_t count = shunt_plan_get_header(plan)->device_count;
    shunt_plan_close(plan);
    struct truth *truths = calloc(count, sizeof(*truths));
    for (uint32_t i = 0; i < count && st == SHUNT_OK; i++)
        st = open_truth(&truths[i], argv[0], i, strtoull(argv[2], NULL, 10), err);
    if (st == SHUNT_OK)
        st = run_truths(truths, count, err);
    for (uint32_t i = 0; i < count && st == SHUNT_OK; i++) {
        struct finding finding;
        st = judge_device(&truths[i], argv[1], &finding, err);
        problems += finding.problems;
    }
    for (uint32_t i = 0; i < count; i++) {
        shunt_exec_close(truths[i].host.exec);
        free(truths[i].host.memory);
        free(truths[i].host.offsets);
        free(truths[i].before);
    }
    free(truths);
    if (st == SHUNT_OK && problems != 0)
        st = shunt_fail(err, SHUNT_ERR_CHECK, "%u problems", problems);
    return st;
}

int main(int argc, char **argv)
{
    struct shunt_err err = {{0}};
    enum shunt_status st = SHUNT_ERR_USAGE;
    if (argc == 12 && strcmp(argv[1], "run") == 0)
        st = run(argv + 2, &err);
    else if (argc == 5 && strcmp(argv[1], "judge") == 0)
        st = judge(argv + 2, &err);
    else
        shunt_fail(&err, st, "see the head of fault_host.c");
    if (st != SHUNT_OK)
        fprintf(stderr, "fault_host: device %s: %s\n", argc == 12 ? argv[4] : "-", err.text);
    return shunt_status_exit_code(st);
}
