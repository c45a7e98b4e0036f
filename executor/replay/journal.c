/* SPDX-License-Identifier: Apache-2.0 */
#include "replay/journal.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#define JOURNAL_MAGIC   "SHUNTJNL"
#define JOURNAL_VERSION 1u
#define READ_TRIES      1000 /* each fails only if the writer has written twice meanwhile */

struct journal_head {
    char magic[8];
    uint32_t version, bytes; /* of the whole file */
    uint8_t plan_id[SHUNT_PLAN_DIGEST_BYTES];
    uint32_t device, device_count, round_count;
    uint32_t crc32c; /* over the head with this field zero */
};

struct journal_state {
    uint64_t count;  /* the greater one of two valid states counts */
    uint32_t status; /* enum shunt_status, of a run that broke off */
    uint32_t phase;  /* enum shunt_exec_phase */
    uint32_t begun, filled, done, freeing, freed;
    uint32_t crc32c; /* over the state with this field zero */
};

struct journal_file {
    struct journal_head head;
    struct journal_state states[2];
};

struct journal {
    struct journal_file *file; /* mapped */
    struct journal_state now;
};

/* ---- writing --------------------------------------------------------------------- */

static uint32_t head_crc(struct journal_head head)
{
    head.crc32c = 0;
    return shunt_crc32c(0, &head, sizeof(head));
}

static uint32_t state_crc(struct journal_state state)
{
    state.crc32c = 0;
    return shunt_crc32c(0, &state, sizeof(state));
}

/* The kernel keeps the stores in their order; the compiler is asked to. */
static void put(struct journal *journal)
{
    struct journal_state *slot = &journal->file->states[++journal->now.count % 2];
    journal->now.crc32c = state_crc(journal->now);
    slot->crc32c = ~journal->now.crc32c;
    atomic_signal_fence(memory_order_seq_cst);
    struct journal_state next = journal->now;
    next.crc32c = slot->crc32c;
    *slot = next;
    atomic_signal_fence(memory_order_seq_cst);
    slot->crc32c = journal->now.crc32c;
}

void journal_reset(struct journal *journal)
{
    if (journal == NULL)
        return;
    journal->now = (struct journal_state){.count = journal->now.count, .phase = SHUNT_EXEC_PHASE_READY};
    put(journal);
}

void journal_begin(struct journal *journal, uint32_t round)
{
    if (journal == NULL)
        return;
    journal->now.phase = SHUNT_EXEC_PHASE_MOVING;
    journal->now.begun = round + 1;
    put(journal);
}

void journal_fill(struct journal *journal, uint32_t round)
{
    if (journal == NULL)
        return;
    journal->now.filled = round + 1;
    put(journal);
}

void journal_finish(struct journal *journal, uint32_t round)
{
    if (journal == NULL)
        return;
    journal->now.done = round + 1;
    put(journal);
}

void journal_release(struct journal *journal, uint32_t round)
{
    if (journal == NULL)
        return;
    journal->now.freeing = round + 1;
    put(journal);
}

void journal_free(struct journal *journal, uint32_t round)
{
    if (journal == NULL)
        return;
    journal->now.freed = round + 1;
    put(journal);
}

void journal_end(struct journal *journal, enum shunt_status status)
{
    if (journal == NULL)
        return;
    journal->now.phase = status == SHUNT_OK ? SHUNT_EXEC_PHASE_DONE : SHUNT_EXEC_PHASE_FAILED;
    journal->now.status = (uint32_t)status;
    put(journal);
}

/* ---- making ---------------------------------------------------------------------- */

static bool map_file(struct journal *journal, int fd)
{
    if (ftruncate(fd, sizeof(struct journal_file)) != 0)
        return false;
    void *at = mmap(NULL, sizeof(struct journal_file), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    journal->file = at == MAP_FAILED ? NULL : at;
    return journal->file != NULL;
}

static enum shunt_status make_file(struct journal *journal, const char *path, const struct journal_head *head,
                                   struct shunt_err *err)
{
    char temp[4096];
    uint64_t salt = 0;
    if (getrandom(&salt, sizeof(salt), 0) != (ssize_t)sizeof(salt) ||
        snprintf(temp, sizeof(temp), "%s.%016" PRIx64, path, salt) >= (int)sizeof(temp))
        return shunt_fail(err, SHUNT_ERR_IO, "journal %s: no name for it", path);
    int fd = open(temp, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (fd < 0)
        return shunt_fail(err, SHUNT_ERR_IO, "journal %s: make it: %s", path, strerror(errno));
    bool good = map_file(journal, fd);
    if (good) {
        journal->file->head = *head;
        journal_reset(journal);
        good = rename(temp, path) == 0;
    }
    int saved = errno;
    close(fd);
    if (good)
        return SHUNT_OK;
    unlink(temp);
    return shunt_fail(err, SHUNT_ERR_IO, "journal %s: write it: %s", path, strerror(saved));
}

enum shunt_status journal_open(const char *path, const struct shunt_plan *plan, uint32_t device,
                               struct journal **journal_out, struct shunt_err *err)
{
    const struct shunt_plan_header *header = shunt_plan_get_header(plan);
    struct journal_head head = {.version = JOURNAL_VERSION,
                                .bytes = sizeof(struct journal_file),
                                .device = device,
                                .device_count = header->device_count,
                                .round_count = header->round_count};
    struct journal *journal = calloc(1, sizeof(*journal));
    if (journal == NULL)
        return shunt_fail(err, SHUNT_ERR_NOMEM, "out of memory");
    memcpy(head.magic, JOURNAL_MAGIC, sizeof(head.magic));
    memcpy(head.plan_id, header->plan_id, sizeof(head.plan_id));
    head.crc32c = head_crc(head);
    enum shunt_status st = make_file(journal, path, &head, err);
    if (st != SHUNT_OK) {
        journal_close(journal);
        return st;
    }
    *journal_out = journal;
    return SHUNT_OK;
}

void journal_close(struct journal *journal)
{
    if (journal == NULL)
        return;
    if (journal->file != NULL)
        munmap(journal->file, sizeof(*journal->file));
    free(journal);
}

/* ---- reading --------------------------------------------------------------------- */

static bool head_is_valid(const struct journal_head *head)
{
    return memcmp(head->magic, JOURNAL_MAGIC, sizeof(head->magic)) == 0 && head->version == JOURNAL_VERSION &&
           head->bytes == sizeof(struct journal_file) && head->crc32c == head_crc(*head) &&
           head->device < head->device_count;
}

static bool state_is_valid(const struct journal_state *state, uint32_t rounds)
{
    return state->crc32c == state_crc(*state) && state->phase <= SHUNT_EXEC_PHASE_FAILED &&
           state->status <= SHUNT_ERR_INTERNAL && state->freed <= state->freeing && state->freeing <= state->begun &&
           state->done <= state->filled && state->filled <= state->begun && state->begun <= rounds;
}

static const struct journal_state *newest(const struct journal_file *file)
{
    const struct journal_state *best = NULL;
    for (int i = 0; i < 2; i++) {
        const struct journal_state *state = &file->states[i];
        if (state_is_valid(state, file->head.round_count) && (best == NULL || state->count > best->count))
            best = state;
    }
    return best;
}

enum shunt_status shunt_exec_read_journal(const char *path, struct shunt_exec_journal *journal_out,
                                          struct shunt_err *err)
{
    struct journal_file file;
    const struct journal_state *state = NULL;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return shunt_fail(err, SHUNT_ERR_IO, "journal %s: open: %s", path, strerror(errno));
    for (int i = 0; i < READ_TRIES && state == NULL; i++) {
        ssize_t got = pread(fd, &file, sizeof(file), 0);
        if (got != (ssize_t)sizeof(file) || !head_is_valid(&file.head))
            break;
        state = newest(&file);
    }
    close(fd);
    if (state == NULL)
        return shunt_fail(err, SHUNT_ERR_INPUT, "%s: not a journal of this version", path);
    *journal_out = (struct shunt_exec_journal){.device = file.head.device,
                                               .device_count = file.head.device_count,
                                               .round_count = file.head.round_count,
                                               .phase = (enum shunt_exec_phase)state->phase,
                                               .status = (enum shunt_status)state->status,
                                               .begun = state->begun,
                                               .filled = state->filled,
                                               .done = state->done,
                                               .freeing = state->freeing,
                                               .freed = state->freed};
    memcpy(journal_out->plan_id, file.head.plan_id, sizeof(file.head.plan_id));
    return SHUNT_OK;
}
