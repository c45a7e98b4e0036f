/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHUNT_PLANNER_PIPELINE_STRING_H
#define SHUNT_PLANNER_PIPELINE_STRING_H

/** The layout string of a pipeline: "Et*3|(tt|)*29,m|L". */

#include "space/pipeline.h"

/** Fill chunks, chunk_begin and the chunks of embedding, loss and MTP block. */
enum shunt_status pipeline_string_parse(struct arena *arena, const struct cfg_layout *layout,
                                        const struct cfg_model *model, struct pipeline *pipeline,
                                        struct shunt_err *err);

#endif
