/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHUNT_SCHEMAS_PLAN_INTERNAL_H
#define SHUNT_SCHEMAS_PLAN_INTERNAL_H

/** Inside the plan reader: the opened plan, and how a check reports what it found. */

#include <stdatomic.h>
#include <stdbool.h>

#include "shunt/plan.h"

/**
 * Bytes are read once and checked where they lie, so that nothing that happens to the file can change
 * what has passed. Of a file that is the part in front of PARTS at once, and each part when it is asked for.
 */
struct shunt_plan {
    const unsigned char *image;   /* of a plan in memory: the caller's bytes; NULL for a file */
    const unsigned char *globals; /* everything in front of PARTS; the plan's own unless there is an image */
    int fd;                       /* -1: none */
    uint64_t size;
    char *name; /* file name for messages */
    const struct shunt_plan_header *header;
    const char *strings;
    uint64_t string_bytes;
    struct shunt_plan_summary summary; /* with 0 in what the plan's version lacks */
    const struct shunt_plan_tensor *tensors;
    uint64_t tensor_count;
    const int64_t *dims;
    uint64_t dim_count;
    const struct shunt_plan_device *devices;
    uint64_t parts_offset, parts_bytes;
    _Atomic(const unsigned char *) *parts; /* one per device: its part, once that has passed every check */
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

#define SCHEMA_HEAD_BYTES                                                                                              \
    (sizeof(struct shunt_plan_header) + SHUNT_PLAN_SECTION_COUNT * sizeof(struct shunt_plan_section))

/**
 * Header and section table: the first SCHEMA_HEAD_BYTES of globals, or the whole of a shorter file.
 *
 * @param bytes_out  what the other checks need of the file: everything in front of PARTS
 */
enum shunt_status schema_check_head(struct shunt_plan *plan, uint64_t *bytes_out, struct shunt_err *err);

/** The global sections; sets the typed pointers of plan. */
enum shunt_status schema_check_globals(struct shunt_plan *plan, struct shunt_err *err);

/** A view's fields; also bounds its elements and extent by SHUNT_PLAN_MAX_BUFFER_BYTES. */
bool schema_check_view(const struct plan_site *site, const struct shunt_plan_view *view);

/** True if the elements lie row-major without gaps; strides of dimensions of extent 1 do not matter. */
bool schema_view_is_dense(const struct shunt_plan_view *view);

/**
 * Read and check a part, apart from those that the plan keeps for shunt_plan_get_part().
 *
 * @param bytes_out  what part_out points into; released with schema_free_part()
 */
enum shunt_status schema_read_part(const struct shunt_plan *plan, uint32_t device, struct shunt_plan_part *part_out,
                                   const unsigned char **bytes_out, struct shunt_err *err);
void schema_free_part(const struct shunt_plan *plan, const unsigned char *bytes); /* accepts NULL */

/** Everything about one part, whose part_bytes bytes are at base; describes it in part_out. */
enum shunt_status schema_check_part(const struct shunt_plan *plan, uint32_t device, const unsigned char *base,
                                    struct shunt_plan_part *part_out, struct shunt_err *err);

/** Typed pointers into a part whose header has passed (or is about to pass) the size check. Returns the part's end. */
uint64_t schema_part_layout(const struct shunt_plan *plan, const unsigned char *base, struct shunt_plan_part *part_out);

#endif
