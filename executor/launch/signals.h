/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHUNT_EXECUTOR_SIGNALS_H
#define SHUNT_EXECUTOR_SIGNALS_H

/** INT and HUP are ignored under nohup and in the background of some shells; then they stay so. */

#include <stdbool.h>

bool signals_ignored(int number);

#endif
