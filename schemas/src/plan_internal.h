/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHUNT_SCHEMAS_PLAN_INTERNAL_H
#define SHUNT_SCHEMAS_PLAN_INTERNAL_H

/** Inside the plan reader: the opened plan, and how a check reports what it found. */

#include <stdatomic.h>
#include <stdbool.h>

#include "shunt/plan.h"

struct shunt_plan {
    const unsigned char *bytes;
    uint64_t size;
    bool mapped;
    char *name; /* file name for messages */
    const struct shunt_plan_header *header;
    const char *strings;
    uint64_t string_bytes;
    const struct shunt_plan_summary *summary;
    const struct shunt_plan_tensor *tensors;
    uint64_t tensor_count;
    const int64_t *dims;
    uint64_t dim_count;
    const struct shunt_plan_device *devices;
    uint64_t parts_offset, parts_bytes;
    atomic_uchar *part_checked; /* one per device: 1 once its part has passed every check */
};

/** Where a check looks: names the place in front of what it found. */
struct plan_site {
    const char *file;
    struct shunt_err *err;
    const char *section; /* "section TENSORS", "header", ... */
    const char *record;  /* "record", "op", ...; NULL: the place has no records */
    uint64_t index;      /* of the record */
};

/** Write "FILE: SECTION RECORD INDEX: ..." and return false. */
bool schema_refuse(const struct plan_site *site, const char *format, ...) __attribute__((format(printf, 2, 3)));

/** True if lo <= value <= hi; else refuses with "FIELD is VALUE, allowed LO..HI". */
bool schema_in_range(const struct plan_site *site, const char *field, uint64_t value, uint64_t lo, uint64_t hi);

/** True if value == want; else refuses with "FIELD is VALUE, expected WANT". */
bool schema_equals(const struct plan_site *site, const char *field, uint64_t value, uint64_t want);

/** True if value is a multiple of unit; else refuses. */
bool schema_multiple(const struct plan_site *site, const char *field, uint64_t value, uint64_t unit);

/** True if all bytes are zero; else refuses, naming the first that is not. */
bool schema_zeros(const struct plan_site *site, const char *field, const void *bytes, size_t size);

/** True if the checksum of the bytes is want; else refuses. */
bool schema_checksum(const struct plan_site *site, const void *bytes, size_t size, uint32_t want);

/** Smallest multiple of unit (a power of two) that is >= value; value is far below 2^64. */
static inline uint64_t schema_align(uint64_t value, uint64_t unit)
{
    return (value + unit - 1) & ~(unit - 1);
}

/** Header, section table and global sections; sets the typed pointers of plan. */
enum shunt_status schema_check_globals(struct shunt_plan *plan, struct shunt_err *err);

/** A view's fields; also bounds its elements and extent by SHUNT_PLAN_MAX_BUFFER_BYTES. */
bool schema_check_view(const struct plan_site *site, const struct shunt_plan_view *view);

/** True if the elements lie row-major without gaps; strides of dimensions of extent 1 do not matter. */
bool schema_view_is_dense(const struct shunt_plan_view *view);

/** Everything about one part; describes it in part_out. */
enum shunt_status schema_check_part(const struct shunt_plan *plan, uint32_t device, struct shunt_plan_part *part_out,
                                    struct shunt_err *err);

/** Typed pointers into a part whose header has passed (or is about to pass) the size check. Returns the part's end. */
uint64_t schema_part_layout(const struct shunt_plan *plan, uint32_t device, struct shunt_plan_part *part_out);

#endif
