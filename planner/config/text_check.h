/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHUNT_PLANNER_CONFIG_TEXT_CHECK_H
#define SHUNT_PLANNER_CONFIG_TEXT_CHECK_H

/** Is this text at all? Settled before libyaml sees the bytes, with line and column. */

#include <stdbool.h>
#include <stddef.h>

#include "diag.h"

/**
 * A document is UTF-8 without control characters other than tab and line ends and without
 * directives, of at most `most` bytes. A byte-order mark in front is skipped: *skip_out is 3, else 0.
 *
 * @return false when a problem was reported
 */
bool cfg_text_check(struct cfg_diag *diag, const unsigned char *bytes, size_t size, size_t most, size_t *skip_out);

#define CFG_MAX_BYTES      ((size_t)8 << 20)
#define CFG_MAX_BULK_BYTES ((size_t)64 << 20) /* of a document with a bulk list (yaml_tree.h) */

#endif
