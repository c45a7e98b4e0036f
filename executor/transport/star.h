/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHUNT_EXECUTOR_STAR_H
#define SHUNT_EXECUTOR_STAR_H

/**
 * Control channel of a transport that has none of its own: TCP connections to device 0. Records of votes go in and
 * out, a lost process is noticed because its connection ends, and who gives up says why before it goes.
 */

#include "transport/members.h"

struct star;

/** After members_meet(): connect, and know that all are connected. `hellos_crc` must be everybody's. */
enum shunt_status star_open(struct members *members, uint32_t hellos_crc, const struct deadline *deadline,
                            struct star **star_out, struct shunt_err *err);
void star_close(struct star *star); /* accepts NULL */

/** As in struct transport_ops. */
enum shunt_status star_gather(struct star *star, const void *mine, size_t bytes, void *all, const char *what,
                              const struct deadline *deadline, struct shunt_err *err);
enum shunt_status star_share(struct star *star, void *bytes, size_t size, const char *what,
                             const struct deadline *deadline, struct shunt_err *err);

/** Take in what has come. For struct members: both accept NULL. */
bool star_progress(struct star *star);
bool star_take_last_words(struct star *star, struct meet_lost *lost_out);

/** Lost connections, last words, the meeting's cause, signals. */
enum shunt_status star_poll(struct star *star, struct shunt_err *err);
void star_last_words(struct star *star, enum shunt_status status, const char *text);

#endif
