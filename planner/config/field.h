/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHUNT_PLANNER_CONFIG_FIELD_H
#define SHUNT_PLANNER_CONFIG_FIELD_H

/** One field: reading it by type, and saying what it expects. Internal to the engine. */

#include "engine.h"

#define CFG_EXPECTED_BYTES 512

/** "a count from 1 to 6", "layer, first, last or all"; returns buffer. */
const char *cfg_field_expected(const struct cfg_field *field, char buffer[CFG_EXPECTED_BYTES]);

/** Read a value into the object. @return false when anything was reported or memory ran out */
bool cfg_field_read(const struct cfg_site *site, const struct cfg_field *field, void *object);

/** Store an integer in a member of 1, 4 or 8 bytes; nothing for size 0. */
void cfg_store_integer(const struct cfg_field *field, void *object, int64_t value);

#endif
