/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHUNT_PLANNER_FIGURES_H
#define SHUNT_PLANNER_FIGURES_H

/**
 * The figures of a plan in one flat struct, and one table that names them. The people's page,
 * the JSON object (design.md 10.2) and `shunt diff` are three loops over that table.
 */

#include <stddef.h>
#include <stdint.h>

#include "format.h"
#include "json.h"
#include "shunt/plan.h"

struct figures {
    struct shunt_plan_summary summary;
    struct fmt_text plan_id, model_digest, from_digest, to_digest, cluster_digest;
    char format_version[24];
    const char *model, *from, *to, *cluster, *method, *solver, *solver_status; /* in the plan's memory */
    uint64_t devices, from_ranks, to_ranks, rounds, overlap_depth, file_bytes;
    uint64_t peak_device;   /* its number in the cluster */
    double gap, gap_rounds; /* not a number where the bound is 0 and the prediction is not */
    char place_method[64];
    bool placed; /* by the compiler; else the rest of place is what the layout makes of it, or not a number */
    uint64_t place_moved_fixed;
    double place_cost, place_bound, place_gap;
    double plan_seconds; /* not a number: a plan does not record it, so that plans compare byte for byte */
};

enum figure_type {
    FIGURE_STRING,  /* const char * */
    FIGURE_CHARS,   /* char[] */
    FIGURE_COUNT,   /* uint64_t */
    FIGURE_COUNT32, /* uint32_t */
    FIGURE_FLAG32,  /* uint32_t, 0 or 1 */
    FIGURE_BYTES,   /* uint64_t */
    FIGURE_SECONDS, /* double */
    FIGURE_RATIO,   /* double */
};

struct figure {
    const char *section; /* "" at the top of the object */
    const char *key;
    const char *label; /* on the people's page; NULL: not in its tables */
    const char *note;  /* beside the figure; NULL: none */
    enum figure_type type;
    size_t offset;    /* in struct figures */
    const char *of;   /* "needed": the page adds "98.0 % of needed"; NULL: no */
    size_t of_offset; /* uint64_t in struct figures */
};

extern const struct figure figure_table[];
extern const size_t figure_count;

void figures_get(const struct shunt_plan *plan, struct figures *out);

bool figure_is_text(const struct figure *figure);
bool figure_is_whole(const struct figure *figure);
/** Value of a whole figure. */
uint64_t figure_whole(const struct figures *figures, const struct figure *figure);
/** Value of a figure that is not text. */
double figure_number(const struct figures *figures, const struct figure *figure);
/** Text of a figure that is text. */
const char *figure_string(const struct figures *figures, const struct figure *figure);
/** As people read it. */
struct fmt_text figure_format(const struct figures *figures, const struct figure *figure);

/** One value, without its key. */
void figure_json(struct json *json, const struct figures *figures, const struct figure *figure);
/** All keys of design.md 10.2, into an open object. */
void figures_json(struct json *json, const struct figures *figures);

#endif
