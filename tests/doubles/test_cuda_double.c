/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The double of CUDA itself: every misuse that it is there to find is made, in a process of its own, and must be
 * reported with rank and call; and the same done right must pass, however late jobs start.
 */
#include <errno.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cuda_double.h"
#include "device/boxes.h"
#include "harness.h"

#define BYTES 4096u

/* ---- what a program does ------------------------------------------------------------- */

static cudaStream_t one, two;
static char *pinned, *a, *b;

#define OK(call) CHECK_EQ_U64(call, cudaSuccess)

static void set_up(void)
{
    OK(cudaStreamCreateWithFlags(&one, cudaStreamNonBlocking));
    OK(cudaStreamCreateWithFlags(&two, cudaStreamNonBlocking));
    OK(cudaHostAlloc((void **)&pinned, BYTES, 0));
    OK(cudaMalloc((void **)&a, BYTES));
    OK(cudaMalloc((void **)&b, BYTES));
    memset(pinned, 7, BYTES);
    OK(cudaMemcpyAsync(a, pinned, BYTES, cudaMemcpyDefault, one));
}

static void order(cudaStream_t after, cudaStream_t before)
{
    cudaEvent_t event;
    OK(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
    OK(cudaEventRecord(event, before));
    OK(cudaStreamWaitEvent(after, event, 0));
    OK(cudaEventDestroy(event)); /* what was told stays told */
}

static void finish(void)
{
    OK(cudaStreamSynchronize(one));
    OK(cudaStreamSynchronize(two));
    OK(cudaFree(a));
    OK(cudaFree(b));
    OK(cudaFreeHost(pinned));
}

static void launch(const struct device_work *work, uint32_t count, void *const *bases, uint32_t base_count)
{
    struct boxes boxes;
    cudaLibrary_t library;
    cudaKernel_t kernel;
    char *table, *host;
    static const uint32_t magic = 0xBA55ED50u;
    CHECK_EQ_U64(boxes_create(&boxes, work, count, NULL), SHUNT_OK);
    size_t tiles_at = boxes.box_count * sizeof(struct kernel_box);
    size_t bases_at = tiles_at + boxes.tile_count * sizeof(struct kernel_tile);
    size_t bytes = bases_at + base_count * sizeof(uint64_t);
    OK(cudaMalloc((void **)&table, bytes));
    OK(cudaHostAlloc((void **)&host, bytes, 0));
    memcpy(host, boxes.boxes, tiles_at);
    memcpy(host + tiles_at, boxes.tiles, bases_at - tiles_at);
    memcpy(host + bases_at, bases, base_count * sizeof(uint64_t));
    OK(cudaMemcpyAsync(table, host, bytes, cudaMemcpyDefault, one));
    OK(cudaLibraryLoadData(&library, &magic, NULL, NULL, 0, NULL, NULL, 0));
    OK(cudaLibraryGetKernel(&kernel, library, KERNEL_NAME));
    struct kernel_args args = {.boxes = (const struct kernel_box *)table,
                               .tiles = (const struct kernel_tile *)(table + tiles_at),
                               .bases = (const uint64_t *)(table + bases_at),
                               .tile_count = boxes.tile_count};
    void *list[] = {&args};
    OK(cudaLaunchKernel((const void *)kernel, (dim3){1, 1, 1}, (dim3){KERNEL_LANES, 1, 1}, list, 0, one));
    OK(cudaStreamSynchronize(one));
    boxes_destroy(&boxes);
}

static const struct shunt_plan_view words = {.ndim = 1, .elem_bytes = 4, .shape = {16}, .stride = {4}};

static void copy_words(uint64_t dst_offset, uint64_t src_offset, uint32_t count)
{
    struct device_work work[2] = {{.dst = {0, dst_offset, &words}, .src = {1, src_offset, &words}},
                                  {.dst = {0, dst_offset + 32, &words}, .src = {1, src_offset, &words}}};
    void *bases[] = {b, a};
    launch(work, count, bases, 2);
}

/* ---- done right ------------------------------------------------------------------------ */

static void ordered_by_events(void)
{
    order(two, one);
    OK(cudaMemcpyAsync(b, a, BYTES, cudaMemcpyDefault, two));
    order(one, two);
    OK(cudaMemsetAsync(a, 1, BYTES, one));
    OK(cudaStreamSynchronize(one)); /* and with it what it waited for */
    OK(cudaMemcpyAsync(pinned, b, BYTES, cudaMemcpyDefault, one));
}

static void read_together(void)
{
    order(two, one);
    OK(cudaMemcpyAsync(b, a, BYTES / 2, cudaMemcpyDefault, one));
    OK(cudaMemcpyAsync(b + BYTES / 2, a, BYTES / 2, cudaMemcpyDefault, two));
}

static void memory_in_stream_order(void)
{
    void *c;
    for (int i = 0; i < 20; i++) {
        OK(cudaMallocAsync(&c, BYTES, one));
        OK(cudaMemcpyAsync(c, a, BYTES, cudaMemcpyDefault, one));
        OK(cudaFreeAsync(c, one));
    }
}

static void a_kernel(void)
{
    copy_words(0, 64, 1);
    OK(cudaMemcpyAsync(pinned, b, 64, cudaMemcpyDefault, one));
    OK(cudaStreamSynchronize(one));
    CHECK_EQ_U64(pinned[63], 7);
}

static void host_memory_that_is_lent(void)
{
    void *own = malloc(BYTES);
    OK(cudaHostRegister(own, BYTES, 0));
    OK(cudaMemcpyAsync(own, a, BYTES, cudaMemcpyDefault, one));
    OK(cudaStreamSynchronize(one));
    OK(cudaHostUnregister(own));
    free(own);
}

/* ---- done wrong -------------------------------------------------------------------------- */

static void beyond_the_cap(void)
{
    void *c;
    CHECK_EQ_U64(cudaMalloc(&c, UINT64_C(1) << 20), cudaErrorMemoryAllocation);
    _exit(DOUBLE_EXIT); /* the report alone does not end it: a program may have an answer */
}

static void copy_from_freed(void)
{
    OK(cudaStreamSynchronize(one));
    OK(cudaFree(a));
    OK(cudaMemcpyAsync(b, a, BYTES, cudaMemcpyDefault, one));
}

static void host_touches_device(void)
{
    *(volatile char *)a = 1;
}

static void host_touches_freed(void)
{
    OK(cudaStreamSynchronize(one));
    OK(cudaFree(a));
    *(volatile char *)a = 1;
}

static void slot_reused_without_event(void)
{
    order(two, one);
    OK(cudaMemcpyAsync(b, a, BYTES, cudaMemcpyDefault, two)); /* the wire reads the slot */
    OK(cudaMemsetAsync(a, 1, BYTES, one));                    /* the next pack fills it */
}

static void read_without_event(void)
{
    OK(cudaMemcpyAsync(b, a, BYTES, cudaMemcpyDefault, two));
}

static void pinned_reused_without_event(void)
{
    OK(cudaMemcpyAsync(pinned, b, BYTES, cudaMemcpyDefault, two)); /* while the set-up's copy may still read it */
}

static void event_before_the_work(void)
{
    cudaEvent_t event;
    OK(cudaEventCreateWithFlags(&event, 0));
    OK(cudaEventRecord(event, one));
    OK(cudaMemsetAsync(a, 3, BYTES, one));
    OK(cudaStreamWaitEvent(two, event, 0));
    OK(cudaMemcpyAsync(b, a, BYTES, cudaMemcpyDefault, two));
}

static void free_before_waiting(void)
{
    while (!double_stream_idle(one)) /* done, but nobody has asked */
        usleep(100);
    OK(cudaFree(a));
}

static void free_async_without_event(void)
{
    void *c;
    OK(cudaMallocAsync(&c, BYTES, one));
    order(two, one);
    OK(cudaMemcpyAsync(c, b, BYTES, cudaMemcpyDefault, two));
    while (!double_stream_idle(two))
        usleep(100);
    OK(cudaFreeAsync(c, one));
}

static void free_pinned_in_use(void)
{
    while (!double_stream_idle(one))
        usleep(100);
    OK(cudaFreeHost(pinned));
}

static void free_twice(void)
{
    OK(cudaStreamSynchronize(one));
    OK(cudaFree(a));
    OK(cudaFree(a));
}

static void beyond_the_end(void)
{
    OK(cudaMemsetAsync(b + 8, 0, BYTES, one));
}

static void pageable_memory(void)
{
    static char own[BYTES];
    OK(cudaMemcpyAsync(b, own, BYTES, cudaMemcpyDefault, one));
}

static void default_stream(void)
{
    OK(cudaMemcpyAsync(b, a, BYTES, cudaMemcpyDefault, NULL));
}

static void other_device(void)
{
    OK(cudaSetDevice(1));
    OK(cudaMemsetAsync(b, 0, BYTES, one));
}

static void kernel_beyond_the_end(void)
{
    copy_words(BYTES - 32, 0, 1);
}

static void kernel_from_freed(void)
{
    OK(cudaStreamSynchronize(one));
    OK(cudaFree(a));
    copy_words(0, 0, 1);
}

static void kernel_writes_twice(void)
{
    copy_words(0, 64, 2);
}

static void kernel_without_event(void)
{
    OK(cudaMemsetAsync(b, 0, BYTES, two));
    copy_words(0, 64, 1);
}

static void no_fat_binary(void)
{
    cudaLibrary_t library;
    OK(cudaLibraryLoadData(&library, "not one", NULL, NULL, 0, NULL, NULL, 0));
}

struct row {
    const char *name;
    void (*run)(void);
    const char *report; /* NULL: there is none */
};

/* Of two jobs without an order either may find the other. */
#define UNORDERED "of another stream may still"

static const struct row rows[] = {
    {"ordered by events", ordered_by_events, NULL},
    {"read together", read_together, NULL},
    {"memory in stream order", memory_in_stream_order, NULL},
    {"a kernel", a_kernel, NULL},
    {"host memory that is lent", host_memory_that_is_lent, NULL},
    {"beyond the cap", beyond_the_cap,
     "rank 5: cudaMalloc: 1048576 bytes on device 0, of whose 65536 bytes 57344 are free"},
    {"copy from freed memory", copy_from_freed, "rank 5: cudaMemcpyAsync: reads 4096 bytes at"},
    {"host code touches device memory", host_touches_device,
     "rank 5: host code: touches device memory outside a stream's job"},
    {"host code touches freed memory", host_touches_freed, "byte 0 of freed 4096 bytes"},
    {"a slot is filled again without an event", slot_reused_without_event, UNORDERED},
    {"read without an event", read_without_event, UNORDERED},
    {"pinned memory is filled again without an event", pinned_reused_without_event, UNORDERED},
    {"an event that was recorded too early", event_before_the_work, UNORDERED},
    {"cudaFree before waiting", free_before_waiting,
     "rank 5: cudaFree: frees 4096 bytes that cudaMemcpyAsync may still use"},
    {"cudaFreeAsync without an event", free_async_without_event,
     "rank 5: cudaFreeAsync: frees 4096 bytes that cudaMemcpyAsync of another stream"},
    {"pinned memory is freed in use", free_pinned_in_use,
     "rank 5: cudaFreeHost: frees host memory that cudaMemcpyAsync may still use"},
    {"freed twice", free_twice, "rank 5: cudaFree: frees"},
    {"beyond the end", beyond_the_end, "rank 5: cudaMemsetAsync: writes 4096 bytes, beyond the end"},
    {"pageable memory", pageable_memory, "which is pageable host memory"},
    {"the default stream", default_stream, "rank 5: cudaMemcpyAsync: uses the default stream"},
    {"a stream of another device", other_device,
     "rank 5: cudaMemsetAsync: uses a stream of device 0 while device 1 is set"},
    {"a kernel beyond the end", kernel_beyond_the_end, "cudaLaunchKernel(shunt_move): writes 32 bytes beyond the end"},
    {"a kernel reads freed memory", kernel_from_freed, "cudaLaunchKernel(shunt_move): reads 64 bytes at"},
    {"a kernel writes bytes twice", kernel_writes_twice, "cudaLaunchKernel(shunt_move): one launch writes 32 bytes"},
    {"a kernel without an event", kernel_without_event, UNORDERED},
    {"no fat binary", no_fat_binary, "rank 5: cudaLibraryLoadData: no fat binary"},
};

static int run_child(const struct row *row, const char *report, const char *jitter)
{
    pid_t pid = fork();
    int status = 0;
    if (pid == 0) {
        setenv("SHUNT_RANK", "5", 1);
        setenv("SHUNT_DOUBLE_DEVICES", "2", 1);
        setenv("SHUNT_DOUBLE_MEMORY", "65536", 1);
        setenv("SHUNT_DOUBLE_REPORT", report, 1);
        setenv("SHUNT_DOUBLE_JITTER", jitter, 1);
        if (freopen("/dev/null", "w", stderr) == NULL)
            _exit(9);
        set_up();
        row->run();
        finish();
        _exit(test_failures == 0 ? 0 : 8);
    }
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {
    }
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

static void read_report(const char *path, char *text, size_t size)
{
    FILE *file = fopen(path, "r");
    text[0] = '\0';
    if (file == NULL)
        return;
    text[fread(text, 1, size - 1, file)] = '\0';
    fclose(file);
}

static void misuses_are_reported_and_nothing_else(void)
{
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        for (int jitter = 1; jitter <= 3; jitter++) {
            char path[] = "/tmp/shunt-double-XXXXXX", text[2000], seed[8];
            int fd = mkstemp(path);
            snprintf(seed, sizeof(seed), "%d", jitter);
            int code = run_child(&rows[i], path, seed);
            read_report(path, text, sizeof(text));
            CHECK_MSG(code == (rows[i].report != NULL ? DOUBLE_EXIT : 0), "%s: exit %d: %s", rows[i].name, code, text);
            if (rows[i].report != NULL)
                CHECK_CONTAINS(text, rows[i].report);
            else
                CHECK_STR(text, "");
            close(fd);
            unlink(path);
        }
    }
}

static const struct test_case cases[] = {
    {"misuses_are_reported_and_nothing_else", misuses_are_reported_and_nothing_else},
};
TEST_MAIN(cases)
