/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHUNT_PLANNER_PRECOMPILE_H
#define SHUNT_PLANNER_PRECOMPILE_H

/** What the files of `shunt precompile` share: the run, one step of it, and how both are reported. */

#include "cli.h"
#include "json.h"
#include "make_plan.h"
#include "plan_index.h"

struct precompile_options {
    const char *ladder, *folder, *cluster, *place;
    uint64_t cap;
    bool cap_given, force, json;
    struct cli_list only;
};

enum precompile_outcome { PRECOMPILE_MADE, PRECOMPILE_KEPT, PRECOMPILE_FAILED, PRECOMPILE_OUTCOMES };

/** A step, done. */
struct precompile_result {
    enum precompile_outcome outcome;
    enum shunt_status status;
    char *path;             /* of the plan */
    struct made_plan made;  /* PRECOMPILE_MADE */
    struct shunt_plan *old; /* PRECOMPILE_KEPT */
    char *problems;         /* PRECOMPILE_FAILED: what was found, in lines */
    double seconds;
};

struct precompile {
    const struct precompile_options *options;
    struct cfg_ladder *ladder;
    struct plan_index index;
    bool *chosen;
    enum precompile_outcome *outcomes;
    uint32_t chosen_count, done_count, counts[PRECOMPILE_OUTCOMES];
    int name_width, exit_code;
    bool is_terminal;
    struct json json;
};

/** Compile a step, or find its plan current, and enter it in the index. Release with precompile_free_result(). */
void precompile_step(struct precompile *run, uint32_t s, struct precompile_result *result);
void precompile_free_result(struct precompile_result *result);

/** On a terminal, a bar with the step that is being compiled; it is wiped before anything else is written. */
void precompile_show_bar(const struct precompile *run, const char *name);
void precompile_wipe_bar(const struct precompile *run);

/** Around all steps, and after each: lines on stderr, with --json the object on stdout. */
void precompile_begin_report(struct precompile *run);
void precompile_report_step(struct precompile *run, uint32_t s, const struct precompile_result *result);
void precompile_end_report(struct precompile *run);
/** The last line on stderr: which steps failed, if any. */
void precompile_report_failures(const struct precompile *run);

/** The run ends with the highest exit code of a failure. */
void precompile_note_failure(struct precompile *run, enum shunt_status status);

/** Seconds on a clock that only goes forward. */
double precompile_now(void);

#endif
