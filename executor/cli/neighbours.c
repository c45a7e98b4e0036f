/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/neighbours.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A buffer by the name that binds it. Tensors have other numbers in another plan. */
struct entry {
    const char *tensor;
    unsigned state;
    const struct shunt_plan_buffer *buffer;
};

struct pair {
    const struct chain *chain;
    uint32_t next, device; /* plans next - 1 and next */
    struct entry *left;    /* what the first one leaves, sorted */
    uint32_t left_count;
};

static struct entry entry_of(const struct shunt_plan *plan, const struct shunt_plan_buffer *buffer)
{
    return (struct entry){shunt_plan_string(plan, shunt_plan_get_tensor(plan, buffer->tensor)->name), buffer->state,
                          buffer};
}

static int compare_entries(const void *a, const void *b)
{
    const struct entry *x = a, *y = b;
    if (x->state != y->state)
        return x->state < y->state ? -1 : 1;
    return strcmp(x->tensor, y->tensor);
}

/* " (it is reseeded there)", if the plan's statement has a word on that entry. */
static void write_action(const struct shunt_plan *plan, const struct entry *entry, char *text, size_t size)
{
    const char *at = shunt_plan_string(plan, shunt_plan_get_summary(plan)->state_notes);
    struct shunt_plan_note note;
    text[0] = '\0';
    while (shunt_plan_next_note(&at, &note)) {
        if (shunt_plan_note_is(note.name, note.name_bytes, entry->tensor))
            snprintf(text, size, " (it is %.*s there)", (int)note.action_bytes, note.action);
    }
}

static enum shunt_status report_missing(const struct pair *pair, const struct entry *entry, struct shunt_err *err)
{
    const struct chain *chain = pair->chain;
    char action[64];
    write_action(chain->plans[pair->next - 1], entry, action, sizeof(action));
    return shunt_fail(err, SHUNT_ERR_MISMATCH,
                      "%s and %s are no chain: the second reads %s/%.200s on device %" PRIu32
                      ", which the first does not leave%s; run them one by one, and have the trainer make that entry "
                      "in between",
                      chain->paths[pair->next - 1], chain->paths[pair->next], shunt_state_name(entry->state),
                      entry->tensor, pair->device, action);
}

static enum shunt_status compare(const struct pair *pair, const struct entry *entry, struct shunt_err *err)
{
    const struct entry *found = bsearch(entry, pair->left, pair->left_count, sizeof(*pair->left), compare_entries);
    if (found == NULL)
        return report_missing(pair, entry, err);
    if (found->buffer->dtype == entry->buffer->dtype && found->buffer->bytes == entry->buffer->bytes)
        return SHUNT_OK;
    return shunt_fail(err, SHUNT_ERR_MISMATCH,
                      "%s leaves %s/%.200s on device %" PRIu32 " as %" PRIu64 " bytes of %s, %s reads %" PRIu64
                      " bytes of %s",
                      pair->chain->paths[pair->next - 1], shunt_state_name(entry->state), entry->tensor, pair->device,
                      found->buffer->bytes, shunt_dtype_name(found->buffer->dtype), pair->chain->paths[pair->next],
                      entry->buffer->bytes, shunt_dtype_name(entry->buffer->dtype));
}

static void list_left(struct pair *pair, const struct shunt_plan_part *part)
{
    const struct shunt_plan *plan = pair->chain->plans[pair->next - 1];
    for (uint32_t i = 0; i < part->header->buffer_count; i++) {
        if (shunt_plan_on_new_side(&part->buffers[i]))
            pair->left[pair->left_count++] = entry_of(plan, &part->buffers[i]);
    }
    qsort(pair->left, pair->left_count, sizeof(*pair->left), compare_entries);
}

static enum shunt_status check_parts(struct pair *pair, const struct shunt_plan_part *first,
                                     const struct shunt_plan_part *second, struct shunt_err *err)
{
    enum shunt_status st = SHUNT_OK;
    pair->left = calloc((size_t)first->header->buffer_count + 1, sizeof(*pair->left));
    if (pair->left == NULL)
        return shunt_fail(err, SHUNT_ERR_NOMEM, "out of memory");
    list_left(pair, first);
    for (uint32_t i = 0; i < second->header->buffer_count && st == SHUNT_OK; i++) {
        const struct entry entry = entry_of(pair->chain->plans[pair->next], &second->buffers[i]);
        if (shunt_plan_on_old_side(entry.buffer))
            st = compare(pair, &entry, err);
    }
    free(pair->left);
    return st;
}

static enum shunt_status check_pair(const struct chain *chain, uint32_t next, uint32_t device, struct shunt_err *err)
{
    struct pair pair = {.chain = chain, .next = next, .device = device};
    const struct shunt_plan *a = chain->plans[next - 1], *b = chain->plans[next];
    struct shunt_plan_part first, second;
    enum shunt_status st = shunt_plan_get_part(a, device, &first, err);
    if (st == SHUNT_OK)
        st = shunt_plan_get_part(b, device, &second, err);
    if (st == SHUNT_OK)
        st = check_parts(&pair, &first, &second, err);
    shunt_plan_drop_part(a, device);
    shunt_plan_drop_part(b, device);
    return st;
}

/* What a device has found. */
struct finding {
    uint32_t status;
    struct shunt_err err;
};

static void look(const struct chain *chain, uint32_t device, struct finding *finding_out)
{
    enum shunt_status st = SHUNT_OK;
    for (uint32_t next = 1; next < chain->count && st == SHUNT_OK; next++)
        st = check_pair(chain, next, device, &finding_out->err);
    finding_out->status = (uint32_t)st;
}

/* At the root. */
static enum shunt_status judge(void *ctx, const void *all, uint32_t size, struct shunt_err *err)
{
    const struct finding *findings = all;
    (void)ctx;
    for (uint32_t i = 0; i < size; i++) {
        const struct finding *finding = &findings[i];
        if (finding->status > SHUNT_ERR_INTERNAL)
            return shunt_fail(err, SHUNT_ERR_TRANSPORT, "a malformed finding came from device %" PRIu32, i);
        if (finding->status != SHUNT_OK)
            return shunt_fail(err, (enum shunt_status)finding->status, "%.*s", (int)sizeof(finding->err.text) - 1,
                              finding->err.text);
    }
    return SHUNT_OK;
}

enum shunt_status neighbours_check(const struct chain *chain, struct shunt_world *world, double timeout_seconds,
                                   struct shunt_err *err)
{
    const struct transport *transport = world->transport;
    if (chain->count < 2)
        return SHUNT_OK;
    struct finding *findings = calloc(transport->local_count, sizeof(*findings));
    if (findings == NULL)
        return shunt_fail(err, SHUNT_ERR_NOMEM, "out of memory");
    for (uint32_t i = 0; i < transport->local_count; i++)
        look(chain, transport->first_local + i, &findings[i]);
    enum shunt_status st =
        world_vote(world, findings, sizeof(*findings), "neighbours in the chain", judge, NULL, timeout_seconds, err);
    free(findings);
    return st;
}
