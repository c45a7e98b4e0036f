/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHUNT_EXECUTOR_STAR_INTERNAL_H
#define SHUNT_EXECUTOR_STAR_INTERNAL_H

/** What the files of the star share: its connections and the records on them. */

#include <poll.h>

#include "transport/star.h"

#define STAR_MAGIC UINT32_C(0x54534853)

#define STAR_ADDRESSES 16u

/** RECORD_HERE: device 0 has come to the vote, and its own deadline begins. */
enum record_kind { RECORD_HELLO = 1, RECORD_GATHER, RECORD_SHARE, RECORD_WORDS, RECORD_HERE };

/** Ahead of each record. */
struct record_head {
    uint32_t magic, kind, vote, bytes;
};

/** What device 0 leaves at the meeting. */
struct star_address {
    uint32_t magic, count;
    uint64_t cookie; /* who does not know it is a stranger */
    uint16_t port;   /* network byte order, like the rest */
    struct {
        uint16_t family;
        uint8_t bytes[16];
        uint32_t scope;
    } list[STAR_ADDRESSES];
};

/** First record of each connection. */
struct star_hello {
    uint64_t cookie;
    uint32_t device, hellos_crc;
};

struct record {
    struct record *next;
    struct record_head head;
    char bytes[];
};

struct link {
    int fd; /* -1: none, or lost */
    bool lost;
    struct record_head head; /* of the record that is coming in */
    uint32_t have;           /* bytes of its head, then of itself */
    bool in_body;
    struct record *coming;
    struct record *first, **last; /* complete, not taken yet */
};

struct star {
    struct members *members;
    struct link *links; /* size; at the root: all but its own, elsewhere: device 0's */
    struct pollfd *polled;
    bool root, has_words;
    struct meet_lost words;
    uint32_t votes;
    int64_t here_ns; /* when device 0 last said that it has come to a vote */
    int64_t next_look_ns;
    int listener;
    uint64_t cookie;
    uint32_t hellos_crc;
};

/** @return false: the other end is gone, or has not taken it in time; errno says which */
bool star_send_record(int fd, enum record_kind kind, uint32_t vote, const void *bytes, size_t size,
                      const struct deadline *deadline);

/** A record of this vote to a device; an error names who is lost or does not take it. */
enum shunt_status star_send_to(struct star *star, uint32_t device, enum record_kind kind, const void *bytes,
                               size_t size, const struct deadline *deadline, struct shunt_err *err);

/** Why a connection has ended, as the meeting knows it, or that it has. */
enum shunt_status star_explain_lost(struct star *star, uint32_t device, struct shunt_err *err);

/** Device 0: leave an address at the meeting, and wait for all others. */
enum shunt_status star_accept(struct star *star, const struct deadline *deadline, struct shunt_err *err);

/** All others: look for that address, and call. */
enum shunt_status star_call(struct star *star, const struct deadline *deadline, struct shunt_err *err);

#endif
