/* SPDX-License-Identifier: Apache-2.0 */
#include "launch/signals.h"

#include <signal.h>
#include <stddef.h>

bool signals_ignored(int number)
{
    struct sigaction action;
    return sigaction(number, NULL, &action) == 0 && action.sa_handler == SIG_IGN;
}
