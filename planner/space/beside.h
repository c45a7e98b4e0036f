/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHUNT_PLANNER_BESIDE_H
#define SHUNT_PLANNER_BESIDE_H

/**
 * State beside the tensors: which entries a move copies, and what becomes of the others. Nothing is
 * dropped without a word: every entry that the model names has a note, and the plan carries the notes.
 */

#include "config/config.h"
#include "util/arena.h"

struct beside_note {
    const char *name;
    const char *action; /* "copied", "recomputed", "reseeded", "left" */
    const char *why;
};

struct beside {
    uint32_t note_count;
    struct beside_note *notes; /* scalars, then the other entries, in the model's order */
    uint32_t copied_count;
    const struct cfg_other **copied; /* other entries that the move copies */
};

/**
 * Decide for a move. A layout against itself copies whatever it has keys for.
 *
 * @return SHUNT_ERR_INPUT: an entry says `otherwise: refuse`, and its axes do not keep their sizes
 */
enum shunt_status beside_decide(struct arena *arena, const struct cfg_model *model, const struct cfg_layout *from,
                                const struct cfg_layout *to, struct beside *out, struct shunt_err *err);

/** Whether an entry of this name is known, and not copied. */
bool beside_has_left(const struct beside *beside, const char *name);

/** The notes as a plan has them: lines of name, action and reason (plan-format.md, 2.4). */
char *beside_text(struct arena *arena, const struct beside *beside);

/** "pp, tp": the axes of an entry; "" without any. */
char *beside_axes(struct arena *arena, const bool *per);

#endif
