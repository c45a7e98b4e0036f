/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHUNT_PLANNER_CONFIG_DEVICES_H
#define SHUNT_PLANNER_CONFIG_DEVICES_H

/**
 * The `devices` of a layout: "8-15", "0-3,8-11", 5, or a list of counts. Rank r runs on the r-th
 * device named; ranges count upwards and each device is named once.
 */

#include "engine.h"

#define CFG_MAX_DEVICES (1 << 20) /* device numbers are below */

/** Reader of a CFG_CUSTOM field with max CFG_MAX_DEVICES - 1: sets devices and device_count of a struct cfg_layout. */
bool cfg_devices_read(const struct cfg_site *site, const struct cfg_field *field, void *layout);

#endif
