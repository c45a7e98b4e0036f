/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHUNT_PLANNER_DIGEST_H
#define SHUNT_PLANNER_DIGEST_H

/** SHA-256 digests of documents (of what they mean, not of how they are written) and of plans. */

#include "config/config.h"
#include "emit/output.h"
#include "shunt/plan.h"

/**
 * SHA-256 of a plan with the header's plan_id and header_crc32c taken as zero. Its front, header included, is here,
 * and what follows that is in `output`.
 */
enum shunt_status digest_plan_id(const void *front, size_t front_bytes, struct output *output, uint64_t file_bytes,
                                 uint8_t out[SHUNT_PLAN_DIGEST_BYTES], struct shunt_err *err);

/** The same of an open plan, part by part: none of them stays with the plan. @return also the status of a bad part */
enum shunt_status digest_open_plan(const struct shunt_plan *plan, uint8_t out[SHUNT_PLAN_DIGEST_BYTES],
                                   struct shunt_err *err);

/** SHA-256 of the running program's file. @return SHUNT_ERR_IO where the system does not show it */
enum shunt_status digest_program(uint8_t out[SHUNT_PLAN_DIGEST_BYTES]);

enum shunt_status digest_model(const struct cfg_model *model, uint8_t out[SHUNT_PLAN_DIGEST_BYTES]);
enum shunt_status digest_cluster(const struct cfg_cluster *cluster, uint8_t out[SHUNT_PLAN_DIGEST_BYTES]);

/**
 * A layout's digest says where which bytes lie, so that sides of two moves can be told to be the same. It covers the
 * model's: the same parallel sizes over another model differ. What a layout asks of a move to or from it (states made
 * from others, whose copies are current) is digest_move()'s.
 */
enum shunt_status digest_layout(const struct cfg_layout *layout, const uint8_t model[SHUNT_PLAN_DIGEST_BYTES],
                                uint8_t out[SHUNT_PLAN_DIGEST_BYTES]);

/** What two layouts ask of the move between them, beside where bytes lie. */
enum shunt_status digest_move(const struct cfg_layout *from, const struct cfg_layout *to,
                              uint8_t out[SHUNT_PLAN_DIGEST_BYTES]);

#endif
