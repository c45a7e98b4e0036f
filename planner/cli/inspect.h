/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHUNT_PLANNER_INSPECT_H
#define SHUNT_PLANNER_INSPECT_H

/** What `shunt inspect` can print on stdout, one file per view. */

#include <stdint.h>

#include "json.h"
#include "shunt/plan.h"

/** Devices [begin, end) of a plan, as indices in its table. */
struct inspect_range {
    uint32_t begin, end;
};

/** The people's page, and the JSON object of design.md 10.2. */
void inspect_page(const struct shunt_plan *plan, const char *path);
void inspect_json(const struct shunt_plan *plan);

/** One device: its ranks and bytes, and a row per round. @return SHUNT_ERR_PLAN, SHUNT_ERR_NOMEM */
enum shunt_status inspect_device_page(const struct shunt_plan *plan, uint32_t device, struct shunt_err *err);
enum shunt_status inspect_device_json(const struct shunt_plan *plan, uint32_t device, struct shunt_err *err);

/** JSON lines of design.md 10.3. @return SHUNT_ERR_PLAN, SHUNT_ERR_NOMEM; nothing is printed on failure */
enum shunt_status inspect_buffers(const struct shunt_plan *plan, struct inspect_range range, struct shunt_err *err);
enum shunt_status inspect_ops(const struct shunt_plan *plan, struct inspect_range range, struct shunt_err *err);

/** A rank, or null for SHUNT_PLAN_NONE. */
void inspect_key_rank(struct json *json, const char *key, uint32_t rank);

#endif
