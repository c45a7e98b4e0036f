/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHUNT_SCHEMAS_VERIFY_LATE_H
#define SHUNT_SCHEMAS_VERIFY_LATE_H

/**
 * Boxes that are written in rounds: does one written after a given round meet a given box, without a look at
 * all of them. The boxes are halved along the dimension that parts them best, again and again; of each half the
 * hull and the last round are known.
 */

#include "verify_box.h"

struct vlate_write {
    struct vbox box;
    uint32_t round;
};

/** Zero-initialised; released with vlate_finish(). */
struct vlate {
    const struct vlate_write *writes; /* borrowed */
    uint32_t count;
    uint32_t *order;
    struct vlate_write *halves; /* by the middle of a range of `order`: its hull and last round */
};

/** False if out of memory. */
bool vlate_build(struct vlate *late, const struct vlate_write *writes, uint32_t count);
void vlate_finish(struct vlate *late);

/** A write of round `first` or later that meets the box, or NULL. */
const struct vlate_write *vlate_find(const struct vlate *late, const struct vbox *box, uint32_t first);

#endif
