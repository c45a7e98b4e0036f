/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHUNT_PLANNER_CONFIG_EDIT_H
#define SHUNT_PLANNER_CONFIG_EDIT_H

/** A document with some of its fields changed, and all else as its author wrote it: comments, order, spaces. */

#include <stdbool.h>
#include <stddef.h>

/** A field of the document's own table, and the plain text that it is to have. */
struct cfg_edit {
    const char *key, *value;
};

#define CFG_MOST_EDITS 8

/**
 * Values are written in double quotes. A field that the document lacks is put in front of its first one.
 *
 * @param text  a document that loads
 * @param size_out  bytes of the result, which has no NUL
 * @return malloc'd, or NULL: out of memory, or not one mapping
 */
char *cfg_edit_document(const char *text, size_t size, const struct cfg_edit *edits, size_t edit_count,
                        size_t *size_out);

#endif
