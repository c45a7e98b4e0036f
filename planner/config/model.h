/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHUNT_PLANNER_CONFIG_MODEL_H
#define SHUNT_PLANNER_CONFIG_MODEL_H

/** Parts of a model document, one file for each topic. Tables fill members of struct cfg_tensor. */

#include "config.h"
#include "engine.h"
#include "tables.h"

#define CFG_MOST_EXTENT   (INT64_C(1) << 40)
#define CFG_MOST_ELEMENTS (INT64_C(1) << 56) /* of the whole model: bytes of all states stay below 2^62 */

extern const struct cfg_table cfg_tensor_table;
extern const struct cfg_table cfg_cut_table;
extern const struct cfg_table cfg_layer_range_table;

/** Product of the extents; more than CFG_MOST_ELEMENTS if it is too large for an int64_t. */
int64_t cfg_tensor_elements(const struct cfg_tensor *tensor);

/** Reader of `layers`: a range {from, to}, or a list such as "0,2,4-6". */
bool cfg_layers_read(const struct cfg_site *site, const struct cfg_field *field, void *tensor);

/** Reader of `tied`: "last", "mtp", or a list of them. */
bool cfg_ties_read(const struct cfg_site *site, const struct cfg_field *field, void *tensor);

#endif
