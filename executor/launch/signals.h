/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHUNT_EXECUTOR_SIGNALS_H
#define SHUNT_EXECUTOR_SIGNALS_H

/**
 * INT and HUP as the program found them: ignored under nohup and in the background of some shells.
 *
 * UCX takes HUP for itself before main() runs (UCX_DEBUG_SIGNO), so that what was there is looked
 * up before that, and put back by signals_restore(). UCX's use of it is given up.
 */

#include <stdbool.h>

void signals_restore(void);

/** As of now; after signals_restore() and before a handler is set: as on entry. */
bool signals_ignored(int number);

#endif
