/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHUNT_EXECUTOR_MEET_H
#define SHUNT_EXECUTOR_MEET_H

/**
 * Where the processes of one run meet: each puts small records under its rank, the others get
 * them; and the first cause of failure is kept there for all to see, so that everybody names
 * the device that was really lost and not the messenger.
 *
 * Two rows: a directory that all processes see (store_dir.c), and memory shared by the children
 * of one launcher (board.c). What is read is treated as hostile: sizes are bounded, contents
 * are the reader's to check.
 */

#include <stdbool.h>
#include <stddef.h>

#include "base/clock.h"
#include "shunt/status.h"
#include "shunt/types.h"

/** The last one says that a process has waited for its deadline, and is not itself the one that others wait for. */
enum meet_key { MEET_HELLO = 0, MEET_ADDRESS, MEET_WAITED, MEET_KEY_COUNT };

#define MEET_MAX_BYTES 16384u /* of one record */

/** Why the run ends. */
struct meet_lost {
    uint32_t device; /* at fault */
    uint32_t status; /* enum shunt_status of the first failure */
    char text[1000];
};

/** What a process is doing, for messages. */
enum meet_phase {
    MEET_STARTING = 0,
    MEET_MEETING,
    MEET_FILLING,
    MEET_LOADING,
    MEET_MOVING,
    MEET_CHECKING,
    MEET_STORING,
    MEET_PHASE_COUNT
};
const char *meet_phase_name(unsigned phase);

struct meet;

struct meet_ops {
    const char *name;
    /** Once per key and process. */
    enum shunt_status (*put)(struct meet *meet, enum meet_key key, const void *bytes, size_t size,
                             struct shunt_err *err);
    /** size_out is 0 while there is no record. @return SHUNT_ERR_IO, SHUNT_ERR_MISMATCH (oversized, malformed) */
    enum shunt_status (*try_get)(struct meet *meet, enum meet_key key, uint32_t rank, void *bytes, size_t capacity,
                                 size_t *size_out, struct shunt_err *err);
    /** The first report of a run wins; later ones are dropped. */
    void (*report_lost)(struct meet *meet, const struct meet_lost *lost);
    bool (*get_lost)(struct meet *meet, struct meet_lost *lost_out);
    /** Seconds since that process last showed life; negative if this row cannot tell. */
    double (*silent_seconds)(struct meet *meet, uint32_t rank);
    /** Say where this process is; cheap. That it is alive is said by every get_lost(). */
    void (*beat)(struct meet *meet, enum meet_phase phase, uint32_t round);
    void (*close)(struct meet *meet); /* removes this process's records where they would stay behind */
};

/** Head of each row's struct. */
struct meet {
    const struct meet_ops *ops;
    uint32_t rank, size;
    int64_t next_look_ns; /* for meet_poll */
    bool seen_lost;
    struct meet_lost lost;
};

/** Poll until the record of `rank` is there. @return also SHUNT_ERR_TIMEOUT, SHUNT_ERR_PEER, SHUNT_ERR_CANCELLED */
enum shunt_status meet_get(struct meet *meet, enum meet_key key, uint32_t rank, void *bytes, size_t capacity,
                           size_t *size_out, const struct deadline *deadline, struct shunt_err *err);

/**
 * SHUNT_ERR_PEER with the recorded cause when the run has failed elsewhere, SHUNT_ERR_CANCELLED
 * after a signal. Looks at the store at most every MEET_LOOK_MS, unless `now`. Accepts NULL.
 */
enum shunt_status meet_poll(struct meet *meet, bool now, struct shunt_err *err);
#define MEET_LOOK_MS 50

/** Record a cause under the first-wins rule. Accepts NULL. */
void meet_report(struct meet *meet, uint32_t device, enum shunt_status status, const char *text);

/**
 * The same for this process's own failure: a lost peer as it is named, else "device RANK gave up: ...".
 * device is the one at fault.
 */
void meet_report_failure(struct meet *meet, uint32_t rank, uint32_t device, enum shunt_status status, const char *text);

void meet_beat(struct meet *meet, enum meet_phase phase, uint32_t round); /* accepts NULL */
double meet_silent_seconds(struct meet *meet, uint32_t rank);             /* accepts NULL */
void meet_close(struct meet *meet);                                       /* accepts NULL */

/** Set by a signal handler; every poll then ends with SHUNT_ERR_CANCELLED. */
void meet_cancel_all(int signal_number);

/**
 * Meeting in dir/job/, which is made. From now on this rank is known to be there, until meet_close().
 *
 * @return SHUNT_ERR_USAGE, SHUNT_ERR_IO, SHUNT_ERR_MISMATCH: this rank's record lies there already
 */
enum shunt_status store_dir_open(const char *dir, const char *job, uint32_t rank, uint32_t size, struct meet **meet_out,
                                 struct shunt_err *err);

#endif
