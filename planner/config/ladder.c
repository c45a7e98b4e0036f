/* SPDX-License-Identifier: Apache-2.0 */
#include "ladder.h"

#include <inttypes.h>
#include <strings.h>

#include "names.h"
#include "tables.h"

#define MOST_BYTES (INT64_C(1) << 50)

static const struct cfg_choice spills[] = {{"none", 0}, {"host", 1}, {NULL, 0}};

static const struct cfg_field step_fields[] = {
    {.key = "name",
     .type = CFG_TEXT,
     .required = true,
     CFG_MEMBER(struct cfg_ladder_step, name),
     .accept = cfg_accept_file_name,
     .json = "\"pattern\": \"^[A-Za-z0-9_][A-Za-z0-9._-]{0,99}$\"",
     .help = "Name of the step, and with .plan of its file; unique, case aside"},
    {.key = "from",
     .type = CFG_TEXT,
     .required = true,
     CFG_MEMBER(struct cfg_ladder_step, from),
     CFG_POS(struct cfg_ladder_step, from_pos),
     .accept = cfg_accept_reference,
     .help = "Old layout: a file relative to this document, or a built-in"},
    {.key = "to",
     .type = CFG_TEXT,
     .required = true,
     CFG_MEMBER(struct cfg_ladder_step, to),
     CFG_POS(struct cfg_ladder_step, to_pos),
     .accept = cfg_accept_reference,
     .help = "New layout: the same"},
    {.key = "cluster",
     .type = CFG_TEXT,
     CFG_MEMBER(struct cfg_ladder_step, cluster),
     CFG_POS(struct cfg_ladder_step, cluster_pos),
     .accept = cfg_accept_reference,
     .help = "Cluster: the same; absent: as the layouts say"},
    {.key = "cap",
     .type = CFG_SIZE,
     CFG_MEMBER(struct cfg_ladder_step, cap),
     .min = 1,
     .max = MOST_BYTES,
     .help = "Most memory per device, everything included; absent: the memory of the cluster's devices"},
    {.key = "staging",
     .type = CFG_SIZE,
     CFG_MEMBER(struct cfg_ladder_step, staging),
     .min = 1,
     .max = MOST_BYTES,
     .help = "Most memory per device for staging, inside the cap; absent: as the compiler chooses"},
    {.key = "spill",
     .type = CFG_CHOICE,
     CFG_MEMBER(struct cfg_ladder_step, spill_host),
     .choices = spills,
     .help = "Where old buffers may wait if the cap is too small otherwise; absent: `none`"},
};

static const struct cfg_table step_table = {
    .help = "A move",
    .fields = step_fields,
    .field_count = sizeof(step_fields) / sizeof(step_fields[0]),
    .size = sizeof(struct cfg_ladder_step),
    CFG_POS(struct cfg_ladder_step, pos),
};

enum { LADDER_KIND, LADDER_NAME, LADDER_STEPS };

/* Files of two steps must not be one, also where a file system takes large and small letters for the same. */
static void check_ladder(struct cfg_scope *scope)
{
    const struct cfg_ladder *ladder = scope->object;
    if (!cfg_scope_usable(scope, CFG_BIT(LADDER_STEPS)))
        return;
    for (uint32_t i = 1; i < ladder->step_count; i++) {
        uint32_t first = 0;
        while (first < i && strcasecmp(ladder->steps[first].name, ladder->steps[i].name) != 0)
            first++;
        if (first == i)
            continue;
        const struct cfg_path list = {.up = scope->path, .key = "steps"}, entry = {.up = &list, .index = i};
        const struct cfg_path path = {.up = &entry, .key = "name"};
        cfg_report(scope->loader->diag, ladder->steps[i].pos, &path,
                   "found the name `%s` a second time (first on line %" PRIu32 "), expected unique names",
                   ladder->steps[i].name, ladder->steps[first].pos.line);
    }
}

static const struct cfg_choice kinds[] = {{"ladder", 0}, {NULL, 0}};

static const struct cfg_field ladder_fields[] = {
    [LADDER_KIND] = CFG_KIND_FIELD(kinds),
    [LADDER_NAME] = {.key = "name",
                     .type = CFG_TEXT,
                     .required = true,
                     CFG_MEMBER(struct cfg_ladder, name),
                     .accept = cfg_accept_name,
                     .help = "Name of the ladder"},
    [LADDER_STEPS] = {.key = "steps",
                      .type = CFG_LIST,
                      .required = true,
                      CFG_MEMBER(struct cfg_ladder, steps),
                      CFG_NUMBER(struct cfg_ladder, step_count),
                      .min = 1,
                      .max = CFG_MOST_STEPS,
                      .table = &step_table,
                      .help = "The moves, in the order in which they are compiled"},
};

static const struct cfg_table ladder_table = {
    .help = "Moves that are compiled ahead of time, one plan each",
    .fields = ladder_fields,
    .field_count = sizeof(ladder_fields) / sizeof(ladder_fields[0]),
    .size = sizeof(struct cfg_ladder),
    .check = check_ladder,
};

const struct cfg_document cfg_ladder_document = {.kind = "ladder", .title = "Shunt ladder", .table = &ladder_table};
