/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHUNT_PLANNER_CONFIG_LAYOUT_H
#define SHUNT_PLANNER_CONFIG_LAYOUT_H

/** Parts of a layout document, one file for each topic. Tables fill members of struct cfg_layout unless they say otherwise. */

#include "engine.h"
#include "tables.h"

#define CFG_MOST_RANKS (INT64_C(1) << 20)

/** Fields of the document's own table. */
enum {
    LAYOUT_KIND,
    LAYOUT_NAME,
    LAYOUT_MODEL,
    LAYOUT_CLUSTER,
    LAYOUT_PARALLEL,
    LAYOUT_ORDER,
    LAYOUT_PIPELINE,
    LAYOUT_SHARD,
    LAYOUT_ATTENTION,
    LAYOUT_VOCAB,
    LAYOUT_STORAGE,
    LAYOUT_MESH,
    LAYOUT_PLACEMENTS,
    LAYOUT_RANKS,
    LAYOUT_HOLDINGS,
    LAYOUT_AXES,
    LAYOUT_STATE,
    LAYOUT_GRADIENTS,
    LAYOUT_CURRENT,
    LAYOUT_DEVICES,
    LAYOUT_FIELD_COUNT
};

extern const struct cfg_table cfg_parallel_table;
extern const struct cfg_table cfg_axes_table;
extern const struct cfg_table cfg_pipeline_table;
extern const struct cfg_table cfg_shard_table; /* of struct cfg_shard */
extern const struct cfg_table cfg_state_table;
extern const struct cfg_table cfg_mesh_table;      /* of struct cfg_mesh, without the rules */
extern const struct cfg_table cfg_mesh_rule_table; /* of struct cfg_mesh_rule */
extern const struct cfg_table cfg_holding_table;   /* of struct cfg_holding */

extern const struct cfg_table cfg_storage_table; /* of struct cfg_storage */

/** What the entries under `storage` must satisfy beside each other. */
void cfg_storage_check(struct cfg_scope *layout_scope);

/** Reader of `order`. */
bool cfg_order_read(const struct cfg_site *site, const struct cfg_field *field, void *layout);

/** An axis that the order leaves out has no place in the numbering: its size must be 1. */
void cfg_order_check(struct cfg_scope *layout_scope);

/** Number of ranks of a mesh, at most CFG_MOST_RANKS + 1. */
int64_t cfg_mesh_ranks(const struct cfg_mesh *mesh);

/** What the rules under `placements` must satisfy beside each other and the rest of the document. */
void cfg_mesh_rules_check(struct cfg_scope *layout_scope);

/** What the entries under `holdings` must satisfy beside the rest of the document. */
void cfg_holdings_check(struct cfg_scope *layout_scope);

/** What the entries of `state` mean, and must satisfy, beside each other: words in place of dtypes become flags. */
void cfg_state_settle(struct cfg_scope *layout_scope);

/** Reader of a list of the field's choices, which are states: sets entries of a bool[SHUNT_STATE_COUNT] at its offset. */
bool cfg_states_read(const struct cfg_site *site, const struct cfg_field *field, void *object);

/** Report states written in this entry of a list of the layout that the layout does not keep. */
void cfg_states_check(const struct cfg_scope *layout_scope, const struct cfg_scope *entry, const bool *states);

#endif
