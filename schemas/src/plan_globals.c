/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Checks of the header, the section table and the global sections, in file order. Each check
 * uses only what an earlier one has bounded. plan-format.md, "What a reader must reject".
 */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "alloc.h"
#include "plan_internal.h"
#include "plan_notes.h"
#include "plan_placement.h"

#define HEADER_BYTES   sizeof(struct shunt_plan_header)
#define SECTIONS_BEGIN SCHEMA_HEAD_BYTES

SHUNT_STATIC_ASSERT(SECTIONS_BEGIN % SHUNT_PLAN_ALIGN == 0, "no gap behind the section table");

struct section_rule {
    const char *name;
    uint32_t record_bytes;
};

static const struct section_rule section_rules[SHUNT_PLAN_SECTION_COUNT] = {
    {"section STRINGS", 1},
    {"section SUMMARY", sizeof(struct shunt_plan_summary)},
    {"section TENSORS", sizeof(struct shunt_plan_tensor)},
    {"section DIMS", sizeof(int64_t)},
    {"section DEVICES", sizeof(struct shunt_plan_device)},
    {"section PARTS", 1},
};

static struct plan_site site_of(const struct shunt_plan *plan, struct shunt_err *err, const char *section,
                                const char *record)
{
    return (struct plan_site){.file = plan->name, .err = err, .section = section, .record = record};
}

/* Older versions have a shorter summary. */
static uint32_t record_bytes_of(const struct shunt_plan *plan, uint32_t index)
{
    static const uint32_t summary_bytes[] = {SHUNT_PLAN_SUMMARY_BYTES_1_1, SHUNT_PLAN_SUMMARY_BYTES_1_1,
                                             SHUNT_PLAN_SUMMARY_BYTES_1_2};
    uint32_t minor = plan->header->version_minor;
    if (index == SHUNT_SECTION_SUMMARY - 1 && minor < sizeof(summary_bytes) / sizeof(summary_bytes[0]))
        return summary_bytes[minor];
    return section_rules[index].record_bytes;
}

/* ---- header ------------------------------------------------------------------ */

/* What must hold before the rest of the header means anything. */
static bool check_identity(const struct plan_site *site, const struct shunt_plan_header *header)
{
    if (memcmp(header->magic, SHUNT_PLAN_MAGIC, sizeof(header->magic)) != 0)
        return schema_refuse(site, "magic is not \"%s\"", SHUNT_PLAN_MAGIC);
    if (header->version_major != SHUNT_PLAN_VERSION_MAJOR || header->version_minor > SHUNT_PLAN_VERSION_MINOR)
        return schema_refuse(site, "version is %" PRIu32 ".%" PRIu32 ", supported %u.%u", header->version_major,
                             header->version_minor, SHUNT_PLAN_VERSION_MAJOR, SHUNT_PLAN_VERSION_MINOR);
    if (!schema_equals(site, "header_bytes", header->header_bytes, HEADER_BYTES))
        return false;
    struct shunt_plan_header copy = *header;
    copy.header_crc32c = 0;
    return schema_checksum(site, &copy, sizeof(copy), header->header_crc32c);
}

static bool check_header_fields(const struct plan_site *site, const struct shunt_plan_header *header, uint64_t size)
{
    return schema_equals(site, "file_bytes", header->file_bytes, size) &&
           schema_in_range(site, "device_count", header->device_count, 1, SHUNT_PLAN_MAX_DEVICES) &&
           schema_in_range(site, "from_rank_count", header->from_rank_count, 1, header->device_count) &&
           schema_in_range(site, "to_rank_count", header->to_rank_count, 1, header->device_count) &&
           schema_in_range(site, "round_count", header->round_count, 0, SHUNT_PLAN_MAX_ROUNDS) &&
           schema_in_range(site, "overlap_depth", header->overlap_depth, 1, SHUNT_PLAN_MAX_DEPTH) &&
           schema_equals(site, "section_count", header->section_count, SHUNT_PLAN_SECTION_COUNT) &&
           schema_zeros(site, "reserved", header->reserved, sizeof(header->reserved));
}

static bool check_header(struct shunt_plan *plan, struct shunt_err *err)
{
    struct plan_site site = site_of(plan, err, "header", NULL);
    if (plan->size < HEADER_BYTES)
        return schema_refuse(&site, "file is %" PRIu64 " bytes, a header is %zu", plan->size, HEADER_BYTES);
    const struct shunt_plan_header *header = (const void *)plan->globals;
    if (!check_identity(&site, header) || !check_header_fields(&site, header, plan->size))
        return false;
    if (plan->size < SECTIONS_BEGIN)
        return schema_refuse(&site, "file is %" PRIu64 " bytes, header and section table are %zu", plan->size,
                             (size_t)SECTIONS_BEGIN);
    plan->header = header;
    return true;
}

/* ---- section table -------------------------------------------------------------- */

/* Section `index` must start at `begin`; sets where the next one must start. */
static bool check_section(struct shunt_plan *plan, const struct shunt_plan_section *section, uint32_t index,
                          uint64_t begin, uint64_t *next_out, struct shunt_err *err)
{
    const struct section_rule *rule = &section_rules[index];
    struct plan_site site = site_of(plan, err, rule->name, NULL);
    if (!schema_equals(&site, "kind", section->kind, index + 1) ||
        !schema_equals(&site, "record_bytes", section->record_bytes, record_bytes_of(plan, index)) ||
        !schema_zeros(&site, "reserved", &section->reserved, sizeof(section->reserved)) ||
        !schema_equals(&site, "offset", section->offset, begin))
        return false;
    if (section->bytes > plan->size - begin)
        return schema_refuse(&site, "bytes is %" PRIu64 " at offset %" PRIu64 ", the file is %" PRIu64, section->bytes,
                             begin, plan->size);
    uint64_t end = schema_align(begin + section->bytes, SHUNT_PLAN_ALIGN);
    if (end > plan->size)
        return schema_refuse(&site, "gap ends at %" PRIu64 ", the file is %" PRIu64, end, plan->size);
    if (!schema_multiple(&site, "bytes", section->bytes, section->record_bytes))
        return false;
    *next_out = end;
    if (section->kind == SHUNT_SECTION_PARTS)
        return schema_equals(&site, "crc32c", section->crc32c, 0);
    return true;
}

static bool check_section_bytes(const struct shunt_plan *plan, const struct shunt_plan_section *section,
                                struct shunt_err *err)
{
    struct plan_site site = site_of(plan, err, section_rules[section->kind - 1].name, NULL);
    const unsigned char *begin = plan->globals + section->offset;
    uint64_t with_gap = schema_align(section->bytes, SHUNT_PLAN_ALIGN);
    return schema_checksum(&site, begin, with_gap, section->crc32c) &&
           schema_zeros(&site, "gap", begin + section->bytes, with_gap - section->bytes);
}

static void copy_summary(struct shunt_plan *plan, const struct shunt_plan_section *section)
{
    uint64_t bytes = section->bytes < sizeof(plan->summary) ? section->bytes : sizeof(plan->summary);
    memcpy(&plan->summary, plan->globals + section->offset, bytes);
}

static void set_sections(struct shunt_plan *plan, const struct shunt_plan_section *table)
{
    const struct shunt_plan_section *at = table - 1; /* kinds count from 1 */
    plan->strings = (const void *)(plan->globals + at[SHUNT_SECTION_STRINGS].offset);
    plan->string_bytes = at[SHUNT_SECTION_STRINGS].bytes;
    copy_summary(plan, &at[SHUNT_SECTION_SUMMARY]);
    plan->tensors = (const void *)(plan->globals + at[SHUNT_SECTION_TENSORS].offset);
    plan->tensor_count = at[SHUNT_SECTION_TENSORS].bytes / sizeof(struct shunt_plan_tensor);
    plan->dims = (const void *)(plan->globals + at[SHUNT_SECTION_DIMS].offset);
    plan->dim_count = at[SHUNT_SECTION_DIMS].bytes / sizeof(int64_t);
    plan->devices = (const void *)(plan->globals + at[SHUNT_SECTION_DEVICES].offset);
    plan->parts_offset = at[SHUNT_SECTION_PARTS].offset;
    plan->parts_bytes = at[SHUNT_SECTION_PARTS].bytes;
}

/* Counts that other places fix. */
static bool check_section_sizes(const struct shunt_plan *plan, const struct shunt_plan_section *table,
                                struct shunt_err *err)
{
    static const uint32_t summary = SHUNT_SECTION_SUMMARY - 1, devices = SHUNT_SECTION_DEVICES - 1;
    struct plan_site site = site_of(plan, err, section_rules[summary].name, NULL);
    if (!schema_equals(&site, "bytes", table[summary].bytes, table[summary].record_bytes))
        return false;
    site = site_of(plan, err, section_rules[devices].name, NULL);
    if (!schema_equals(&site, "bytes", table[devices].bytes,
                       plan->header->device_count * (uint64_t)sizeof(struct shunt_plan_device)))
        return false;
    site = site_of(plan, err, section_rules[SHUNT_SECTION_TENSORS - 1].name, NULL);
    return schema_in_range(&site, "record count", plan->tensor_count, 0, UINT32_MAX);
}

static const struct shunt_plan_section *section_table(const struct shunt_plan *plan)
{
    return (const void *)(plan->globals + HEADER_BYTES);
}

/* Where the sections lie; their bytes are not looked at. */
static bool check_section_table(struct shunt_plan *plan, struct shunt_err *err)
{
    const struct shunt_plan_section *table = section_table(plan);
    struct plan_site site = site_of(plan, err, "section table", NULL);
    if (!schema_checksum(&site, table, SECTIONS_BEGIN - HEADER_BYTES, plan->header->section_table_crc32c))
        return false;
    uint64_t begin = SECTIONS_BEGIN;
    for (uint32_t i = 0; i < SHUNT_PLAN_SECTION_COUNT; i++) {
        if (!check_section(plan, &table[i], i, begin, &begin, err))
            return false;
    }
    if (begin != plan->size)
        return schema_refuse(&site, "sections end at %" PRIu64 ", the file is %" PRIu64, begin, plan->size);
    return true;
}

static bool check_sections(struct shunt_plan *plan, struct shunt_err *err)
{
    const struct shunt_plan_section *table = section_table(plan);
    for (uint32_t i = 0; i < SHUNT_PLAN_SECTION_COUNT; i++) {
        if (table[i].kind != SHUNT_SECTION_PARTS && !check_section_bytes(plan, &table[i], err))
            return false;
    }
    set_sections(plan, table);
    return check_section_sizes(plan, table, err);
}

/* ---- strings -------------------------------------------------------------------- */

/* Bytes of the UTF-8 sequence that a lead byte starts; 0 if it starts none. */
static uint32_t utf8_length(unsigned char lead)
{
    if (lead < 0x80)
        return 1;
    if (lead >= 0xC2 && lead < 0xE0)
        return 2;
    if (lead >= 0xE0 && lead < 0xF0)
        return 3;
    return lead >= 0xF0 && lead < 0xF5 ? 4 : 0;
}

/* Rejects overlong forms, surrogates and numbers above U+10FFFF by the second byte (Unicode 15, table 3-7). */
static bool utf8_second_is_legal(unsigned char lead, unsigned char second)
{
    unsigned char lo = lead == 0xE0 ? 0xA0 : lead == 0xF0 ? 0x90 : 0x80;
    unsigned char hi = lead == 0xED ? 0x9F : lead == 0xF4 ? 0x8F : 0xBF;
    return second >= lo && second <= hi;
}

/* Bytes of the sequence at `at`, or 0 if it is malformed. */
static uint32_t utf8_check(const unsigned char *at, uint64_t left)
{
    uint32_t length = utf8_length(at[0]);
    if (length == 0 || length > left || (length > 1 && !utf8_second_is_legal(at[0], at[1])))
        return 0;
    for (uint32_t i = 2; i < length; i++) {
        if ((at[i] & 0xC0) != 0x80)
            return 0;
    }
    return length;
}

static bool check_strings(const struct shunt_plan *plan, struct shunt_err *err)
{
    struct plan_site site = site_of(plan, err, section_rules[SHUNT_SECTION_STRINGS - 1].name, NULL);
    const unsigned char *at = (const unsigned char *)plan->strings;
    if (!schema_in_range(&site, "bytes", plan->string_bytes, 1, UINT32_MAX))
        return false;
    if (at[0] != 0 || at[plan->string_bytes - 1] != 0)
        return schema_refuse(&site, "first and last byte are %u and %u, expected 0", at[0], at[plan->string_bytes - 1]);
    for (uint64_t i = 0; i < plan->string_bytes;) {
        uint32_t length = utf8_check(&at[i], plan->string_bytes - i);
        if (length == 0)
            return schema_refuse(&site, "byte %" PRIu64 " is not UTF-8", i);
        i += length;
    }
    return true;
}

/* A string offset must be that of a first byte. */
static bool check_string(const struct shunt_plan *plan, const struct plan_site *site, const char *field,
                         uint32_t offset)
{
    if (offset >= plan->string_bytes)
        return schema_refuse(site, "%s is string offset %" PRIu32 ", the strings are %" PRIu64 " bytes", field, offset,
                             plan->string_bytes);
    if (offset > 0 && plan->strings[offset - 1] != 0)
        return schema_refuse(site, "%s is string offset %" PRIu32 ", not the start of a string", field, offset);
    return true;
}

/* ---- summary -------------------------------------------------------------------- */

static bool check_seconds(const struct plan_site *site, const char *field, double value)
{
    if (isfinite(value) && value >= 0)
        return true;
    return schema_refuse(site, "%s is %g, expected a finite number >= 0", field, value);
}

/* Version 1.0 has no statement: its place was reserved. */
static bool check_notes(const struct shunt_plan *plan, const struct plan_site *site)
{
    uint32_t offset = plan->summary.state_notes;
    if (plan->header->version_minor < 1)
        return schema_equals(site, "state_notes", offset, 0);
    return check_string(plan, site, "state_notes", offset) && schema_check_notes(site, &plan->strings[offset]);
}

/* Was reserved before version 1.3. */
static bool check_newer(const struct shunt_plan *plan, const struct plan_site *site, const char *field, uint64_t value)
{
    return plan->header->version_minor >= 3 || schema_equals(site, field, value, 0);
}

/* Before version 1.3 the place of this statement was reserved. */
static bool check_placement(const struct shunt_plan *plan, const struct plan_site *site)
{
    uint32_t offset = plan->summary.placement;
    if (plan->header->version_minor < 3)
        return check_newer(plan, site, "placement", offset);
    return check_string(plan, site, "placement", offset) && schema_check_placement(site, &plan->strings[offset]);
}

static bool check_summary(const struct shunt_plan *plan, struct shunt_err *err)
{
    struct plan_site site = site_of(plan, err, section_rules[SHUNT_SECTION_SUMMARY - 1].name, NULL);
    const struct shunt_plan_summary *sum = &plan->summary;
    return check_string(plan, &site, "model", sum->model) && check_string(plan, &site, "from", sum->from) &&
           check_string(plan, &site, "to", sum->to) && check_string(plan, &site, "cluster", sum->cluster) &&
           check_string(plan, &site, "method", sum->method) && check_string(plan, &site, "solver", sum->solver) &&
           check_string(plan, &site, "solver_status", sum->solver_status) && check_placement(plan, &site) &&
           check_notes(plan, &site) && check_seconds(&site, "predicted_seconds", sum->predicted_seconds) &&
           check_seconds(&site, "lower_bound_seconds", sum->lower_bound_seconds) &&
           check_seconds(&site, "lower_bound_rounds_seconds", sum->lower_bound_rounds_seconds) &&
           schema_in_range(&site, "peak_device", sum->peak_device, 0, plan->header->device_count - 1) &&
           schema_in_range(&site, "rollback_until_round", sum->rollback_until_round, 0, plan->header->round_count) &&
           schema_in_range(&site, "replicas_checked", sum->replicas_checked, 0, 1);
}

/* ---- tensors -------------------------------------------------------------------- */

static bool check_extents(const struct shunt_plan *plan, const struct plan_site *site,
                          const struct shunt_plan_tensor *tensor)
{
    const int64_t *extents = &plan->dims[tensor->dims];
    uint64_t elements = 1;
    for (uint32_t d = 0; d < tensor->ndim; d++) {
        if (extents[d] < 1)
            return schema_refuse(site, "extent %" PRIu32 " is %" PRId64 ", expected >= 1", d, extents[d]);
        if (__builtin_mul_overflow(elements, (uint64_t)extents[d], &elements) || elements > SHUNT_PLAN_MAX_BUFFER_BYTES)
            return schema_refuse(site, "product of the extents is above %" PRIu64, SHUNT_PLAN_MAX_BUFFER_BYTES);
    }
    return schema_equals(site, "elements", tensor->elements, elements);
}

static bool check_tensor(const struct shunt_plan *plan, const struct plan_site *site,
                         const struct shunt_plan_tensor *tensor)
{
    if (!check_string(plan, site, "name", tensor->name))
        return false;
    if (tensor->name == 0 || plan->strings[tensor->name] == 0)
        return schema_refuse(site, "name is empty");
    if (!schema_in_range(site, "ndim", tensor->ndim, 1, SHUNT_MAX_DIMS))
        return false;
    uint64_t end;
    if (__builtin_add_overflow(tensor->dims, (uint64_t)tensor->ndim, &end) || end > plan->dim_count)
        return schema_refuse(site, "dims is %" PRIu64 " for %" PRIu32 " extents, the section DIMS has %" PRIu64,
                             tensor->dims, tensor->ndim, plan->dim_count);
    return check_extents(plan, site, tensor);
}

static uint64_t hash_name(const char *name)
{
    uint64_t hash = UINT64_C(0xCBF29CE484222325); /* FNV-1a */
    for (; *name != 0; name++)
        hash = (hash ^ (unsigned char)*name) * UINT64_C(0x100000001B3);
    return hash ^ (hash >> 32);
}

/* Put tensor `index` into the table of names; returns the tensor of the same name, or index itself. */
static uint64_t claim_name(const struct shunt_plan *plan, uint32_t *table, uint64_t mask, uint64_t index)
{
    const char *name = &plan->strings[plan->tensors[index].name];
    for (uint64_t slot = hash_name(name) & mask;; slot = (slot + 1) & mask) {
        if (table[slot] == 0) {
            table[slot] = (uint32_t)index + 1;
            return index;
        }
        uint64_t other = table[slot] - 1;
        if (strcmp(name, &plan->strings[plan->tensors[other].name]) == 0)
            return other;
    }
}

/* A binding name must mean one tensor. */
static enum shunt_status check_names(const struct shunt_plan *plan, struct shunt_err *err)
{
    uint64_t size = 16;
    while (size < plan->tensor_count * 2)
        size *= 2;
    uint32_t *table = schema_alloc(size, sizeof(*table));
    if (table == NULL)
        return shunt_fail(err, SHUNT_ERR_NOMEM, "%s: out of memory", plan->name);
    struct plan_site site = site_of(plan, err, section_rules[SHUNT_SECTION_TENSORS - 1].name, "record");
    enum shunt_status st = SHUNT_OK;
    for (site.index = 0; site.index < plan->tensor_count && st == SHUNT_OK; site.index++) {
        uint64_t first = claim_name(plan, table, size - 1, site.index);
        if (first != site.index) {
            schema_refuse(&site, "name is that of record %" PRIu64, first);
            st = SHUNT_ERR_PLAN;
        }
    }
    free(table);
    return st;
}

static bool check_tensors(const struct shunt_plan *plan, struct shunt_err *err)
{
    struct plan_site site = site_of(plan, err, section_rules[SHUNT_SECTION_TENSORS - 1].name, "record");
    for (site.index = 0; site.index < plan->tensor_count; site.index++) {
        if (!check_tensor(plan, &site, &plan->tensors[site.index]))
            return false;
    }
    return true;
}

/* ---- devices -------------------------------------------------------------------- */

static bool check_rank(const struct plan_site *site, const char *field, uint32_t rank, uint32_t count)
{
    return rank == SHUNT_PLAN_NONE || schema_in_range(site, field, rank, 0, count - 1);
}

static bool check_order(const struct plan_site *site, const struct shunt_plan_device *device)
{
    const struct shunt_plan_device *before = device - 1;
    if (device->id <= before->id)
        return schema_refuse(site, "id is %" PRIu32 ", the one before is %" PRIu32, device->id, before->id);
    if (device->node < before->node)
        return schema_refuse(site, "node is %" PRIu32 ", the one before is %" PRIu32, device->node, before->node);
    return true;
}

static bool check_short(const struct shunt_plan *plan, const struct plan_site *site,
                        const struct shunt_plan_device *device)
{
    return schema_in_range(site, "cap_short", device->cap_short, 0, plan->summary.cap / SHUNT_PLAN_SHORT_BYTES);
}

static bool check_device(const struct shunt_plan *plan, const struct plan_site *site,
                         const struct shunt_plan_device *device, uint64_t begin)
{
    const struct shunt_plan_header *header = plan->header;
    uint64_t left = plan->parts_offset + plan->parts_bytes - begin;
    return (device == plan->devices || check_order(site, device)) &&
           check_rank(site, "from_rank", device->from_rank, header->from_rank_count) &&
           check_rank(site, "to_rank", device->to_rank, header->to_rank_count) &&
           check_newer(plan, site, "cap_short", device->cap_short) && check_short(plan, site, device) &&
           schema_equals(site, "part_offset", device->part_offset, begin) &&
           schema_multiple(site, "part_bytes", device->part_bytes, SHUNT_PLAN_ALIGN) &&
           schema_in_range(site, "part_bytes", device->part_bytes, sizeof(struct shunt_plan_part_header), left);
}

static bool check_devices(const struct shunt_plan *plan, struct shunt_err *err)
{
    struct plan_site site = site_of(plan, err, section_rules[SHUNT_SECTION_DEVICES - 1].name, "record");
    uint64_t begin = plan->parts_offset;
    for (site.index = 0; site.index < plan->header->device_count; site.index++) {
        const struct shunt_plan_device *device = &plan->devices[site.index];
        if (!check_device(plan, &site, device, begin))
            return false;
        begin += device->part_bytes;
    }
    site = site_of(plan, err, section_rules[SHUNT_SECTION_PARTS - 1].name, NULL);
    return schema_equals(&site, "bytes", plan->parts_bytes, begin - plan->parts_offset);
}

enum shunt_status schema_check_head(struct shunt_plan *plan, uint64_t *bytes_out, struct shunt_err *err)
{
    if (!check_header(plan, err) || !check_section_table(plan, err))
        return SHUNT_ERR_PLAN;
    *bytes_out = section_table(plan)[SHUNT_SECTION_PARTS - 1].offset;
    return SHUNT_OK;
}

enum shunt_status schema_check_globals(struct shunt_plan *plan, struct shunt_err *err)
{
    plan->header = (const void *)plan->globals;
    if (!check_sections(plan, err) || !check_strings(plan, err) || !check_summary(plan, err) ||
        !check_tensors(plan, err) || !check_devices(plan, err))
        return SHUNT_ERR_PLAN;
    plan->parts = schema_alloc(plan->header->device_count, sizeof(*plan->parts));
    if (plan->parts == NULL)
        return shunt_fail(err, SHUNT_ERR_NOMEM, "%s: out of memory", plan->name);
    return check_names(plan, err);
}
