/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Four ways to run: all devices in this process (loopback); a launcher and its children (--launch);
 * one of those children; one process of somebody else's launcher.
 */
#include "cli/command.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "base/number.h"
#include "cli/journals.h"
#include "cli/progress.h"
#include "cli/proving.h"
#include "cli/summary.h"
#include "cli/worker.h"
#include "io/store.h"
#include "launch/env.h"
#include "launch/launch.h"
#include "launch/signals.h"
#include "transport/segments.h"

_Static_assert(sizeof(struct plan_result) <= BOARD_RESULT_BYTES, "a result fits the board");

struct command {
    char **argv;
    struct options options;
    struct chain chain;
    const struct transport_ops *transport;
    struct plan_result *results; /* plan-major */
    struct board *board;         /* of a child */
    uint32_t rank;
    char device[24]; /* of this process, if the launcher says which */
    struct progress progress;
};

static void take_result(void *ctx, uint32_t plan, const struct plan_result *result)
{
    struct command *command = ctx;
    if (command->board != NULL && result->device == command->rank)
        board_put_result(command->board, plan, result->device, result, sizeof(*result));
    command->results[(size_t)plan * command->chain.device_count + result->device] = *result;
}

static void show_progress(void *ctx, uint32_t plan, uint32_t device, uint32_t round, uint32_t round_count)
{
    struct command *command = ctx;
    if (command->board == NULL && device == 0)
        progress_show(&command->progress, command->chain.paths[plan], round + 1, round_count);
}

/* Results that did not reach stdout are an error; an exit code that says something already stays. */
static int close_results(int code)
{
    if (fflush(stdout) == 0 && !ferror(stdout))
        return code;
    fprintf(stderr, "shunt-exec: write the results to stdout: %s\n", strerror(errno));
    return code != 0 ? code : 3;
}

static int finish(struct command *command, enum shunt_status status, const char *error)
{
    struct summary summary = {
        .options = &command->options,
        .chain = command->results == NULL ? NULL : &command->chain,
        .transport = command->transport == NULL ? NULL : command->transport->name,
        .results = command->results,
        .status = status,
        .error = error,
    };
    progress_clear(&command->progress);
    summary_print(&summary, stdout);
    if (status != SHUNT_OK)
        fprintf(stderr, "shunt-exec: %s\n", error);
    return close_results(shunt_status_exit_code(status));
}

/* Once a run, by who prints its results. */
static void say_notes(const struct options *options)
{
    if (options->load != NULL && options->store == NULL)
        fprintf(stderr, "shunt-exec: note: --load without --store: what is moved is not written anywhere\n");
}

/* ---- the four ways --------------------------------------------------------------- */

/* What a process does in its world; a member's world has yet to prove the plans. */
static enum shunt_status work(struct command *command, const struct transport_config *config, bool member,
                              struct shunt_err *err)
{
    struct worker_sink sink = {.ctx = command, .result = take_result, .progress = show_progress};
    struct shunt_world *world;
    enum shunt_status st = world_open(command->transport, config, &world, err);
    if (st != SHUNT_OK) {
        meet_report_failure(config->meet, config->rank, config->rank, st, err->text);
        return st;
    }
    if (member) {
        st = proving_run(world, &command->chain, !command->options.no_verify, command->options.timeout_seconds, err);
        if (st != SHUNT_OK)
            shunt_world_abandon(world, st, err->text);
    }
    if (st == SHUNT_OK)
        st = worker_run(&command->options, &command->chain, world, &sink, err);
    shunt_world_close(world);
    return st;
}

static int run_loopback(struct command *command)
{
    struct shunt_err err = {{0}};
    struct transport_config config = {.size = command->chain.device_count,
                                      .timeout_seconds = command->options.timeout_seconds};
    enum shunt_status st = SHUNT_OK;
    say_notes(&command->options);
    if (command->options.launch != 0 && command->options.launch != command->chain.device_count)
        st = shunt_fail(&err, SHUNT_ERR_USAGE, "--launch %u: the plan has %u devices", command->options.launch,
                        command->chain.device_count);
    if (st == SHUNT_OK && !command->options.no_verify)
        st = chain_verify(&command->chain, &err);
    if (st == SHUNT_OK)
        st = work(command, &config, false, &err);
    return finish(command, st, err.text);
}

static const char *const phase_words[MEET_PHASE_COUNT] = {
    "starting", "meeting", "filling", "loading", "moving", "checking", "storing",
};

static void look_at_board(void *ctx, const struct board *board)
{
    struct command *command = ctx;
    uint32_t round = UINT32_MAX, phase = MEET_PHASE_COUNT;
    for (uint32_t i = 0; i < command->chain.device_count; i++) {
        struct board_child child;
        board_get_child(board, i, &child);
        if (child.ended)
            continue;
        if (child.phase < phase)
            phase = child.phase;
        if (child.phase == MEET_MOVING && child.round < round)
            round = child.round;
    }
    uint32_t plan = 0; /* the first one that device 0 has not reported */
    struct plan_result result;
    while (plan + 1 < command->chain.count && board_get_result(board, plan, 0, &result, sizeof(result)))
        plan++;
    uint32_t rounds = shunt_plan_get_header(command->chain.plans[plan])->round_count;
    if (phase == MEET_MOVING && round != UINT32_MAX)
        progress_show(&command->progress, command->chain.paths[plan], round + 1, rounds);
    else if (phase < MEET_PHASE_COUNT)
        progress_show(&command->progress, phase_words[phase], 0, 0);
}

/* What a child claims; its place says which device it is. */
static void take_from_board(struct command *command, const struct board *board, uint32_t plan, uint32_t device)
{
    struct plan_result *result = &command->results[(size_t)plan * command->chain.device_count + device];
    if (!board_get_result(board, plan, device, result, sizeof(*result)))
        return;
    result->device = device;
    result->report.first[sizeof(result->report.first) - 1] = '\0';
}

static enum shunt_status launch_children(struct command *command, struct shunt_err *err)
{
    struct launch_watch watch = {.ctx = command, .look = look_at_board};
    struct board *board;
    int fd;
    uint32_t count = command->chain.device_count;
    enum shunt_status st = board_create(count, command->chain.count, &board, &fd, err);
    if (st != SHUNT_OK)
        return st;
    st = launch_run(command->argv, count, board, fd, &watch, err);
    if (st != SHUNT_OK)
        segments_sweep();
    if (st != SHUNT_OK && command->options.store != NULL)
        store_tidy(command->options.store);
    for (uint32_t p = 0; p < command->chain.count; p++) {
        for (uint32_t i = 0; i < count; i++)
            take_from_board(command, board, p, i);
    }
    board_destroy(board);
    return st;
}

static int run_launcher(struct command *command)
{
    struct shunt_err err = {{0}};
    enum shunt_status st = SHUNT_OK;
    say_notes(&command->options);
    if (command->options.launch != command->chain.device_count)
        st = shunt_fail(&err, SHUNT_ERR_USAGE, "--launch %u: the plan has %u devices", command->options.launch,
                        command->chain.device_count);
    if (st == SHUNT_OK && !command->options.no_verify)
        st = chain_verify(&command->chain, &err);
    if (st == SHUNT_OK)
        st = launch_children(command, &err);
    return finish(command, st, err.text);
}

/* With a transport of one device per process, a kind of device means that of this process on its machine. */
static void choose_device(struct command *command, const struct env_place *place)
{
    const char *kind = command->transport->device;
    struct options *options = &command->options;
    if (kind == NULL || (options->on != NULL && strcmp(options->on, kind) != 0))
        return;
    snprintf(command->device, sizeof(command->device), "%s:%u", kind,
             place->local_rank == UINT32_MAX ? 0 : place->local_rank);
    options->on = command->device;
}

static enum shunt_status join_launcher(struct command *command, const char *fd_text, struct meet **meet_out,
                                       struct shunt_err *err)
{
    struct env_place place;
    uint64_t fd;
    enum shunt_status st = env_probe(getenv, &place, err);
    if (st != SHUNT_OK)
        return st;
    if (!number_parse_u64(fd_text, &fd) || fd > INT32_MAX)
        return shunt_fail(err, SHUNT_ERR_USAGE, "%s: found \"%.40s\", expected a descriptor", BOARD_FD_VARIABLE,
                          fd_text);
    if (place.world != command->chain.device_count)
        return shunt_fail(err, SHUNT_ERR_USAGE, "%u processes were launched, the plan has %u devices", place.world,
                          command->chain.device_count);
    command->rank = place.rank;
    choose_device(command, &place);
    return board_join((int)fd, place.rank, place.world, command->chain.count, meet_out, &command->board, err);
}

/* Prints its own failure, unless that is a verdict which the launcher prints for all. */
static int run_child(struct command *command, const char *fd_text)
{
    struct shunt_err err = {{0}};
    struct meet *meet = NULL;
    enum shunt_status st = join_launcher(command, fd_text, &meet, &err);
    if (st == SHUNT_OK) {
        struct transport_config config = {.rank = command->rank,
                                          .size = command->chain.device_count,
                                          .meet = meet,
                                          .timeout_seconds = command->options.timeout_seconds};
        st = work(command, &config, false, &err);
        board_put_end(command->board, command->rank, st, err.text);
    }
    if (st != SHUNT_OK && shunt_status_exit_code(st) != 1)
        fprintf(stderr, "shunt-exec: device %u: %s\n", command->rank, err.text);
    meet_close(meet);
    return shunt_status_exit_code(st);
}

static enum shunt_status join_meeting(struct command *command, struct meet **meet_out, struct shunt_err *err)
{
    struct env_place place;
    enum shunt_status st = env_probe(getenv, &place, err);
    if (st != SHUNT_OK)
        return st;
    command->rank = place.rank;
    choose_device(command, &place);
    uint32_t devices = command->chain.device_count;
    if ((place.world != 0 && place.world != devices) || place.rank >= devices)
        return shunt_fail(err, SHUNT_ERR_USAGE, "%s says rank %u of %u, the plan has %u devices", place.launcher,
                          place.rank, place.world, devices);
    const char *dir = command->options.meet != NULL ? command->options.meet : getenv("SHUNT_MEET");
    const char *job = command->options.job != NULL ? command->options.job : place.job;
    if (dir == NULL || *dir == '\0')
        return shunt_fail(err, SHUNT_ERR_USAGE,
                          "no meeting directory: give --meet DIR or SHUNT_MEET, a directory that all processes see");
    if (*job == '\0')
        return shunt_fail(err, SHUNT_ERR_USAGE, "no job name: give --job NAME or SHUNT_JOB, a name of this run");
    return store_dir_open(dir, job, place.rank, devices, meet_out, err);
}

/* One process of another launcher. Device 0 proves the plan and prints the results. */
static int run_member(struct command *command)
{
    struct shunt_err err = {{0}};
    struct meet *meet = NULL;
    enum shunt_status st = join_meeting(command, &meet, &err);
    if (st == SHUNT_OK && command->rank == 0)
        say_notes(&command->options);
    if (st == SHUNT_OK) {
        struct transport_config config = {.rank = command->rank,
                                          .size = command->chain.device_count,
                                          .meet = meet,
                                          .timeout_seconds = command->options.timeout_seconds};
        st = work(command, &config, true, &err);
    }
    meet_close(meet);
    if (st != SHUNT_OK)
        segments_sweep();
    if (command->rank == 0)
        return finish(command, st, err.text);
    if (st != SHUNT_OK)
        fprintf(stderr, "shunt-exec: device %u: %s\n", command->rank, err.text);
    return shunt_status_exit_code(st);
}

/* ---- dispatch -------------------------------------------------------------------- */

static void on_signal(int number)
{
    meet_cancel_all(number);
}

/* Processes that others wait for tell them before they go. */
static void catch_signals(bool launched)
{
    struct sigaction action = {.sa_handler = on_signal};
    sigaction(SIGTERM, &action, NULL);
    if (launched) /* INT and HUP are the launcher's */
        return;
    if (!signals_ignored(SIGINT))
        sigaction(SIGINT, &action, NULL);
    if (!signals_ignored(SIGHUP))
        sigaction(SIGHUP, &action, NULL);
}

static int read_journals(struct command *command)
{
    struct shunt_err err = {{0}};
    enum shunt_status st = journals_print(&command->options, &command->chain, stdout, &err);
    if (st != SHUNT_OK)
        fprintf(stderr, "shunt-exec: %s\n", err.text);
    return close_results(shunt_status_exit_code(st));
}

static int run_command(struct command *command)
{
    const char *fd_text = getenv(BOARD_FD_VARIABLE);
    if (command->options.read_journal != NULL)
        return read_journals(command);
    if (strcmp(command->transport->name, "loopback") == 0)
        return run_loopback(command);
    if (command->options.launch != 0 && fd_text == NULL) {
        segments_sweep(); /* after somebody else's bad end */
        return run_launcher(command);
    }
    catch_signals(fd_text != NULL);
    return fd_text != NULL ? run_child(command, fd_text) : run_member(command);
}

/* Before anything is started, what can be told without a GPU. */
static enum shunt_status check_device(const struct command *command, struct shunt_err *err)
{
    const struct device_ops *ops;
    uint32_t ordinal;
    if (command->options.on == NULL)
        return SHUNT_OK;
    enum shunt_status st = device_find(command->options.on, &ops, &ordinal, err);
    if (st == SHUNT_OK && ops->asynchronous && !command->transport->device_memory)
        st = shunt_fail(err, SHUNT_ERR_UNSUPPORTED,
                        "not supported: transport %s with device %s: it moves host memory only",
                        command->transport->name, command->options.on);
    const char *kind = command->transport->device;
    if (st == SHUNT_OK && kind != NULL && strcmp(ops->name, kind) != 0)
        st = shunt_fail(err, SHUNT_ERR_UNSUPPORTED,
                        "not supported: transport %s with device %s: it moves %s memory only", command->transport->name,
                        command->options.on, kind);
    return st;
}

static enum shunt_status find_transport(struct command *command, struct shunt_err *err)
{
    const char *name = command->options.transport != NULL ? command->options.transport : "ucx";
    if (command->options.read_journal != NULL) /* moves nothing */
        return SHUNT_OK;
    enum shunt_status st = transport_find(name, &command->transport, err);
    if (st == SHUNT_OK)
        st = check_device(command, err);
    return st == SHUNT_OK && command->transport->look != NULL ? command->transport->look(err) : st;
}

static enum shunt_status open_command(struct command *command, struct shunt_err *err)
{
    enum shunt_status st = find_transport(command, err);
    if (st == SHUNT_OK)
        st = chain_open(command->options.plans, command->options.plan_count, &command->chain, err);
    if (st != SHUNT_OK)
        return st;
    command->results = calloc((size_t)command->chain.count * command->chain.device_count, sizeof(*command->results));
    return command->results != NULL ? SHUNT_OK : shunt_fail(err, SHUNT_ERR_NOMEM, "out of memory");
}

int command_run(int argc, char **argv)
{
    struct command command = {.argv = argv};
    struct shunt_err err = {{0}};
    enum shunt_status st = options_parse(argc, argv, &command.options, &err);
    progress_init(&command.progress);
    if (st != SHUNT_OK) {
        fprintf(stderr, "shunt-exec: %s\n", err.text);
        return shunt_status_exit_code(st);
    }
    if (command.options.help)
        options_print_help(stdout);
    else if (command.options.version)
        printf("shunt-exec %s, plan format %u.%u\n", SHUNT_EXEC_VERSION, SHUNT_PLAN_VERSION_MAJOR,
               SHUNT_PLAN_VERSION_MINOR);
    else if (command.options.list)
        options_print_list(stdout);
    if (command.options.help || command.options.version || command.options.list)
        return close_results(0);
    st = open_command(&command, &err);
    int code = st == SHUNT_OK ? run_command(&command) : finish(&command, st, err.text);
    free(command.results);
    chain_close(&command.chain);
    return code;
}
