/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHUNT_EXECUTOR_MEMBERS_H
#define SHUNT_EXECUTOR_MEMBERS_H

/**
 * The processes of a run, as one of them knows the others: who and where they are, and, when something does not come,
 * who is to be named.
 */

#include "launch/meet.h"

#define MEMBER_HOST_BYTES 64u

/** First record of the meeting: who and where. */
struct member_hello {
    uint32_t magic, bytes;
    char version[16];
    char host[MEMBER_HOST_BYTES];     /* name, for messages */
    char host_key[MEMBER_HOST_BYTES]; /* processes with equal keys share memory */
    uint64_t nonce;
    uint64_t probe; /* address of `nonce` in that process: readable by cma? */
    int64_t pid;
};

struct member {
    bool here; /* on this machine */
    int64_t pid;
    char host[MEMBER_HOST_BYTES];
};

struct members {
    struct meet *meet;
    uint32_t size, self;
    struct member_hello hello;
    struct member *list; /* size */
    bool one_machine;
    uint32_t reached;     /* twice the round that was last waited for, and one more at its checksums */
    char where[80];       /* "in round 17", "at the report": for messages */
    uint32_t lost_device; /* named by the error that was last returned */

    double patience_seconds; /* for peers to say that they wait as well */
    /* how the transport hears of the others */
    void *ctx;
    bool (*progress)(void *ctx);                                    /* true if something moved */
    bool (*take_last_words)(void *ctx, struct meet_lost *lost_out); /* of somebody, if any have come */
};

/** Exchange hellos. @param hellos  room for size of them, to be looked at by the caller */
enum shunt_status members_meet(struct members *members, struct member_hello *hellos, const struct deadline *deadline,
                               struct shunt_err *err);

/** "device 3 (pid 1234, host a)" */
void members_print(const struct members *members, uint32_t device, char *text, size_t size);
/** After a timeout: the devices that have shown no life, as " ... "; empty if that is not known. */
void members_print_silent(struct members *members, double seconds, char *text, size_t size);

/** Last words, the meeting's cause and signals. SHUNT_OK if there is nothing of it. */
enum shunt_status members_look(struct members *members, bool now, struct shunt_err *err);
/** If somebody knows why the run ends, theirs is the better word: wait for it a moment. SHUNT_OK if nobody does. */
enum shunt_status members_find_cause(struct members *members, struct shunt_err *err);

/** Peers that a deadline was waited for in vain; of many the first ones. */
#define WAITED_MAX 64u
struct waited {
    uint32_t devices[WAITED_MAX];
    uint32_t count; /* to be named */
    uint32_t all;   /* records or messages that were missing */
};
void waited_add(struct waited *waited, uint32_t device);
bool waited_names(const struct waited *waited, uint32_t device);
/** After a deadline: say so, and find who is to be named. Not SHUNT_OK if somebody else knows the cause. */
enum shunt_status members_hear_waiters(struct members *members, struct waited *waited, struct shunt_err *err);
/** The error of a round after its deadline. */
enum shunt_status members_late(struct members *members, struct waited *waited, double seconds, struct shunt_err *err);
/** The error of a vote after its deadline, which also says how many have not come. */
enum shunt_status members_time_out(struct members *members, struct waited *waited, double seconds,
                                   struct shunt_err *err);
/**
 * Where life can be seen, a vote waits for those who still fill, load, check or store: they look up only as they get
 * on, and whatever they wait for themselves has a deadline.
 */
bool members_seen_alive(const struct members *members, uint32_t device);

/** From now on this round, or pseudo-round, is waited for. */
void members_enter(struct members *members, uint32_t round);

#endif
