/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHUNT_VERIFY_H
#define SHUNT_VERIFY_H

/**
 * Plan verifier: a second implementation of what a plan means. It replays every device's
 * rounds symbolically over the virtual parameter space and proves that the new side is
 * written completely, exactly once, with the right coordinates, from memory that still
 * holds them; that every message is matched with the same bytes in the same round; and that
 * memory stays under the cap. It shares the plan reader, and nothing else, with the compiler.
 */

#include "shunt/plan.h"

#ifdef __cplusplus
extern "C" {
#endif

/** Every rule has one code; the text of each is in one table (shunt_verify_rule_text). */
enum shunt_verify_rule {
    SHUNT_RULE_PART = 1, /* a part does not read: everything that the reader refuses */
    SHUNT_RULE_HOLDING,  /* holdings of a buffer overlap or replicate, or two buffers have one tensor, state and side */
    SHUNT_RULE_SOURCE, /* an op reads what its source does not hold: outside holdings, freed, not written yet, or not received */
    SHUNT_RULE_TARGET,     /* an op writes outside the target's holdings or pads, not allocated, or an old buffer */
    SHUNT_RULE_COORDINATE, /* source and target boxes or origins differ, or a cast is missing, wrong or a second one */
    SHUNT_RULE_COVERAGE, /* a new-side element or pad byte is written never or twice, or an element of a tensor is lost */
    SHUNT_RULE_MESSAGE,  /* a send without its receive, unlike sizes, or a message without a piece */
    SHUNT_RULE_STAGING,  /* packs overlap in a slot, leave their message, or an unpack matches no pack */
    SHUNT_RULE_LIFETIME, /* a buffer of a side that has no rank on the device */
    SHUNT_RULE_MEMORY,   /* live bytes, peak or slot sizes differ from the replay, or exceed the cap */
    SHUNT_RULE_SUMMARY, /* a figure of the summary, or what it says of the state beside the tensors, differs from the replay */
    SHUNT_RULE_RANK, /* ranks of the devices are not a permutation of 0..count-1 */
    SHUNT_RULE_COUNT
};

#define SHUNT_VERIFY_MAX_PROBLEMS 20

struct shunt_verify_problem {
    enum shunt_verify_rule rule;
    char text[400]; /* "device 3 round 17: ..." with tensor, box and ranks where they apply */
};

struct shunt_verify_report {
    uint32_t problem_count;  /* problems kept, at most SHUNT_VERIFY_MAX_PROBLEMS */
    uint32_t dropped_states; /* bits 1 << enum shunt_state: of tensors that stay, the old side alone has them */
    uint64_t problem_total;  /* problems seen */
    struct shunt_verify_problem problems[SHUNT_VERIFY_MAX_PROBLEMS];
    uint64_t devices, rounds, ops, messages; /* what was replayed */
    uint64_t bytes_moved, bytes_local, bytes_filled, peak;
};

/**
 * @param report_out  filled also when problems were found
 *
 * Of a plan in a file, parts are read as they are needed, each more than once if all of them together
 * are large; those that a caller has taken stay as they are.
 *
 * @return SHUNT_OK, SHUNT_ERR_VERIFY (problems in the report, the first one in err), SHUNT_ERR_NOMEM;
 *         SHUNT_ERR_IO, SHUNT_ERR_PLAN: a part could not be read again, the file changes under our hands
 */
SHUNT_API enum shunt_status shunt_plan_verify(const struct shunt_plan *plan, struct shunt_verify_report *report_out,
                                              struct shunt_err *err);

/** The same, by at most so many threads: only how soon it is done depends on their number. */
SHUNT_API enum shunt_status shunt_plan_verify_shared(const struct shunt_plan *plan, uint32_t threads,
                                                     struct shunt_verify_report *report_out, struct shunt_err *err);

/** Short name ("coverage") and one-line text of a rule; never NULL for a listed rule. */
SHUNT_API const char *shunt_verify_rule_name(enum shunt_verify_rule rule);
SHUNT_API const char *shunt_verify_rule_text(enum shunt_verify_rule rule);

#ifdef __cplusplus
}
#endif
#endif
