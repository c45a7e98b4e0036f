/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHUNT_PLANNER_DEVICE_LIST_H
#define SHUNT_PLANNER_DEVICE_LIST_H

/** Devices on the command line: "0-39,48-127", as in the `devices` of a layout. */

#include <stdint.h>

#include "shunt/status.h"

/**
 * @param option       its name, for messages
 * @param devices_out  ascending as written, distinct; release with free()
 * @return SHUNT_ERR_USAGE, SHUNT_ERR_NOMEM
 */
enum shunt_status device_list_parse(const char *option, const char *text, uint32_t **devices_out, uint32_t *count_out,
                                    struct shunt_err *err);

#endif
