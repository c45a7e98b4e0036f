/* SPDX-License-Identifier: Apache-2.0 */
#include "transport/star.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "transport/star_internal.h"

#define SHARE_GRACE_NS NS_PER_SECOND /* device 0 knows more: let it time out first */

/* ---- votes -------------------------------------------------------------------------- */

/* Records of one kind from devices [first, end). */
struct step {
    enum record_kind kind;
    const char *what;
    size_t size;
    char *into;
    uint32_t first, end;
};

static enum shunt_status find_missing(struct star *star, const struct step *step, struct waited *waited, bool *alive,
                                      struct shunt_err *err)
{
    *waited = (struct waited){0};
    *alive = true;
    for (uint32_t i = step->first; i < step->end; i++) {
        bool there = star->links[i].first != NULL;
        if (star->links[i].lost && (!there || step->kind == RECORD_GATHER)) /* who has voted waits for the verdict; */
            return star_explain_lost(star, i, err);
        if (there) /* with the verdict device 0 may leave */
            continue;
        waited_add(waited, i);
        *alive = *alive && members_seen_alive(star->members, i);
    }
    return SHUNT_OK;
}

/* Who waits for device 0 gives it the time that it gives others itself, from when it has come, and a little more. */
static int64_t last_moment(const struct star *star, const struct step *step, const struct deadline *deadline)
{
    int64_t grace = step->kind == RECORD_SHARE ? SHARE_GRACE_NS : 0, at = deadline->at_ns + grace;
    int64_t own = star->here_ns + (int64_t)(deadline->seconds * 1e9) + grace;
    return step->kind == RECORD_SHARE && own > at ? own : at;
}

/* Finding out who is to be named takes a while, in which what is missing may come after all. */
static enum shunt_status time_out(struct star *star, const struct step *step, struct waited *waited, double seconds,
                                  struct shunt_err *err)
{
    struct shunt_err cause = {{0}};
    struct waited missing;
    bool alive;
    enum shunt_status st = members_time_out(star->members, waited, seconds, &cause);
    star_progress(star);
    if (st == SHUNT_ERR_TIMEOUT && find_missing(star, step, &missing, &alive, NULL) == SHUNT_OK && missing.all == 0)
        return SHUNT_OK;
    return shunt_fail(err, st, "%s", cause.text);
}

static enum shunt_status wait_for_records(struct star *star, const struct step *step, const struct deadline *deadline,
                                          struct shunt_err *err)
{
    struct waited waited;
    bool alive;
    snprintf(star->members->where, sizeof(star->members->where), "at the %s", step->what);
    for (uint32_t turns = 0;; turns++) {
        star_progress(star);
        enum shunt_status st = find_missing(star, step, &waited, &alive, err);
        if (st == SHUNT_OK && waited.all == 0) /* no verdict of device 0 when somebody has given up meanwhile */
            return step->kind == RECORD_GATHER ? members_look(star->members, true, err) : SHUNT_OK;
        if (st == SHUNT_OK)
            st = members_look(star->members, false, err);
        if (st != SHUNT_OK)
            return st;
        if (deadline_passed(deadline) && clock_now_ns() > last_moment(star, step, deadline) && !alive)
            return time_out(star, step, &waited, deadline->seconds, err);
        if (turns > 100)
            sleep_ns(NS_PER_MS / 10);
    }
}

static enum shunt_status take_record(struct star *star, const struct step *step, uint32_t device, struct shunt_err *err)
{
    struct link *link = &star->links[device];
    struct record *record = link->first;
    char who[160];
    bool good = record->head.kind == step->kind && record->head.vote == star->votes && record->head.bytes == step->size;
    if (good)
        memcpy(step->into + (device - step->first) * step->size, record->bytes, step->size);
    link->first = record->next;
    if (link->first == NULL)
        link->last = &link->first;
    free(record);
    if (good)
        return SHUNT_OK;
    members_print(star->members, device, who, sizeof(who));
    return shunt_fail(err, SHUNT_ERR_MISMATCH, "%s: %s sent a record of another size", step->what, who);
}

static enum shunt_status receive_step(struct star *star, const struct step *step, const struct deadline *deadline,
                                      struct shunt_err *err)
{
    enum shunt_status st = wait_for_records(star, step, deadline, err);
    for (uint32_t i = step->first; i < step->end && st == SHUNT_OK; i++)
        st = take_record(star, step, i, err);
    return st;
}

enum shunt_status star_gather(struct star *star, const void *mine, size_t bytes, void *all, const char *what,
                              const struct deadline *deadline, struct shunt_err *err)
{
    star->votes++;
    snprintf(star->members->where, sizeof(star->members->where), "at the %s", what);
    if (!star->root)
        return star_send_to(star, 0, RECORD_GATHER, mine, bytes, deadline, err);
    struct step step = {RECORD_GATHER, what, bytes, (char *)all + bytes, 1, star->members->size};
    memcpy(all, mine, bytes);
    for (uint32_t i = 1; i < star->members->size; i++) {
        if (star->links[i].fd >= 0)
            star_send_record(star->links[i].fd, RECORD_HERE, star->votes, NULL, 0, deadline);
    }
    return receive_step(star, &step, deadline, err);
}

enum shunt_status star_share(struct star *star, void *bytes, size_t size, const char *what,
                             const struct deadline *deadline, struct shunt_err *err)
{
    enum shunt_status st = SHUNT_OK;
    star->votes++;
    snprintf(star->members->where, sizeof(star->members->where), "at the %s", what);
    if (!star->root) {
        struct step step = {RECORD_SHARE, what, size, bytes, 0, 1};
        return receive_step(star, &step, deadline, err);
    }
    for (uint32_t i = 1; i < star->members->size && st == SHUNT_OK; i++)
        st = star_send_to(star, i, RECORD_SHARE, bytes, size, deadline, err);
    return st;
}

/* ---- begin and end ---------------------------------------------------------------------- */

void star_close(struct star *star)
{
    if (star == NULL)
        return;
    for (uint32_t i = 0; i < star->members->size && star->links != NULL; i++) {
        struct link *link = &star->links[i];
        if (link->fd >= 0)
            close(link->fd);
        free(link->coming);
        while (link->first != NULL) {
            struct record *record = link->first;
            link->first = record->next;
            free(record);
        }
    }
    free(star->links);
    free(star->polled);
    free(star);
}

enum shunt_status star_open(struct members *members, uint32_t hellos_crc, const struct deadline *deadline,
                            struct star **star_out, struct shunt_err *err)
{
    struct star *star = calloc(1, sizeof(*star));
    if (star != NULL) {
        *star = (struct star){.members = members, .root = members->self == 0, .listener = -1, .hellos_crc = hellos_crc};
        star->links = calloc(members->size, sizeof(*star->links));
        star->polled = calloc(members->size, sizeof(*star->polled));
    }
    if (star == NULL || star->links == NULL || star->polled == NULL) {
        star_close(star);
        return shunt_fail(err, SHUNT_ERR_NOMEM, "out of memory for %u connections", members->size);
    }
    for (uint32_t i = 0; i < members->size; i++) {
        star->links[i].fd = -1;
        star->links[i].last = &star->links[i].first;
    }
    enum shunt_status st = star->root ? star_accept(star, deadline, err) : star_call(star, deadline, err);
    uint64_t nothing = 0;
    if (st == SHUNT_OK) /* that all are connected */
        st = star_share(star, &nothing, sizeof(nothing), "meeting", deadline, err);
    if (st != SHUNT_OK)
        star_close(star);
    else
        *star_out = star;
    return st;
}
