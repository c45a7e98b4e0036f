/* SPDX-License-Identifier: Apache-2.0 */
/** That each header compiles alone is proved by building header_alone.in; here, what they promise at compile time. */
#include "harness.h"
#include "shunt/plan.h"
#include "shunt/verify.h"

int header_alone_plan_in_c(void);
int header_alone_plan_format_in_c(void);
int header_alone_status_in_c(void);
int header_alone_types_in_c(void);
int header_alone_verify_in_c(void);

static void compile_alone(void)
{
    CHECK(header_alone_plan_in_c() == 1);
    CHECK(header_alone_plan_format_in_c() == 1);
    CHECK(header_alone_status_in_c() == 1);
    CHECK(header_alone_types_in_c() == 1);
    CHECK(header_alone_verify_in_c() == 1);
}

/* A record without holes has the sum of its members as size: no byte of a plan is undefined. */
static void records_have_no_holes(void)
{
    CHECK_EQ_U64(sizeof(struct shunt_plan_header), 8 + 4 * 4 + 8 + 5 * 32 + 7 * 4 + 36);
    CHECK_EQ_U64(sizeof(struct shunt_plan_section), 2 * 4 + 2 * 8 + 2 * 4);
    CHECK_EQ_U64(sizeof(struct shunt_plan_summary), 8 * 4 + 11 * 8 + 3 * 8 + 9 * 8 + 6 * 4 + 6 * 8);
    CHECK_EQ_U64(sizeof(struct shunt_plan_tensor), 2 * 4 + 2 * 8);
    CHECK_EQ_U64(sizeof(struct shunt_plan_device), 4 * 4 + 2 * 8 + 2 * 4 + 3 * 8);
    CHECK_EQ_U64(sizeof(struct shunt_plan_part_header), 8 * 4 + 2 * 8);
    CHECK_EQ_U64(sizeof(struct shunt_plan_buffer), 4 + 4 + 8 + 6 * 4);
    CHECK_EQ_U64(sizeof(struct shunt_plan_holding), 2 * 4 + 8);
    CHECK_EQ_U64(sizeof(struct shunt_plan_view), 2 * 4 + 12 * 8);
    CHECK_EQ_U64(sizeof(struct shunt_plan_corner), 6 * 8);
    CHECK_EQ_U64(sizeof(struct shunt_plan_round), 4 * 4 + 8);
    CHECK_EQ_U64(sizeof(struct shunt_plan_op), 4 + 5 * 4 + 2 * 8);
    CHECK_EQ_U64(sizeof(struct shunt_plan_message), 4 * 4 + 2 * 8);
}

/* ---- the document ----------------------------------------------------------------- */

struct doc_row {
    const char *record, *member;
    size_t record_bytes, offset, bytes;
};

#define ROW(record, member)                                                                                            \
    {                                                                                                                  \
        "shunt_plan_" #record, #member, sizeof(struct shunt_plan_##record),                                            \
            offsetof(struct shunt_plan_##record, member), sizeof(((struct shunt_plan_##record *)0)->member)            \
    }

/* clang-format off */
static const struct doc_row doc_rows[] = {
    ROW(header, magic),
    ROW(header, version_major),
    ROW(header, version_minor),
    ROW(header, header_bytes),
    ROW(header, header_crc32c),
    ROW(header, file_bytes),
    ROW(header, plan_id),
    ROW(header, model_digest),
    ROW(header, from_digest),
    ROW(header, to_digest),
    ROW(header, cluster_digest),
    ROW(header, device_count),
    ROW(header, from_rank_count),
    ROW(header, to_rank_count),
    ROW(header, round_count),
    ROW(header, overlap_depth),
    ROW(header, section_count),
    ROW(header, section_table_crc32c),
    ROW(header, reserved),
    ROW(section, kind),
    ROW(section, crc32c),
    ROW(section, offset),
    ROW(section, bytes),
    ROW(section, record_bytes),
    ROW(section, reserved),
    ROW(summary, model),
    ROW(summary, from),
    ROW(summary, to),
    ROW(summary, cluster),
    ROW(summary, method),
    ROW(summary, solver),
    ROW(summary, solver_status),
    ROW(summary, placement),
    ROW(summary, needed_remote),
    ROW(summary, moved),
    ROW(summary, relayed),
    ROW(summary, local),
    ROW(summary, kept),
    ROW(summary, inter_node),
    ROW(summary, intra_node),
    ROW(summary, filled),
    ROW(summary, inter_node_lower_bound),
    ROW(summary, max_send),
    ROW(summary, max_recv),
    ROW(summary, predicted_seconds),
    ROW(summary, lower_bound_seconds),
    ROW(summary, lower_bound_rounds_seconds),
    ROW(summary, cap),
    ROW(summary, peak),
    ROW(summary, peak_lower_bound),
    ROW(summary, least_cap),
    ROW(summary, staging),
    ROW(summary, from_max),
    ROW(summary, to_max),
    ROW(summary, reserve),
    ROW(summary, transport),
    ROW(summary, peak_device),
    ROW(summary, max_group_messages),
    ROW(summary, max_peers),
    ROW(summary, rollback_until_round),
    ROW(summary, replicas_checked),
    ROW(summary, state_notes),
    ROW(summary, ops),
    ROW(summary, saved),
    ROW(summary, host_peak),
    ROW(summary, parked),
    ROW(summary, transport_per_peer),
    ROW(summary, forwarded),
    ROW(tensor, name),
    ROW(tensor, ndim),
    ROW(tensor, dims),
    ROW(tensor, elements),
    ROW(device, id),
    ROW(device, node),
    ROW(device, from_rank),
    ROW(device, to_rank),
    ROW(device, part_offset),
    ROW(device, part_bytes),
    ROW(device, part_crc32c),
    ROW(device, cap_short),
    ROW(device, from_bytes),
    ROW(device, to_bytes),
    ROW(device, peak_bytes),
    ROW(part_header, device),
    ROW(part_header, buffer_count),
    ROW(part_header, holding_count),
    ROW(part_header, view_count),
    ROW(part_header, corner_count),
    ROW(part_header, op_count),
    ROW(part_header, message_count),
    ROW(part_header, reserved),
    ROW(part_header, staging_bytes),
    ROW(buffer, tensor),
    ROW(buffer, state),
    ROW(buffer, dtype),
    ROW(buffer, side),
    ROW(buffer, tier),
    ROW(buffer, bytes),
    ROW(buffer, view),
    ROW(buffer, holding_begin),
    ROW(buffer, holding_count),
    ROW(buffer, alloc_round),
    ROW(buffer, free_round),
    ROW(buffer, origin_state),
    ROW(buffer, origin_dtype),
    ROW(buffer, reserved),
    ROW(holding, view),
    ROW(holding, corner),
    ROW(holding, offset),
    ROW(view, ndim),
    ROW(view, elem_bytes),
    ROW(view, shape),
    ROW(view, stride),
    ROW(corner, lo),
    ROW(round, op_begin),
    ROW(round, unpack_begin),
    ROW(round, message_begin),
    ROW(round, reserved),
    ROW(round, live_bytes),
    ROW(op, kind),
    ROW(op, cast),
    ROW(op, reserved0),
    ROW(op, src_buffer),
    ROW(op, dst_buffer),
    ROW(op, src_view),
    ROW(op, dst_view),
    ROW(op, reserved1),
    ROW(op, src_offset),
    ROW(op, dst_offset),
    ROW(message, peer),
    ROW(message, direction),
    ROW(message, buffer),
    ROW(message, reserved),
    ROW(message, offset),
    ROW(message, bytes),
};
/* clang-format on */

static char document[64 * 1024];

static bool read_document(void)
{
    FILE *file = fopen(PLAN_FORMAT_MD, "rb");
    if (file == NULL)
        return false;
    size_t size = fread(document, 1, sizeof(document) - 1, file);
    document[size] = 0;
    fclose(file);
    return size > 0 && size < sizeof(document) - 1;
}

/* Member by member in the order of the header: "| offset | bytes | type | `name` |". */
static void document_agrees(void)
{
    const char *at = document;
    CHECK(read_document());
    for (size_t i = 0; i < sizeof(doc_rows) / sizeof(doc_rows[0]); i++) {
        const struct doc_row *row = &doc_rows[i];
        char want[128];
        if (row->offset == 0) {
            snprintf(want, sizeof(want), "`struct %s`, %zu bytes.", row->record, row->record_bytes);
            const char *heading = strstr(at, want);
            CHECK_MSG(heading != NULL, "%s", want);
            at = heading != NULL ? heading : at;
        }
        snprintf(want, sizeof(want), "\n| %zu | %zu |", row->offset, row->bytes);
        const char *line = strstr(at, want);
        CHECK_MSG(line != NULL, "%s.%s:%s", row->record, row->member, want);
        if (line == NULL)
            continue;
        snprintf(want, sizeof(want), " `%s` |", row->member);
        const char *name = strstr(line, want), *end = strchr(line + 1, '\n');
        CHECK_MSG(name != NULL && name < end, "%s.%s: not at its offset", row->record, row->member);
        at = line + 1;
    }
}

/* The text of each rule is its row in the document, word for word but for the quotes of names. */
static void rules_agree(void)
{
    static char plain[sizeof(document)];
    size_t size = 0;
    CHECK(read_document());
    for (const char *at = document; *at != '\0'; at++) {
        if (*at != '`')
            plain[size++] = *at;
    }
    plain[size] = '\0';
    for (int rule = SHUNT_RULE_PART; rule < SHUNT_RULE_COUNT; rule++) {
        char want[1024];
        snprintf(want, sizeof(want), "\n| %s | %s |\n", shunt_verify_rule_name((enum shunt_verify_rule)rule),
                 shunt_verify_rule_text((enum shunt_verify_rule)rule));
        CHECK_MSG(strstr(plain, want) != NULL, "%s", want);
    }
}

static const struct test_case cases[] = {
    {"compile_alone", compile_alone},
    {"records_have_no_holes", records_have_no_holes},
    {"document_agrees", document_agrees},
    {"rules_agree", rules_agree},
};
TEST_MAIN(cases)
