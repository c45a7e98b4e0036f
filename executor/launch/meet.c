/* SPDX-License-Identifier: Apache-2.0 */
#include "launch/meet.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>

static const char *const phase_names[] = {
    [MEET_STARTING] = "while starting", [MEET_MEETING] = "while meeting", [MEET_FILLING] = "while filling",
    [MEET_LOADING] = "while loading",   [MEET_MOVING] = "while moving",   [MEET_CHECKING] = "while checking",
    [MEET_STORING] = "while storing",
};

const char *meet_phase_name(unsigned phase)
{
    return phase < MEET_PHASE_COUNT ? phase_names[phase] : "at some point";
}

static volatile sig_atomic_t cancel_signal;

void meet_cancel_all(int signal_number)
{
    cancel_signal = signal_number;
}

enum shunt_status meet_poll(struct meet *meet, bool now, struct shunt_err *err)
{
    if (cancel_signal != 0)
        return shunt_fail(err, SHUNT_ERR_CANCELLED, "stopped by signal %d (%s)", (int)cancel_signal,
                          strsignal(cancel_signal));
    if (meet == NULL)
        return SHUNT_OK;
    if (!meet->seen_lost) {
        int64_t time = clock_now_ns();
        if (!now && time < meet->next_look_ns)
            return SHUNT_OK;
        meet->next_look_ns = time + MEET_LOOK_MS * NS_PER_MS;
        meet->seen_lost = meet->ops->get_lost(meet, &meet->lost);
    }
    if (!meet->seen_lost)
        return SHUNT_OK;
    return shunt_fail(err, SHUNT_ERR_PEER, "%s", meet->lost.text);
}

enum shunt_status meet_get(struct meet *meet, enum meet_key key, uint32_t rank, void *bytes, size_t capacity,
                           size_t *size_out, const struct deadline *deadline, struct shunt_err *err)
{
    for (int64_t pause = NS_PER_MS / 10;; pause = pause < 20 * NS_PER_MS ? pause * 2 : pause) {
        enum shunt_status st = meet->ops->try_get(meet, key, rank, bytes, capacity, size_out, err);
        if (st != SHUNT_OK || *size_out != 0)
            return st;
        st = meet_poll(meet, false, err);
        if (st != SHUNT_OK)
            return st;
        if (deadline_passed(deadline))
            return shunt_fail(err, SHUNT_ERR_TIMEOUT, "timed out after %g s: device %u has not come to the meeting",
                              deadline->seconds, rank);
        sleep_ns(pause);
    }
}

void meet_report(struct meet *meet, uint32_t device, enum shunt_status status, const char *text)
{
    if (meet == NULL)
        return;
    struct meet_lost lost = {.device = device, .status = (uint32_t)status};
    snprintf(lost.text, sizeof(lost.text), "%s", text);
    meet->ops->report_lost(meet, &lost);
    if (!meet->seen_lost)
        meet->seen_lost = meet->ops->get_lost(meet, &meet->lost);
}

void meet_report_failure(struct meet *meet, uint32_t rank, uint32_t device, enum shunt_status status, const char *text)
{
    char own[sizeof(((struct meet_lost *)0)->text)];
    if (status == SHUNT_ERR_PEER)
        snprintf(own, sizeof(own), "%s", text);
    else
        snprintf(own, sizeof(own), "device %u gave up: %s", rank, text);
    meet_report(meet, device, status, own);
}

void meet_beat(struct meet *meet, enum meet_phase phase, uint32_t round)
{
    if (meet != NULL)
        meet->ops->beat(meet, phase, round);
}

double meet_silent_seconds(struct meet *meet, uint32_t rank)
{
    return meet == NULL ? -1.0 : meet->ops->silent_seconds(meet, rank);
}

void meet_close(struct meet *meet)
{
    if (meet != NULL)
        meet->ops->close(meet);
}
