/* SPDX-License-Identifier: Apache-2.0 */
#include "replay/agree.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "replay/direct.h"

struct agree_record {
    char version[16];
    char library[32]; /* of the transport, with its version */
    uint8_t plan_id[SHUNT_PLAN_DIGEST_BYTES];
    uint32_t format_major, format_minor;
    uint32_t devices_crc; /* over the device table, which holds the checksum of every part */
    uint32_t device_count, round_count, sequence;
    uint32_t plan_table_crc, bound_table_crc;
    uint32_t checksum, dry;
};

static void fill_record(const struct engine *engine, const struct transport *transport, struct agree_record *record)
{
    const struct shunt_plan_header *header = engine->header;
    *record = (struct agree_record){.version = SHUNT_EXEC_VERSION,
                                    .format_major = header->version_major,
                                    .format_minor = header->version_minor,
                                    .device_count = header->device_count,
                                    .round_count = header->round_count,
                                    .sequence = transport->sequence,
                                    .plan_table_crc = engine_table_crc(engine, false),
                                    .bound_table_crc = engine_table_crc(engine, true),
                                    .checksum = engine->checksum != NULL,
                                    .dry = engine->dry};
    memcpy(record->plan_id, header->plan_id, sizeof(record->plan_id));
    snprintf(record->library, sizeof(record->library), "%s", transport->library);
    for (uint32_t i = 0; i < header->device_count; i++) {
        const struct shunt_plan_device *device = shunt_plan_get_device(engine->plan, i);
        record->devices_crc = shunt_crc32c(record->devices_crc, device, sizeof(*device));
    }
}

/* What a device has that most have not; NULL if it is one of them. */
static const char *difference(const struct agree_record *first, const struct agree_record *other)
{
    if (memcmp(first->version, other->version, sizeof(first->version)) != 0)
        return "another executor version";
    if (memcmp(first->library, other->library, sizeof(first->library)) != 0)
        return "another version of the transport's library";
    if (first->format_major != other->format_major || first->format_minor != other->format_minor)
        return "another plan format version";
    if (memcmp(first->plan_id, other->plan_id, sizeof(first->plan_id)) != 0)
        return "another plan";
    if (first->sequence != other->sequence)
        return "another place in its chain of plans";
    if (first->devices_crc != other->devices_crc || first->device_count != other->device_count ||
        first->round_count != other->round_count)
        return "a plan file of the same id and other contents";
    if (first->checksum != other->checksum)
        return other->checksum != 0 ? "checksums on" : "checksums off";
    if (first->dry != other->dry)
        return other->dry != 0 ? "a dry run" : "a run that is not dry";
    if (other->plan_table_crc != other->bound_table_crc)
        return "a buffer table that differs from the plan's";
    return NULL;
}

static bool same_record(const struct agree_record *a, const struct agree_record *b)
{
    return memcmp(a->version, b->version, sizeof(a->version)) == 0 &&
           memcmp(a->library, b->library, sizeof(a->library)) == 0 &&
           memcmp(a->plan_id, b->plan_id, sizeof(a->plan_id)) == 0 && a->format_major == b->format_major &&
           a->format_minor == b->format_minor && a->devices_crc == b->devices_crc && a->sequence == b->sequence &&
           a->checksum == b->checksum && a->dry == b->dry;
}

/* The first of the devices that more than half agree with (by a vote in which unlike pairs cancel); else device 0. */
static uint32_t find_reference(const struct agree_record *records, uint32_t size)
{
    uint32_t best = 0, lead = 0, count = 0;
    for (uint32_t i = 0; i < size; i++) {
        if (lead == 0)
            best = i;
        lead = same_record(&records[best], &records[i]) ? lead + 1 : lead - 1;
    }
    for (uint32_t i = 0; i < size; i++)
        count += same_record(&records[best], &records[i]);
    if (2 * count <= size)
        return 0;
    for (uint32_t i = 0; i < best; i++) {
        if (same_record(&records[best], &records[i]))
            return i;
    }
    return best;
}

static enum shunt_status judge_agreement(void *ctx, const void *all, uint32_t size, struct shunt_err *err)
{
    (void)ctx;
    const struct agree_record *records = all;
    char who[700];
    size_t used = 0;
    uint32_t bad = 0, reference = find_reference(records, size);
    for (uint32_t i = 0; i < size; i++) {
        const char *what = difference(&records[reference], &records[i]);
        if (what == NULL)
            continue;
        bad++;
        if (used < sizeof(who) - 80)
            used +=
                (size_t)snprintf(who + used, sizeof(who) - used, "%sdevice %u has %s", used == 0 ? "" : ", ", i, what);
    }
    if (bad == 0)
        return SHUNT_OK;
    return shunt_fail(err, SHUNT_ERR_MISMATCH, "%u of %u devices do not agree with device %u, nothing was moved: %s",
                      bad, size, reference, who);
}

/* What two peers tell each other. */
struct pair_record {
    uint64_t bytes_out, bytes_in;
    uint32_t count_out, count_in;
    uint32_t crc_out, crc_in; /* over (round, bytes) of each message */
    uint32_t unused[8];
};
_Static_assert(sizeof(struct pair_record) % SHUNT_PLAN_MESSAGE_ALIGN == 0, "a message size");

struct pairs {
    struct pair_record *out, *in; /* one per peer */
    struct transport_message *messages;
};

static void add_message(struct pair_record *pair, uint32_t round, const struct transport_message *m)
{
    uint64_t fields[2] = {round, m->bytes};
    bool out = m->direction == SHUNT_SEND;
    uint32_t *crc = out ? &pair->crc_out : &pair->crc_in;
    *crc = shunt_crc32c(*crc, fields, sizeof(fields));
    *(out ? &pair->bytes_out : &pair->bytes_in) += m->bytes;
    *(out ? &pair->count_out : &pair->count_in) += 1;
}

static uint32_t peer_index(const struct engine *engine, uint32_t peer)
{
    uint32_t low = 0, high = engine->peer_count - 1;
    while (low < high) {
        uint32_t mid = low + (high - low) / 2;
        if (engine->peers[mid] < peer)
            low = mid + 1;
        else
            high = mid;
    }
    return low;
}

static bool pairs_init(struct pairs *pairs, struct engine *engine)
{
    uint32_t n = engine->peer_count;
    pairs->out = calloc((size_t)n + 1, sizeof(*pairs->out));
    pairs->in = calloc((size_t)n + 1, sizeof(*pairs->in));
    pairs->messages = calloc(2 * (size_t)n + 1, sizeof(*pairs->messages));
    if (pairs->out == NULL || pairs->in == NULL || pairs->messages == NULL)
        return false;
    for (uint32_t k = 0; k < engine->header->round_count; k++) {
        uint32_t count;
        const struct transport_message *messages = engine_messages(engine, k, &count);
        for (uint32_t i = 0; i < count; i++)
            add_message(&pairs->out[peer_index(engine, messages[i].peer)], k, &messages[i]);
    }
    for (uint32_t i = 0; i < n; i++) {
        pairs->messages[i] = (struct transport_message){.peer = engine->peers[i],
                                                        .direction = SHUNT_SEND,
                                                        .data = &pairs->out[i],
                                                        .bytes = sizeof(struct pair_record)};
        pairs->messages[n + i] = (struct transport_message){.peer = engine->peers[i],
                                                            .direction = SHUNT_RECV,
                                                            .data = &pairs->in[i],
                                                            .bytes = sizeof(struct pair_record)};
    }
    return true;
}

static void pairs_finish(struct pairs *pairs)
{
    free(pairs->out);
    free(pairs->in);
    free(pairs->messages);
}

static enum shunt_status compare_pairs(const struct engine *engine, const struct pairs *pairs, struct shunt_err *err)
{
    for (uint32_t i = 0; i < engine->peer_count; i++) {
        const struct pair_record *mine = &pairs->out[i], *theirs = &pairs->in[i];
        bool sends = mine->crc_out == theirs->crc_in && mine->count_out == theirs->count_in;
        bool receives = mine->crc_in == theirs->crc_out && mine->count_in == theirs->count_out;
        if (sends && receives)
            continue;
        uint32_t from = sends ? engine->peers[i] : engine->device, to = sends ? engine->device : engine->peers[i];
        return shunt_fail(err, SHUNT_ERR_MISMATCH,
                          "device %u would send %u messages of %" PRIu64 " bytes in all to device %u, which expects "
                          "%u of %" PRIu64 "; nothing was moved",
                          from, sends ? theirs->count_out : mine->count_out,
                          sends ? theirs->bytes_out : mine->bytes_out, to, sends ? mine->count_in : theirs->count_in,
                          sends ? mine->bytes_in : theirs->bytes_in);
    }
    return SHUNT_OK;
}

static enum shunt_status exchange_pairs(struct shunt_world *world, struct engine *const *engines, uint32_t count,
                                        struct pairs *pairs, double timeout_seconds, struct shunt_err *err)
{
    struct transport *transport = world->transport;
    for (uint32_t i = 0; i < count; i++) {
        enum shunt_status st = transport->ops->post(transport, engines[i]->device, TRANSPORT_PAIR_ROUND,
                                                    pairs[i].messages, 2 * engines[i]->peer_count, err);
        if (st != SHUNT_OK)
            return st;
    }
    struct deadline deadline = deadline_after(timeout_seconds);
    enum shunt_status st = transport->ops->wait(transport, TRANSPORT_PAIR_ROUND, &deadline, err);
    for (uint32_t i = 0; i < count && st == SHUNT_OK; i++)
        st = compare_pairs(engines[i], &pairs[i], err);
    return st;
}

static enum shunt_status agree_pairs(struct shunt_world *world, struct engine *const *engines, uint32_t count,
                                     double timeout_seconds, struct shunt_err *err)
{
    struct shunt_err cause = {{0}};
    struct pairs *pairs = calloc(count, sizeof(*pairs));
    bool enough = pairs != NULL;
    for (uint32_t i = 0; i < count && enough; i++)
        enough = pairs_init(&pairs[i], engines[i]);
    enum shunt_status st = enough ? exchange_pairs(world, engines, count, pairs, timeout_seconds, &cause)
                                  : shunt_fail(&cause, SHUNT_ERR_NOMEM, "out of memory for the table of peers");
    if (enough && st != SHUNT_OK) /* requests of the transport may still point at the records */
        shunt_world_abandon(world, st, cause.text);
    for (uint32_t i = 0; i < count && pairs != NULL; i++)
        pairs_finish(&pairs[i]);
    free(pairs);
    return st == SHUNT_OK ? st : shunt_fail(err, st, "%s", cause.text);
}

static enum shunt_status prepare_peers(struct shunt_world *world, struct engine *const *engines, uint32_t count,
                                       struct shunt_err *err)
{
    for (uint32_t i = 0; i < count; i++) {
        struct transport_needs needs = {.peers = engines[i]->peers,
                                        .peer_count = engines[i]->peer_count,
                                        .max_messages = engines[i]->max_messages,
                                        .on = engines[i]->on};
        if (engines[i]->segments != NULL)
            needs.max_messages = engines[i]->segments->max_messages;
        if (needs.max_messages < engines[i]->max_messages)
            needs.max_messages = engines[i]->max_messages; /* of checksums */
        if (needs.max_messages < 2 * needs.peer_count)
            needs.max_messages = 2 * needs.peer_count; /* the pair round */
        enum shunt_status st = world->transport->ops->prepare(world->transport, engines[i]->device, &needs, err);
        if (st != SHUNT_OK)
            return st;
    }
    return SHUNT_OK;
}

enum shunt_status agree_all(struct shunt_world *world, struct engine *const *engines, uint32_t count,
                            double timeout_seconds, struct shunt_err *err)
{
    struct agree_record *records = calloc(count, sizeof(*records));
    if (records == NULL)
        return shunt_fail(err, SHUNT_ERR_NOMEM, "out of memory for %u records", count);
    for (uint32_t i = 0; i < count; i++)
        fill_record(engines[i], world->transport, &records[i]);
    enum shunt_status st = world_vote(world, records, sizeof(*records), "agreement on the plan", judge_agreement, NULL,
                                      timeout_seconds, err);
    free(records);
    if (st == SHUNT_OK)
        st = prepare_peers(world, engines, count, err);
    if (st == SHUNT_OK)
        st = agree_pairs(world, engines, count, timeout_seconds, err);
    return st;
}
