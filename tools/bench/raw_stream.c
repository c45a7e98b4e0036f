/* SPDX-License-Identifier: Apache-2.0 */
/**
 * What UCX itself moves between two processes of one machine: tag messages through shared memory with one copy by the
 * kernel where it permits (cma), from and to memory that no cache holds. The benchmark's section `transport` compiles and
 * runs it; nothing of the executor is in it.
 *
 *     raw_stream MESSAGE_BYTES TOTAL_BYTES BOTH_WAYS
 *
 * Prints the bytes a second that arrived, over both ends.
 */
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <ucp/api/ucp.h>
#include <unistd.h>

#define WINDOW       4u /* messages in flight each way */
#define MEMORY_BYTES (UINT64_C(256) << 20)
#define MESSAGE_TAG  1u

struct end {
    ucp_context_h context;
    ucp_worker_h worker;
    ucp_ep_h ep;
    int fd; /* to the other end */
};

static void must(int good, const char *what)
{
    if (good)
        return;
    fprintf(stderr, "raw_stream: %s\n", what);
    exit(3);
}

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static void exchange(int fd, const void *mine, void *theirs, size_t bytes)
{
    must(write(fd, mine, bytes) == (ssize_t)bytes && recv(fd, theirs, bytes, MSG_WAITALL) == (ssize_t)bytes,
         "exchange");
}

static void open_end(struct end *end)
{
    ucp_config_t *config;
    ucp_params_t params = {.field_mask = UCP_PARAM_FIELD_FEATURES, .features = UCP_FEATURE_TAG};
    ucp_worker_params_t worker = {.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE,
                                  .thread_mode = UCS_THREAD_MODE_SINGLE};
    ucp_address_t *address;
    size_t mine, theirs;
    must(ucp_config_read(NULL, NULL, &config) == UCS_OK, "ucp_config_read");
    if (getenv("UCX_TLS") == NULL)
        must(ucp_config_modify(config, "TLS", "posix,cma,self") == UCS_OK, "UCX_TLS");
    must(ucp_init(&params, config, &end->context) == UCS_OK, "ucp_init");
    ucp_config_release(config);
    must(ucp_worker_create(end->context, &worker, &end->worker) == UCS_OK, "ucp_worker_create");
    must(ucp_worker_get_address(end->worker, &address, &mine) == UCS_OK, "ucp_worker_get_address");
    exchange(end->fd, &mine, &theirs, sizeof(mine));
    char *other = malloc(theirs);
    must(other != NULL && write(end->fd, address, mine) == (ssize_t)mine &&
             recv(end->fd, other, theirs, MSG_WAITALL) == (ssize_t)theirs,
         "exchange of addresses");
    ucp_ep_params_t ep = {.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS, .address = (ucp_address_t *)other};
    must(ucp_ep_create(end->worker, &ep, &end->ep) == UCS_OK, "ucp_ep_create");
    ucp_worker_release_address(end->worker, address);
    free(other);
}

static char *make_memory(void)
{
    char *at = mmap(NULL, MEMORY_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    must(at != MAP_FAILED, "memory");
    memset(at, 0x5a, MEMORY_BYTES);
    return at;
}

/* A window of requests in one direction. */
struct stream {
    struct end *end;
    char *memory;
    uint64_t bytes, count, started, done;
    int sends;
    void *slots[WINDOW];
};

static void *start(struct stream *stream)
{
    ucp_request_param_t param = {.op_attr_mask = 0};
    char *at = stream->memory + stream->started * stream->bytes % (MEMORY_BYTES - stream->bytes + 1);
    return stream->sends ? ucp_tag_send_nbx(stream->end->ep, at, stream->bytes, MESSAGE_TAG, &param)
                         : ucp_tag_recv_nbx(stream->end->worker, at, stream->bytes, MESSAGE_TAG, UINT64_MAX, &param);
}

static void step(struct stream *stream)
{
    for (unsigned i = 0; i < WINDOW; i++) {
        void *request = stream->slots[i];
        if (request != NULL && ucp_request_check_status(request) == UCS_INPROGRESS)
            continue;
        if (request != NULL) {
            must(ucp_request_check_status(request) == UCS_OK, "message");
            ucp_request_free(request);
            stream->slots[i] = NULL;
            stream->done++;
        }
        if (stream->started == stream->count)
            continue;
        stream->slots[i] = start(stream);
        must(!UCS_PTR_IS_ERR(stream->slots[i]), "message");
        stream->started++;
        stream->done += stream->slots[i] == NULL;
    }
}

static double run(struct end *end, uint64_t bytes, uint64_t count, int sends, int receives)
{
    char nothing = 0, theirs;
    struct stream out = {.end = end, .memory = make_memory(), .bytes = bytes, .count = sends ? count : 0, .sends = 1};
    struct stream in = {.end = end, .memory = make_memory(), .bytes = bytes, .count = receives ? count : 0};
    exchange(end->fd, &nothing, &theirs, 1);
    double begin = now();
    while (out.done < out.count || in.done < in.count) {
        step(&in);
        step(&out);
        if (ucp_worker_progress(end->worker) == 0)
            sched_yield(); /* there may be fewer cores than processes */
    }
    double seconds = now() - begin;
    exchange(end->fd, &nothing, &theirs, 1);
    return seconds;
}

int main(int argc, char **argv)
{
    int fds[2], status = 0;
    must(argc == 4, "usage: raw_stream MESSAGE_BYTES TOTAL_BYTES BOTH_WAYS");
    uint64_t bytes = strtoull(argv[1], NULL, 10), count = strtoull(argv[2], NULL, 10) / bytes;
    int both = atoi(argv[3]);
    must(bytes > 0 && bytes <= MEMORY_BYTES / 2 && count > 0, "sizes");
    must(socketpair(AF_UNIX, SOCK_STREAM, 0, fds) == 0, "socketpair");
    pid_t child = fork();
    must(child >= 0, "fork");
    prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0);
    struct end end = {.fd = fds[child == 0]};
    open_end(&end);
    double seconds = run(&end, bytes, count, child == 0 || both, child != 0 || both), theirs;
    exchange(end.fd, &seconds, &theirs, sizeof(seconds));
    if (child == 0)
        _exit(0);
    must(waitpid(child, &status, 0) == child && status == 0, "the other end");
    seconds = seconds > theirs ? seconds : theirs;
    printf("%.0f\n", (double)(count * bytes * (both ? 2 : 1)) / seconds);
    return 0;
}
