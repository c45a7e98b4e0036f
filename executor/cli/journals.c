/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/journals.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/jsonw.h"
#include "shunt/exec.h"

enum shunt_status journals_make(const char *dir, struct shunt_err *err)
{
    if (mkdir(dir, 0777) == 0 || errno == EEXIST)
        return SHUNT_OK;
    return shunt_fail(err, SHUNT_ERR_IO, "--journal %s: make directory: %s", dir, strerror(errno));
}

enum shunt_status journals_path(const char *dir, uint32_t device, char *path, size_t size, struct shunt_err *err)
{
    if (snprintf(path, size, "%s/device-%05u.journal", dir, device) < (int)size)
        return SHUNT_OK;
    return shunt_fail(err, SHUNT_ERR_IO, "%s: the name of a journal there is too long", dir);
}

/* ---- what a journal means for the buffers of its device ------------------------------- */

struct tally {
    uint64_t count, bytes;
};

struct account {
    struct shunt_exec_journal journal;
    uint32_t plan;                          /* in the chain */
    struct tally whole, given_back;         /* of the old side */
    struct tally complete, partial, absent; /* of the new side */
};

static void add(struct tally *tally, uint64_t bytes)
{
    tally->count++;
    tally->bytes += bytes;
}

static bool op_is_done(const struct shunt_exec_journal *journal, const struct shunt_plan_op *op, uint32_t round)
{
    return round < (op->kind == SHUNT_OP_UNPACK ? journal->done : journal->filled);
}

/* Marks new-side buffers into which something is still to be written. */
static void mark_open(const struct shunt_plan_part *part, const struct shunt_exec_journal *journal, bool *open)
{
    for (uint32_t k = 0; k < journal->round_count; k++) {
        for (uint32_t i = part->rounds[k].op_begin; i < part->rounds[k + 1].op_begin; i++) {
            const struct shunt_plan_op *op = &part->ops[i];
            if (op->kind != SHUNT_OP_PACK && !op_is_done(journal, op, k))
                open[op->dst_buffer] = true;
        }
    }
}

static void tally_buffer(struct account *account, const struct shunt_plan_buffer *buffer, bool open)
{
    const struct shunt_exec_journal *journal = &account->journal;
    bool freed = buffer->free_round != SHUNT_PLAN_NONE && buffer->free_round < journal->freeing;
    bool allocated = buffer->alloc_round == SHUNT_PLAN_NONE || buffer->alloc_round < journal->begun;
    if (shunt_plan_on_old_side(buffer))
        add(freed ? &account->given_back : &account->whole, buffer->bytes);
    if (shunt_plan_on_new_side(buffer))
        add(!allocated ? &account->absent : open ? &account->partial : &account->complete, buffer->bytes);
}

static enum shunt_status take_account(const struct chain *chain, struct account *account, struct shunt_err *err)
{
    struct shunt_plan_part part;
    const struct shunt_plan *plan = chain->plans[account->plan];
    enum shunt_status st = shunt_plan_get_part(plan, account->journal.device, &part, err);
    if (st != SHUNT_OK)
        return st;
    bool *open = calloc((size_t)part.header->buffer_count + 1, sizeof(*open));
    if (open == NULL)
        return shunt_fail(err, SHUNT_ERR_NOMEM, "out of memory");
    mark_open(&part, &account->journal, open);
    for (uint32_t i = 0; i < part.header->buffer_count; i++)
        tally_buffer(account, &part.buffers[i], open[i]);
    free(open);
    shunt_plan_drop_part(plan, account->journal.device);
    return SHUNT_OK;
}

static enum shunt_status find_plan(const struct chain *chain, uint32_t device, const char *path,
                                   struct account *account, struct shunt_err *err)
{
    for (account->plan = 0; account->plan < chain->count; account->plan++) {
        const struct shunt_plan_header *header = shunt_plan_get_header(chain->plans[account->plan]);
        if (memcmp(header->plan_id, account->journal.plan_id, sizeof(header->plan_id)) == 0 &&
            header->round_count == account->journal.round_count &&
            header->device_count == account->journal.device_count && device == account->journal.device)
            return SHUNT_OK;
    }
    return shunt_fail(err, SHUNT_ERR_MISMATCH, "%s: the journal of another plan or device", path);
}

static enum shunt_status read_account(const struct options *options, const struct chain *chain, uint32_t device,
                                      struct account *account, struct shunt_err *err)
{
    char path[4096];
    *account = (struct account){.plan = 0};
    enum shunt_status st = journals_path(options->read_journal, device, path, sizeof(path), err);
    if (st == SHUNT_OK)
        st = shunt_exec_read_journal(path, &account->journal, err);
    if (st == SHUNT_OK)
        st = find_plan(chain, device, path, account, err);
    return st == SHUNT_OK ? take_account(chain, account, err) : st;
}

/* ---- printing ------------------------------------------------------------------------- */

static const char *const phase_names[] = {
    [SHUNT_EXEC_PHASE_READY] = "ready",
    [SHUNT_EXEC_PHASE_MOVING] = "moving",
    [SHUNT_EXEC_PHASE_DONE] = "done",
    [SHUNT_EXEC_PHASE_FAILED] = "failed",
};

static void print_tally(const char *before, const struct tally *tally, const char *after, FILE *file)
{
    fprintf(file, "%s%" PRIu64 " buffers (%" PRIu64 " bytes) %s", before, tally->count, tally->bytes, after);
}

static void print_text(const struct chain *chain, const struct account *account, FILE *file)
{
    const struct shunt_exec_journal *journal = &account->journal;
    fprintf(file, "device %u: %s: %s", journal->device, chain->paths[account->plan], phase_names[journal->phase]);
    if (journal->phase == SHUNT_EXEC_PHASE_FAILED)
        fprintf(file, " (%s)", shunt_status_name(journal->status));
    fprintf(file, ", %u of %u rounds finished, %u begun\n", journal->done, journal->round_count, journal->begun);
    print_tally("  old side: ", &account->whole, "whole", file);
    print_tally(", ", &account->given_back, "given back\n", file);
    print_tally("  new side: ", &account->complete, "complete", file);
    print_tally(", ", &account->partial, "in part", file);
    print_tally(", ", &account->absent, "not begun\n", file);
}

static void json_tally(struct jsonw *json, const char *key, const struct tally *tally)
{
    jsonw_open(json, key, '{');
    jsonw_u64(json, "buffers", tally->count);
    jsonw_u64(json, "bytes", tally->bytes);
    jsonw_close(json, '}');
}

static void print_json(const struct chain *chain, const struct account *account, struct jsonw *json)
{
    const struct shunt_exec_journal *journal = &account->journal;
    jsonw_open(json, NULL, '{');
    jsonw_u64(json, "device", journal->device);
    jsonw_string(json, "plan", chain->paths[account->plan]);
    jsonw_hex(json, "plan_id", journal->plan_id, sizeof(journal->plan_id));
    jsonw_string(json, "phase", phase_names[journal->phase]);
    jsonw_string(json, "status", shunt_status_name(journal->status));
    jsonw_u64(json, "rounds", journal->round_count);
    jsonw_u64(json, "begun", journal->begun);
    jsonw_u64(json, "filled", journal->filled);
    jsonw_u64(json, "done", journal->done);
    jsonw_u64(json, "freeing", journal->freeing);
    jsonw_u64(json, "freed", journal->freed);
    json_tally(json, "old_whole", &account->whole);
    json_tally(json, "old_given_back", &account->given_back);
    json_tally(json, "new_complete", &account->complete);
    json_tally(json, "new_partial", &account->partial);
    json_tally(json, "new_absent", &account->absent);
    jsonw_close(json, '}');
}

/* Of all devices: is the old side, or the new side, there as a whole? */
struct overall {
    bool old_whole, new_complete;
    uint32_t read;
};

static void add_overall(struct overall *overall, const struct account *account)
{
    overall->read++;
    overall->old_whole = overall->old_whole && account->given_back.count == 0;
    overall->new_complete = overall->new_complete && account->partial.count + account->absent.count == 0;
}

static void print_overall(const struct overall *overall, uint32_t devices, FILE *file)
{
    bool all = overall->read == devices;
    fprintf(file, "journals of %u of %u devices: the old side is %s, the new side is %s\n", overall->read, devices,
            all && overall->old_whole ? "whole" : "not whole",
            all && overall->new_complete ? "complete" : "not complete");
}

enum shunt_status journals_print(const struct options *options, const struct chain *chain, FILE *file,
                                 struct shunt_err *err)
{
    struct overall overall = {.old_whole = true, .new_complete = true};
    struct jsonw json = {.file = file};
    enum shunt_status worst = SHUNT_OK;
    if (options->json) {
        jsonw_open(&json, NULL, '{');
        jsonw_open(&json, "journals", '[');
    }
    for (uint32_t i = 0; i < chain->device_count; i++) {
        struct account account;
        enum shunt_status st = read_account(options, chain, i, &account, worst == SHUNT_OK ? err : NULL);
        if (st == SHUNT_OK) {
            add_overall(&overall, &account);
            if (options->json)
                print_json(chain, &account, &json);
            else
                print_text(chain, &account, file);
        }
        worst = worst == SHUNT_OK ? st : worst;
    }
    if (options->json) {
        bool all = overall.read == chain->device_count;
        jsonw_close(&json, ']');
        jsonw_bool(&json, "old_whole", all && overall.old_whole);
        jsonw_bool(&json, "new_complete", all && overall.new_complete);
        jsonw_close(&json, '}');
        putc('\n', file);
    } else {
        print_overall(&overall, chain->device_count, file);
    }
    return worst;
}
