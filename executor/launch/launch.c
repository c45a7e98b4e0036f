/* SPDX-License-Identifier: Apache-2.0 */
#include "launch/launch.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "launch/leftovers.h"
#include "launch/signals.h"

#define LOOK_NS (20 * NS_PER_MS)

struct child {
    pid_t pid;    /* 0: not running */
    pid_t killed; /* 0: it was not; else what its pid was */
    int wait_status;
};

struct launcher {
    struct child *children;
    uint32_t count, running;
    struct board *board;
    bool failed;     /* a child has failed, or a signal came */
    int64_t kill_ns; /* when the grace ends, once failed */
    int64_t end_ns;  /* when all must have ended, since one has ended well; 0: none has */
    int signal_number;
};

/* ---- start --------------------------------------------------------------------- */

static bool set_number(const char *name, uint64_t value)
{
    char text[24];
    snprintf(text, sizeof(text), "%lu", (unsigned long)value);
    return setenv(name, text, 1) == 0;
}

/* In the child, between fork and exec. Never returns. */
static void become_child(char **argv, uint32_t rank, uint32_t count, int board_fd, pid_t parent, const sigset_t *mask)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) /* it died before prctl */
        _exit(3);
    prctl(PR_SET_PTRACER, (unsigned long)parent, 0, 0, 0); /* siblings may read our memory (cma), where Yama asks */
    bool good = fcntl(board_fd, F_SETFD, 0) == 0 && set_number(BOARD_FD_VARIABLE, (uint64_t)board_fd) &&
                set_number("SHUNT_RANK", rank) && set_number("SHUNT_WORLD_SIZE", count) &&
                set_number("SHUNT_LOCAL_RANK", rank) && sigprocmask(SIG_SETMASK, mask, NULL) == 0;
    if (good) {
        signal(SIGINT, SIG_IGN); /* the terminal sends them to all of us; the launcher decides */
        signal(SIGHUP, SIG_IGN);
        execv("/proc/self/exe", argv);
    }
    fprintf(stderr, "shunt-exec: start device %u: %s\n", rank, strerror(errno));
    _exit(3);
}

static enum shunt_status start_children(struct launcher *launcher, char **argv, int board_fd, const sigset_t *mask,
                                        struct shunt_err *err)
{
    pid_t parent = getpid();
    fflush(NULL);
    for (uint32_t i = 0; i < launcher->count; i++) {
        pid_t pid = fork();
        if (pid == 0)
            become_child(argv, i, launcher->count, board_fd, parent, mask);
        if (pid < 0)
            return shunt_fail(err, SHUNT_ERR_IO, "start process %u of %u: %s", i, launcher->count, strerror(errno));
        launcher->children[i].pid = pid;
        launcher->running++;
    }
    return SHUNT_OK;
}

/* ---- watch --------------------------------------------------------------------- */

static void signal_all(struct launcher *launcher, int number)
{
    for (uint32_t i = 0; i < launcher->count; i++) {
        if (launcher->children[i].pid != 0)
            kill(launcher->children[i].pid, number);
    }
}

static void begin_grace(struct launcher *launcher)
{
    if (!launcher->failed)
        launcher->kill_ns = clock_now_ns() + LAUNCH_GRACE_SECONDS * NS_PER_SECOND;
    launcher->failed = true;
}

static void describe_death(const struct launcher *launcher, uint32_t rank, pid_t pid, int status,
                           struct meet_lost *lost)
{
    struct board_child child;
    char how[80], where[60], host[65] = "";
    board_get_child(launcher->board, rank, &child);
    if (WIFSIGNALED(status))
        snprintf(how, sizeof(how), "killed by signal %d (%s)", WTERMSIG(status), strsignal(WTERMSIG(status)));
    else
        snprintf(how, sizeof(how), "exited with status %d", WEXITSTATUS(status));
    if (child.phase == MEET_MOVING)
        snprintf(where, sizeof(where), "in round %u", child.round);
    else
        snprintf(where, sizeof(where), "%s", meet_phase_name(child.phase));
    lost->device = rank;
    lost->status = SHUNT_ERR_PEER;
    if (gethostname(host, sizeof(host) - 1) != 0)
        snprintf(host, sizeof(host), "unknown");
    snprintf(lost->text, sizeof(lost->text), "device %u (pid %ld, host %s) is lost: %s, %s", rank, (long)pid, host, how,
             where);
}

/* A child that reported its own end has told the others what they need to know. */
static void note_end(struct launcher *launcher, uint32_t rank, pid_t pid, int status)
{
    struct board_child child;
    board_get_child(launcher->board, rank, &child);
    launcher->children[rank].pid = 0;
    launcher->children[rank].killed = WIFSIGNALED(status) ? pid : 0;
    launcher->children[rank].wait_status = status;
    launcher->running--;
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0) {
        launcher->end_ns = clock_now_ns() + LAUNCH_END_SECONDS * NS_PER_SECOND;
        return;
    }
    begin_grace(launcher);
    if (child.ended && WIFEXITED(status))
        return;
    struct meet_lost lost = {0};
    describe_death(launcher, rank, pid, status, &lost);
    board_report_lost(launcher->board, &lost);
}

static void reap(struct launcher *launcher)
{
    int status;
    pid_t pid;
    while ((pid = waitpid(-1, &status, WNOHANG)) > 0) {
        for (uint32_t i = 0; i < launcher->count; i++) {
            if (launcher->children[i].pid == pid)
                note_end(launcher, i, pid, status);
        }
    }
}

static void stop_for_signal(struct launcher *launcher, int number)
{
    struct meet_lost lost = {.status = SHUNT_ERR_CANCELLED};
    if (launcher->signal_number != 0) { /* asked twice: no grace */
        launcher->kill_ns = clock_now_ns();
        return;
    }
    launcher->signal_number = number;
    snprintf(lost.text, sizeof(lost.text), "stopped by signal %d (%s)", number, strsignal(number));
    board_report_lost(launcher->board, &lost);
    begin_grace(launcher);
}

/* Nobody waits for a child that hangs behind the last meeting but we do. */
static void give_up_on_stragglers(struct launcher *launcher)
{
    if (launcher->failed || launcher->end_ns == 0 || clock_now_ns() < launcher->end_ns)
        return;
    for (uint32_t i = 0; i < launcher->count; i++) {
        struct meet_lost lost = {.device = i, .status = SHUNT_ERR_TIMEOUT};
        if (launcher->children[i].pid == 0)
            continue;
        snprintf(lost.text, sizeof(lost.text), "device %u (pid %ld) is lost: it has not ended %d s after another did",
                 i, (long)launcher->children[i].pid, LAUNCH_END_SECONDS);
        board_report_lost(launcher->board, &lost);
        break;
    }
    begin_grace(launcher);
    launcher->kill_ns = clock_now_ns();
}

static void watch_children(struct launcher *launcher, const sigset_t *signals, const struct launch_watch *watch)
{
    struct timespec pause = {.tv_nsec = LOOK_NS};
    while (launcher->running > 0) {
        int number = sigtimedwait(signals, NULL, &pause);
        if (number == SIGINT || number == SIGTERM || number == SIGHUP)
            stop_for_signal(launcher, number);
        reap(launcher);
        watch->look(watch->ctx, launcher->board);
        give_up_on_stragglers(launcher);
        if (launcher->failed && clock_now_ns() >= launcher->kill_ns)
            signal_all(launcher, SIGKILL);
    }
}

/* ---- verdict -------------------------------------------------------------------- */

static enum shunt_status verdict(const struct launcher *launcher, struct shunt_err *err)
{
    struct meet_lost lost;
    if (board_get_lost(launcher->board, &lost))
        return shunt_fail(err, (enum shunt_status)lost.status, "%s", lost.text);
    for (uint32_t i = 0; i < launcher->count; i++) {
        struct board_child child;
        board_get_child(launcher->board, i, &child);
        if (child.ended && child.status != SHUNT_OK)
            return shunt_fail(err, (enum shunt_status)child.status, "%s", child.text);
        if (launcher->children[i].wait_status != 0)
            return shunt_fail(err, SHUNT_ERR_PEER, "device %u ended without a word", i);
    }
    return SHUNT_OK;
}

enum shunt_status launch_run(char **argv, uint32_t count, struct board *board, int board_fd,
                             const struct launch_watch *watch, struct shunt_err *err)
{
    sigset_t signals, before;
    struct launcher launcher = {.count = count, .board = board};
    launcher.children = calloc(count, sizeof(*launcher.children));
    if (launcher.children == NULL)
        return shunt_fail(err, SHUNT_ERR_NOMEM, "out of memory for %u processes", count);
    sigemptyset(&signals);
    sigaddset(&signals, SIGCHLD);
    sigaddset(&signals, SIGTERM);
    if (!signals_ignored(SIGINT))
        sigaddset(&signals, SIGINT);
    if (!signals_ignored(SIGHUP))
        sigaddset(&signals, SIGHUP);
    signal(SIGCHLD, SIG_DFL); /* where it is ignored, no child can be waited for */
    sigprocmask(SIG_BLOCK, &signals, &before);
    enum shunt_status st = start_children(&launcher, argv, board_fd, &before, err);
    if (st != SHUNT_OK)
        signal_all(&launcher, SIGKILL);
    watch_children(&launcher, &signals, watch);
    for (uint32_t i = 0; i < count; i++) {
        if (launcher.children[i].killed > 0)
            leftovers_remove(launcher.children[i].killed);
    }
    if (st == SHUNT_OK)
        st = verdict(&launcher, err);
    sigprocmask(SIG_SETMASK, &before, NULL);
    free(launcher.children);
    return st;
}
