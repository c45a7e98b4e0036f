/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHUNT_PLANNER_CONFIG_TABLES_H
#define SHUNT_PLANNER_CONFIG_TABLES_H

/** The kinds of document, as tables. */

#include "engine.h"

struct cfg_document {
    const char *kind;  /* text of its `kind` key */
    const char *title; /* for people: "Shunt model" */
    const struct cfg_table *table;
    const char *bulk; /* key whose list may be large (CFG_MAX_BULK_*); NULL: none */
};

extern const struct cfg_document cfg_model_document;
extern const struct cfg_document cfg_cluster_document;
extern const struct cfg_document cfg_layout_document;
extern const struct cfg_document cfg_ladder_document;
extern const struct cfg_document cfg_index_document;

/** All of them, NULL at the end. */
extern const struct cfg_document *const cfg_documents[];

/** Most layers a model may have, and most experts a layer. */
#define CFG_MOST_LAYERS  65536
#define CFG_MOST_EXPERTS 65536

/** The `kind` key that every document starts with; not kept. */
#define CFG_KIND_FIELD(kind_choices)                                                                                   \
    {                                                                                                                  \
        .key = "kind", .type = CFG_CHOICE, .required = true, .choices = (kind_choices),                                \
        .help = "What this document is"                                                                                \
    }

#endif
