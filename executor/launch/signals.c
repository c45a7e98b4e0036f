/* SPDX-License-Identifier: Apache-2.0 */
#include "launch/signals.h"

#include <signal.h>
#include <stddef.h>

static bool interrupt_ignored, hangup_ignored;

bool signals_ignored(int number)
{
    struct sigaction action;
    return sigaction(number, NULL, &action) == 0 && action.sa_handler == SIG_IGN;
}

/* Before the constructors of any library; a sanitiser may not be up yet. */
__attribute__((no_sanitize("address", "undefined"))) static void look_first(void)
{
    interrupt_ignored = signals_ignored(SIGINT);
    hangup_ignored = signals_ignored(SIGHUP);
}

__attribute__((section(".preinit_array"), used)) static void (*const look_first_entry)(void) = look_first;

void signals_restore(void)
{
    signal(SIGINT, interrupt_ignored ? SIG_IGN : SIG_DFL);
    signal(SIGHUP, hangup_ignored ? SIG_IGN : SIG_DFL);
}
