/* SPDX-License-Identifier: Apache-2.0 */
/** The index of a folder of plans. It is JSON, which this loader reads as the YAML that it also is. */
#include "ladder.h"
#include "names.h"
#include "tables.h"

#define INDEX_TEXT(field_key, member, accepts, text)                                                                   \
    {                                                                                                                  \
        .key = (field_key), .type = CFG_TEXT, .required = true, CFG_MEMBER(struct cfg_index_entry, member),            \
        .accept = (accepts), .help = (text)                                                                            \
    }
#define INDEX_COUNT(field_key, member, text)                                                                           \
    {                                                                                                                  \
        .key = (field_key), .type = CFG_COUNT, .required = true, CFG_MEMBER(struct cfg_index_entry, member),           \
        .max = INT64_MAX, .help = (text)                                                                               \
    }
#define INDEX_OPTION(field_key, member, text)                                                                          \
    {                                                                                                                  \
        .key = (field_key), .type = CFG_COUNT, CFG_MEMBER(struct cfg_index_entry, member), .max = INT64_MAX,           \
        .absent = -1, .help = (text)                                                                                   \
    }

static const struct cfg_choice spills[] = {{"none", 0}, {"host", 1}, {NULL, 0}};

static const struct cfg_field entry_fields[] = {
    INDEX_TEXT("name", name, cfg_accept_file_name, "Name of the step"),
    INDEX_TEXT("plan", file, cfg_accept_plan_file, "Plan file, beside the index"),
    INDEX_TEXT("plan_id", plan_id, cfg_accept_digest, "Id of the plan"),
    INDEX_TEXT("compiler", compiler, cfg_accept_digest, "SHA-256 of the program that compiled it"),
    INDEX_TEXT("model", model, cfg_accept_name, "Name of the model"),
    INDEX_TEXT("from", from, cfg_accept_name, "Name of the old layout"),
    INDEX_TEXT("to", to, cfg_accept_name, "Name of the new layout"),
    INDEX_TEXT("cluster", cluster, cfg_accept_name, "Name of the cluster"),
    INDEX_TEXT("model_digest", model_digest, cfg_accept_digest, "Digest of the model"),
    INDEX_TEXT("from_digest", from_digest, cfg_accept_digest, "Digest of the old layout"),
    INDEX_TEXT("to_digest", to_digest, cfg_accept_digest, "Digest of the new layout"),
    INDEX_TEXT("move_digest", move_digest, cfg_accept_digest, "Digest of what the layouts ask of the move itself"),
    INDEX_TEXT("cluster_digest", cluster_digest, cfg_accept_digest, "Digest of the cluster"),
    {.key = "asked_digest",
     .type = CFG_TEXT,
     CFG_MEMBER(struct cfg_index_entry, asked_digest),
     .accept = cfg_accept_digest,
     .help = "Digest of the new layout as its document has it, where the compiler chose devices for its ranks, and "
             "to_digest is that of what the plan leaves; absent: it did not"},
    INDEX_OPTION("cap", cap, "Cap that was asked for, in bytes; absent: the memory of the cluster's devices"),
    INDEX_OPTION("staging", staging, "Staging that was asked for, in bytes; absent: as the compiler chose"),
    {.key = "spill",
     .type = CFG_CHOICE,
     CFG_MEMBER(struct cfg_index_entry, spill_host),
     .choices = spills,
     .help = "Where old buffers were allowed to wait; absent: `none`"},
    INDEX_COUNT("bytes", bytes, "Size of the plan file"),
    INDEX_COUNT("devices", devices, "Devices that take part"),
    INDEX_COUNT("rounds", rounds, "Rounds"),
    INDEX_COUNT("moved", moved, "Bytes that cross between devices"),
    INDEX_COUNT("peak", peak, "Most bytes live at once on a device"),
};

static const struct cfg_table entry_table = {
    .help = "A plan",
    .fields = entry_fields,
    .field_count = sizeof(entry_fields) / sizeof(entry_fields[0]),
    .size = sizeof(struct cfg_index_entry),
    CFG_POS(struct cfg_index_entry, pos),
};

static const struct cfg_choice kinds[] = {{"index", 0}, {NULL, 0}};

static const struct cfg_field index_fields[] = {
    CFG_KIND_FIELD(kinds),
    {.key = "ladder",
     .type = CFG_TEXT,
     .required = true,
     CFG_MEMBER(struct cfg_index, ladder),
     .accept = cfg_accept_name,
     .help = "Name of the ladder"},
    {.key = "plans",
     .type = CFG_LIST,
     .required = true,
     CFG_MEMBER(struct cfg_index, entries),
     CFG_NUMBER(struct cfg_index, entry_count),
     .max = CFG_MOST_STEPS,
     .table = &entry_table,
     .help = "The plans, in the order of the ladder"},
};

static const struct cfg_table index_table = {
    .help = "Plans of a ladder, as shunt precompile writes them to index.json",
    .fields = index_fields,
    .field_count = sizeof(index_fields) / sizeof(index_fields[0]),
    .size = sizeof(struct cfg_index),
};

const struct cfg_document cfg_index_document = {
    .kind = "index", .title = "Shunt index of plans", .table = &index_table};
