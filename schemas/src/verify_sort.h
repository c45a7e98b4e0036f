/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHUNT_SCHEMAS_VERIFY_SORT_H
#define SHUNT_SCHEMAS_VERIFY_SORT_H

/** Sorting of numbered keys, which is what plans with many ops wait for: the library's sort calls back to compare. */

#include <stddef.h>
#include <stdint.h>

struct ventry {
    uint64_t key;
    uint32_t index;
};

/** Ascending by key, then index; `spare` has room for as many. */
void vsort_entries(struct ventry *entries, size_t count, struct ventry *spare);

#endif
