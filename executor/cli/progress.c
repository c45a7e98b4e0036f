/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/progress.h"

#include <stdio.h>
#include <unistd.h>

#include "base/clock.h"

#define TERMINAL_PAUSE_NS (100 * NS_PER_MS)
#define PLAIN_PAUSE_NS    (3 * NS_PER_SECOND)

void progress_init(struct progress *progress)
{
    *progress = (struct progress){.terminal = isatty(STDERR_FILENO) != 0};
    progress->next_ns = clock_now_ns() + (progress->terminal ? TERMINAL_PAUSE_NS : PLAIN_PAUSE_NS);
}

void progress_show(struct progress *progress, const char *phase, uint32_t round, uint32_t round_count)
{
    int64_t now = clock_now_ns();
    if (now < progress->next_ns)
        return;
    progress->next_ns = now + (progress->terminal ? TERMINAL_PAUSE_NS : PLAIN_PAUSE_NS);
    fprintf(stderr, "%s%s", progress->terminal ? "\r\033[K" : "shunt-exec: ", phase);
    if (round_count != 0)
        fprintf(stderr, ": round %u of %u", round, round_count);
    if (!progress->terminal)
        putc('\n', stderr);
    progress->drawn = progress->terminal;
    fflush(stderr);
}

void progress_clear(struct progress *progress)
{
    if (progress->drawn)
        fputs("\r\033[K", stderr);
    progress->drawn = false;
}
