/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The double of NCCL sees every misuse that it is there for: each one is committed by a rank of its own process, whose
 * report names it, while the others do what is right.
 */
#include <errno.h>
#include <nccl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cuda_double.h"
#include "harness.h"

#define BYTES (1u << 20)

/* NVIDIA's header does not say that they take nothing. */
ncclResult_t ncclGroupStart(void);
ncclResult_t ncclGroupEnd(void);

/* Of one process. */
struct rank {
    int number, count;
    ncclComm_t comm;
    cudaStream_t stream;
    char *out, *in; /* on the device */
};

struct shared {
    ncclUniqueId id;
    _Atomic int made, met;
};
static struct shared *shared;

static ncclComm_t join(int number, int count)
{
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    ncclComm_t comm;
    config.blocking = 0;
    if (number == 0) {
        ncclGetUniqueId(&shared->id);
        shared->made = 1;
    }
    while (shared->made == 0)
        usleep(100);
    cudaSetDevice(number);
    ncclResult_t state = ncclCommInitRankConfig(&comm, count, shared->id, number, &config);
    while (state == ncclInProgress)
        ncclCommGetAsyncError(comm, &state);
    return state == ncclSuccess ? comm : NULL;
}

static void settle(const struct rank *rank)
{
    ncclResult_t state = ncclInProgress;
    while (state == ncclInProgress)
        ncclCommGetAsyncError(rank->comm, &state);
}

static void exchange(const struct rank *rank, int to, int from, size_t bytes)
{
    ncclGroupStart();
    ncclSend(rank->out, bytes, ncclUint8, to, rank->comm, rank->stream);
    ncclRecv(rank->in, bytes, ncclUint8, from, rank->comm, rank->stream);
    ncclGroupEnd();
    settle(rank);
}

static void leave(struct rank *rank)
{
    cudaStreamSynchronize(rank->stream);
    ncclCommFinalize(rank->comm);
    settle(rank);
    ncclCommDestroy(rank->comm);
}

/* ---- what is right ---------------------------------------------------------------------- */

static int exchanges(struct rank *rank)
{
    int next = (rank->number + 1) % rank->count, last = (rank->number + rank->count - 1) % rank->count;
    char *seen;
    cudaHostAlloc((void **)&seen, BYTES, cudaHostAllocDefault);
    cudaMemsetAsync(rank->out, rank->number + 1, BYTES, rank->stream);
    for (int round = 0; round < 5; round++)
        exchange(rank, next, last, BYTES);
    cudaMemcpyAsync(seen, rank->in, BYTES, cudaMemcpyDeviceToHost, rank->stream);
    leave(rank);
    int wrong = 0;
    for (uint32_t i = 0; i < BYTES; i++)
        wrong += seen[i] != last + 1;
    cudaFreeHost(seen);
    return wrong != 0;
}

/* One goes away: the other one hangs until it aborts. */
static int hangs_until_abort(struct rank *rank)
{
    if (rank->number == 1)
        _exit(0);
    ncclResult_t state;
    ncclGroupStart();
    ncclRecv(rank->in, 64, ncclUint8, 1, rank->comm, rank->stream);
    ncclGroupEnd();
    usleep(50000);
    ncclCommGetAsyncError(rank->comm, &state);
    ncclCommAbort(rank->comm);
    return state != ncclInProgress;
}

/* Over a network it is told. */
static int hears_of_the_dead(struct rank *rank)
{
    if (rank->number == 1)
        _exit(0);
    ncclResult_t state = ncclInProgress;
    ncclGroupStart();
    ncclRecv(rank->in, 64, ncclUint8, 1, rank->comm, rank->stream);
    ncclGroupEnd();
    while (state == ncclInProgress)
        ncclCommGetAsyncError(rank->comm, &state);
    ncclCommAbort(rank->comm);
    return state != ncclRemoteError;
}

/* ---- what is wrong: by rank 0 -------------------------------------------------------------- */

static int sizes_differ(struct rank *rank)
{
    ncclGroupStart();
    if (rank->number == 0)
        ncclRecv(rank->in, 128, ncclUint8, 1, rank->comm, rank->stream);
    else
        ncclSend(rank->out, 64, ncclUint8, 0, rank->comm, rank->stream);
    ncclGroupEnd();
    settle(rank);
    cudaStreamSynchronize(rank->stream);
    return 0;
}

/* The other one sends the large one first. */
static int order_differs(struct rank *rank)
{
    size_t first = rank->number == 0 ? 64 : 4096;
    for (int round = 0; round < 2; round++) {
        ncclGroupStart();
        if (rank->number == 0)
            ncclRecv(rank->in, round == 0 ? first : 4096, ncclUint8, 1, rank->comm, rank->stream);
        else
            ncclSend(rank->out, round == 0 ? first : 64, ncclUint8, 0, rank->comm, rank->stream);
        ncclGroupEnd();
        settle(rank);
    }
    cudaStreamSynchronize(rank->stream);
    return 0;
}

static int peer_is_missing(struct rank *rank)
{
    exchange(rank, 1 - rank->number, 1 - rank->number, 64);
    cudaStreamSynchronize(rank->stream);
    if (rank->number != 0)
        return 0;
    ncclGroupStart();
    ncclRecv(rank->in, 64, ncclUint8, 1, rank->comm, rank->stream);
    ncclGroupEnd();
    settle(rank);
    usleep(1500000);
    ncclCommAbort(rank->comm);
    return DOUBLE_EXIT;
}

static int second_message(struct rank *rank)
{
    ncclGroupStart();
    ncclSend(rank->out, 64, ncclUint8, 1, rank->comm, rank->stream);
    ncclSend(rank->out + 64, 64, ncclUint8, 1, rank->comm, rank->stream);
    return 0;
}

/* Rank 1 meets rank 0 only when that one has its group on the stream. */
static int first_contact(struct rank *rank)
{
    ncclGroupStart();
    if (rank->number == 0)
        ncclSend(rank->out, 64, ncclUint8, 1, rank->comm, rank->stream);
    else
        while (shared->met == 0)
            usleep(1000);
    ncclGroupEnd();
    usleep(1500000);
    ncclCommAbort(rank->comm);
    shared->met = 1;
    return DOUBLE_EXIT;
}

static int wrong_stream(struct rank *rank)
{
    cudaStream_t other;
    cudaSetDevice(rank->number + 2);
    cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking);
    ncclGroupStart();
    ncclSend(rank->out, 64, ncclUint8, 1, rank->comm, other);
    return 0;
}

static int wrong_memory(struct rank *rank)
{
    void *other;
    cudaSetDevice(rank->number + 2);
    cudaMalloc(&other, 64);
    ncclGroupStart();
    ncclSend(other, 64, ncclUint8, 1, rank->comm, rank->stream);
    return 0;
}

/* In both: the bytes at that address, from a rank that is right. */
static int sends_from(struct rank *rank, const void *wrong)
{
    ncclGroupStart();
    if (rank->number == 0)
        ncclSend(wrong, 64, ncclUint8, 1, rank->comm, rank->stream);
    else
        ncclRecv(rank->in, 64, ncclUint8, 0, rank->comm, rank->stream);
    ncclGroupEnd();
    settle(rank);
    cudaStreamSynchronize(rank->stream);
    return 0;
}

static int host_memory(struct rank *rank)
{
    static char plain[64] __attribute__((aligned(16)));
    return sends_from(rank, plain);
}

static int freed_memory(struct rank *rank)
{
    cudaFreeAsync(rank->out, rank->stream);
    return sends_from(rank, rank->out);
}

static int beyond_the_end(struct rank *rank)
{
    return sends_from(rank, rank->out + BYTES - 32);
}

static int no_event(struct rank *rank)
{
    cudaStream_t other;
    cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking);
    cudaMemsetAsync(rank->out, 1, 64, other);
    return sends_from(rank, rank->out);
}

static int not_aligned(struct rank *rank)
{
    return sends_from(rank, rank->out + 8);
}

static int to_oneself(struct rank *rank)
{
    ncclGroupStart();
    ncclSend(rank->out, 64, ncclUint8, rank->number, rank->comm, rank->stream);
    return 0;
}

static int outside_a_group(struct rank *rank)
{
    ncclSend(rank->out, 64, ncclUint8, 1, rank->comm, rank->stream);
    return 0;
}

static int in_progress(struct rank *rank)
{
    ncclGroupStart();
    ncclSend(rank->out, 64, ncclUint8, 1, rank->comm, rank->stream);
    ncclGroupEnd();
    ncclGroupStart();
    ncclSend(rank->out, 64, ncclUint8, 1, rank->comm, rank->stream);
    return 0;
}

/* Work that would come before the group, of which it looks as if it came behind. */
static int stream_in_progress(struct rank *rank)
{
    ncclGroupStart();
    ncclSend(rank->out, 64, ncclUint8, 1 - rank->number, rank->comm, rank->stream);
    ncclRecv(rank->in, 64, ncclUint8, 1 - rank->number, rank->comm, rank->stream);
    while (rank->number == 1 && shared->met == 0)
        usleep(1000);
    ncclGroupEnd();
    if (rank->number == 0)
        cudaMemsetAsync(rank->in, 0, 64, rank->stream);
    shared->met = 1;
    settle(rank);
    cudaStreamSynchronize(rank->stream);
    return 0;
}

static int after_abort(struct rank *rank)
{
    ncclCommAbort(rank->comm);
    ncclGroupStart();
    ncclSend(rank->out, 64, ncclUint8, 1, rank->comm, rank->stream);
    return 0;
}

static int destroyed_early(struct rank *rank)
{
    ncclCommDestroy(rank->comm);
    return 0;
}

static int end_without_start(struct rank *rank)
{
    (void)rank;
    ncclGroupEnd();
    return 0;
}

static int id_again(struct rank *rank)
{
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    ncclComm_t second;
    config.blocking = 0;
    ncclCommInitRankConfig(&second, rank->count, shared->id, rank->number, &config);
    return 0;
}

static int left_at_the_end(struct rank *rank)
{
    (void)rank;
    exit(DOUBLE_EXIT);
}

/* ---- all of it ------------------------------------------------------------------------------ */

/* What the other ranks do while rank 0 is wrong. */
enum others { WAIT = 0, MEET, SAME };

static const struct row {
    const char *name;
    int (*run)(struct rank *rank);
    int ranks;
    enum others others;
    const char *report; /* NULL: nothing is wrong */
} rows[] = {
    {"exchanges", exchanges, 2, SAME, NULL},
    {"exchanges of five", exchanges, 5, SAME, NULL},
    {"a dead peer hangs until abort", hangs_until_abort, 2, SAME, NULL},
    {"a dead peer is told", hears_of_the_dead, 2, SAME, NULL},
    {"sizes differ", sizes_differ, 2, SAME, "rank 0: ncclRecv: 128 bytes from rank 1, which sends 64"},
    {"order differs", order_differs, 2, SAME, "rank 0: ncclRecv: 64 bytes from rank 1, which sends 4096"},
    {"peer is missing", peer_is_missing, 2, SAME,
     "rank 0: ncclRecv: 0 of 64 bytes from rank 1: it has no such message"},
    {"second message", second_message, 2, WAIT, "rank 0: ncclSend: a second message to rank 1 in one group"},
    {"first contact", first_contact, 2, SAME, "rank 0: ncclGroupEnd: waits in first contact with rank 1"},
    {"wrong stream", wrong_stream, 2, WAIT,
     "rank 0: ncclSend: uses a stream of device 2, the communicator is of device 0"},
    {"wrong memory", wrong_memory, 2, WAIT,
     "rank 0: ncclSend: uses memory of device 2, the communicator is of device 0"},
    {"host memory", host_memory, 2, MEET, "rank 0: ncclGroupEnd: reads 64 bytes at"},
    {"freed memory", freed_memory, 2, MEET, "rank 0: ncclGroupEnd: reads 64 bytes at"},
    {"beyond the end", beyond_the_end, 2, MEET, "rank 0: ncclGroupEnd: reads 64 bytes, beyond the end"},
    {"no event", no_event, 2, MEET, "which cudaMemsetAsync of another stream may still write: no event orders them"},
    {"not aligned", not_aligned, 2, WAIT, "rank 0: ncclSend: memory at"},
    {"to oneself", to_oneself, 2, WAIT, "rank 0: ncclSend: a message to oneself"},
    {"outside a group", outside_a_group, 2, WAIT, "rank 0: ncclSend: a message outside of a group"},
    {"in progress", in_progress, 2, WAIT, "rank 0: ncclSend: uses a communicator on which a call is in progress"},
    {"stream in progress", stream_in_progress, 2, SAME, "rank 0: ncclGroupEnd: the stream was given other work before"},
    {"after abort", after_abort, 2, WAIT, "rank 0: ncclSend: uses a communicator that there is not, or is no more"},
    {"destroyed early", destroyed_early, 2, WAIT, "rank 0: ncclCommDestroy: the communicator has not been finalized"},
    {"end without start", end_without_start, 2, WAIT, "rank 0: ncclGroupEnd: there is no group"},
    {"id again", id_again, 2, WAIT, "rank 0: ncclCommInitRankConfig: rank 0 is there already"},
    {"left at the end", left_at_the_end, 2, WAIT, "rank 0: exit: a communicator of 2 ranks is neither destroyed"},
};

/* Never returns. */
static void be_rank(const struct row *row, int number, const char *report)
{
    char text[12];
    struct rank rank = {.number = number, .count = row->ranks};
    snprintf(text, sizeof(text), "%d", number);
    setenv("SHUNT_RANK", text, 1);
    setenv("SHUNT_DOUBLE_DEVICES", "8", 1);
    setenv("SHUNT_DOUBLE_STALL", "1", 1);
    setenv("SHUNT_DOUBLE_REPORT", report, 1);
    if (row->run == hears_of_the_dead)
        setenv("SHUNT_DOUBLE_DEAD", "error", 1);
    if (freopen("/dev/null", "w", stderr) == NULL)
        _exit(9);
    cudaSetDevice(number);
    cudaStreamCreateWithFlags(&rank.stream, cudaStreamNonBlocking);
    cudaMallocAsync((void **)&rank.out, BYTES, rank.stream);
    cudaMallocAsync((void **)&rank.in, BYTES, rank.stream);
    cudaMemsetAsync(rank.out, 0, BYTES, rank.stream);
    rank.comm = join(number, rank.count);
    if (rank.comm == NULL)
        _exit(1);
    if (number == 0 || row->others == SAME)
        _exit(row->run(&rank));
    if (row->others == MEET)
        row->run(&rank);
    for (;;)
        pause();
}

/* @return how rank 0 has ended; good_out: whether all others have ended well */
static int run_ranks(const struct row *row, const char *report, bool *good_out)
{
    pid_t pids[8], pid;
    int first = -1, status, left = row->ranks;
    memset(shared, 0, sizeof(*shared));
    fflush(NULL);
    for (int i = 0; i < row->ranks; i++) {
        pids[i] = fork();
        if (pids[i] == 0)
            be_rank(row, i, report);
    }
    *good_out = true;
    while (left > 0 && ((pid = waitpid(-1, &status, 0)) > 0 || errno == EINTR)) {
        if (pid <= 0)
            continue;
        left--;
        if (pid != pids[0]) {
            *good_out = *good_out && WIFEXITED(status) && WEXITSTATUS(status) == 0;
            continue;
        }
        first = WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
        for (int i = 1; i < row->ranks && row->report != NULL; i++)
            kill(pids[i], SIGKILL);
    }
    return first;
}

static void misuses_are_reported_and_nothing_else(void)
{
    shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    for (const struct row *row = rows; row < rows + sizeof(rows) / sizeof(rows[0]); row++) {
        char path[] = "/tmp/shunt-double-XXXXXX", text[4000];
        int fd = mkstemp(path);
        bool good;
        int code = run_ranks(row, path, &good);
        ssize_t size = read(fd, text, sizeof(text) - 1);
        text[size > 0 ? size : 0] = '\0';
        CHECK_MSG(code == (row->report != NULL ? DOUBLE_EXIT : 0), "%s: exit %d: %s", row->name, code, text);
        if (row->report != NULL)
            CHECK_MSG(strstr(text, row->report) != NULL, "%s: no \"%s\" in \"%s\"", row->name, row->report, text);
        else
            CHECK_MSG(good && text[0] == '\0', "%s: %s", row->name, text);
        close(fd);
        unlink(path);
    }
    munmap(shared, sizeof(*shared));
}

static const struct test_case cases[] = {
    {"misuses_are_reported_and_nothing_else", misuses_are_reported_and_nothing_else},
};
TEST_MAIN(cases)
