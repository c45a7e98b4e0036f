/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>

#include "shunt/escape.h"
#include "verify_internal.h"

struct rule_row {
    const char *name;
    const char *text;
};

static const struct rule_row rule_rows[SHUNT_RULE_COUNT] = {
    {"none", "no rule"},
    [SHUNT_RULE_PART] = {"part", "every part reads"},
    [SHUNT_RULE_HOLDING] =
        {"holding", "holdings of a buffer are apart in the tensor and in the buffer; no element is held twice "
                    "in a buffer; the strides of a buffer's holdings, with those of its local shape, divide "
                    "each other; a device has at most one buffer per tensor, state and side, apart from scratch"},
    [SHUNT_RULE_SOURCE] = {"source", "COPY and PACK read a region inside one holding of an old or kept buffer that no "
                                     "earlier round has freed, or of a new buffer or a scratch one that no earlier "
                                     "round has freed, all of whose elements in the region were written in rounds up "
                                     "to k - overlap_depth; UNPACK reads inside one receive"},
    [SHUNT_RULE_TARGET] = {"target", "COPY and UNPACK write a region inside one holding of an allocated new buffer, or "
                                     "of an allocated scratch one that no earlier round has freed; FILL writes pads of "
                                     "an allocated new buffer or a kept one"},
    [SHUNT_RULE_COORDINATE] =
        {"coordinate", "what is written is the same box of the same tensor as what was read, on whatever device that "
                       "was; what was read is the origin of what is written (its own state, or, of a weight, the "
                       "master, and of a master the weight), or a new or scratch buffer made from the same origin; "
                       "casts lead from the dtype read to the dtype written, and there is one at most, counting the "
                       "one that a new or scratch buffer has behind it; all new buffers of a tensor and state have one "
                       "dtype and one origin"},
    [SHUNT_RULE_COVERAGE] =
        {"coverage",
         "every element of every holding of a new or scratch buffer is written exactly once, and every other byte of a "
         "new one is filled exactly once; whatever state of a tensor a side has, it holds all of it, and the old side "
         "all of what the "
         "new one is made from; what the old side has the new one has, but for a state of weights other than param, "
         "which it may lack for all tensors; a master that the old side has is not made from another state"},
    [SHUNT_RULE_MESSAGE] = {"message", "every send has its receive and every receive its send, in the same round, with "
                                       "the same bytes, and carries a piece"},
    [SHUNT_RULE_STAGING] =
        {"staging", "messages of a round are apart in their slot; packs are apart and each inside one send; every pack "
                    "has exactly one unpack at the same distance, with the same shape and element size in the slot"},
    [SHUNT_RULE_LIFETIME] = {"lifetime", "a device has buffers of a side only if that side has a rank there"},
    [SHUNT_RULE_MEMORY] = {"memory",
                           "live_bytes, peak_bytes, from_bytes, to_bytes are those of section 5, no "
                           "live_bytes is above the device's cap, and the slots of no device are above staging"},
    [SHUNT_RULE_SUMMARY] =
        {"summary", "the figures of section 2.4 are those of the replay; bounds do not exceed what they bound; what "
                    "state_notes calls copied is a tensor, nothing else that it names is, and it names nothing twice"},
    [SHUNT_RULE_RANK] = {"rank", "old ranks and new ranks are each a permutation of 0..count-1"},
};

static const struct rule_row *rule_row(enum shunt_verify_rule rule)
{
    unsigned index = (unsigned)rule;
    return &rule_rows[index < SHUNT_RULE_COUNT ? index : 0];
}

const char *shunt_verify_rule_name(enum shunt_verify_rule rule)
{
    return rule_row(rule)->name;
}

const char *shunt_verify_rule_text(enum shunt_verify_rule rule)
{
    return rule_row(rule)->text;
}

/* "device 3 round 17: " as far as they apply; returns its length. */
static size_t write_place(char *text, size_t size, uint32_t device, uint32_t round)
{
    int length = 0;
    if (device != VNONE && round != VNONE)
        length = snprintf(text, size, "device %" PRIu32 " round %" PRIu32 ": ", device, round);
    else if (device != VNONE)
        length = snprintf(text, size, "device %" PRIu32 ": ", device);
    return (size_t)length;
}

void vproblem(struct verifier *v, enum shunt_verify_rule rule, uint32_t device, uint32_t round, const char *format, ...)
{
    struct shunt_verify_report *report = v->report;
    report->problem_total++;
    if (report->problem_count == SHUNT_VERIFY_MAX_PROBLEMS)
        return;
    struct shunt_verify_problem *problem = &report->problems[report->problem_count++];
    problem->rule = rule;
    char raw[sizeof(problem->text)];
    size_t length = write_place(raw, sizeof(raw), device, round);
    va_list args;
    va_start(args, format);
    vsnprintf(raw + length, sizeof(raw) - length, format, args);
    va_end(args);
    shunt_escape(problem->text, sizeof(problem->text), raw); /* names come from the plan */
}

struct vtext vtext_box(const int64_t *lo, const int64_t *shape, uint32_t ndim)
{
    struct vtext out = {""};
    size_t used = 0;
    for (uint32_t d = 0; d < ndim && used < sizeof(out.text); d++)
        used += (size_t)snprintf(out.text + used, sizeof(out.text) - used, "%s[%" PRId64 ",%" PRId64 ")",
                                 d > 0 ? "x" : "", lo[d], lo[d] + shape[d]);
    return out;
}

struct vtext vtext_point(const int64_t *point, uint32_t ndim)
{
    struct vtext out = {""};
    size_t used = 0;
    for (uint32_t d = 0; d < ndim && used < sizeof(out.text); d++)
        used += (size_t)snprintf(out.text + used, sizeof(out.text) - used, "%s%" PRId64, d > 0 ? "," : "[", point[d]);
    if (used < sizeof(out.text))
        snprintf(out.text + used, sizeof(out.text) - used, "]");
    return out;
}

struct vtext vtext_buffer(const struct verifier *v, uint32_t device, uint32_t buffer)
{
    static const char *const sides[] = {[SHUNT_SIDE_FROM] = "from",
                                        [SHUNT_SIDE_TO] = "to",
                                        [SHUNT_SIDE_BOTH] = "kept",
                                        [SHUNT_SIDE_SCRATCH] = "scratch"};
    const struct shunt_plan_buffer *record = &v->parts[device].part.buffers[buffer];
    const struct shunt_plan_tensor *tensor = shunt_plan_get_tensor(v->plan, record->tensor);
    struct vtext out;
    snprintf(out.text, sizeof(out.text), "%s:%s/%.120s", sides[record->side], shunt_state_name(record->state),
             shunt_plan_string(v->plan, tensor->name));
    return out;
}

struct vtext vtext_ranks(const struct verifier *v, uint32_t device)
{
    const struct shunt_plan_device *record = shunt_plan_get_device(v->plan, device);
    char from[16] = "-", to[16] = "-";
    if (record->from_rank != VNONE)
        snprintf(from, sizeof(from), "%" PRIu32, record->from_rank);
    if (record->to_rank != VNONE)
        snprintf(to, sizeof(to), "%" PRIu32, record->to_rank);
    struct vtext out;
    snprintf(out.text, sizeof(out.text), "old rank %s, new rank %s", from, to);
    return out;
}
