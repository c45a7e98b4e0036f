/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Kernels on the CPU: the body that the GPU runs, lane by lane. Before a tile runs, all bytes that the launch
 * reads and writes are checked as those of any other job, and that no byte is written twice.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "cuda_internal.h"
#include "device/kernel.h"

#define MAX_LANES 1024u

struct kernel_call {
    struct kernel_args args;
    dim3 grid, block;
};

static const char move_kernel[] = KERNEL_NAME;

const void *kernel_find(const char *name)
{
    return strcmp(name, move_kernel) == 0 ? move_kernel : NULL;
}

/* Runs of bytes of one launch, on one side, as the program sees them. */
struct runs {
    struct run *list;
    size_t count, room;
};

static void add_run(struct runs *runs, uint64_t lo, uint64_t bytes)
{
    struct run *last = runs->count > 0 ? &runs->list[runs->count - 1] : NULL;
    if (last != NULL && last->hi == lo) {
        last->hi += bytes;
        return;
    }
    if (runs->count == runs->room) {
        runs->room = runs->room < 64 ? 64 : 2 * runs->room;
        runs->list = realloc(runs->list, runs->room * sizeof(*runs->list));
        if (runs->list == NULL)
            abort();
    }
    runs->list[runs->count++] = (struct run){lo, lo + bytes};
}

static void add_tile(const struct kernel_box *box, uint32_t index, uint64_t dst_base, uint64_t src_base,
                     struct runs *writes, struct runs *reads)
{
    struct kernel_span span = kernel_span_of(box, index, (char *)(uintptr_t)dst_base, (char *)(uintptr_t)src_base);
    uint32_t rows = box->tile_rows == 0 ? 1 : span.count / box->short_row.number;
    uint64_t vectors = span.count / rows;
    for (uint32_t r = 0; r < rows; r++) {
        struct kernel_at at = box->tile_rows == 0 ? (struct kernel_at){0, 0} : kernel_row(box, span.first_row + r);
        add_run(writes, (uintptr_t)span.dst + at.dst, vectors * box->dst_bytes);
        if (box->kind != KERNEL_ZERO)
            add_run(reads, (uintptr_t)span.src + at.src, vectors * box->src_bytes);
    }
}

static int by_address(const void *a, const void *b)
{
    uint64_t x = ((const struct run *)a)->lo, y = ((const struct run *)b)->lo;
    return (x > y) - (x < y);
}

static void join_neighbours(struct double_job *job, struct runs *runs, bool write)
{
    size_t kept = 0;
    if (runs->count > 0)
        qsort(runs->list, runs->count, sizeof(*runs->list), by_address);
    for (size_t i = 0; i < runs->count; i++) {
        struct run *last = kept > 0 ? &runs->list[kept - 1] : NULL;
        if (last != NULL && write && runs->list[i].lo < last->hi)
            double_fail(job->call, "one launch writes %" PRIu64 " bytes at 0x%" PRIx64 " twice",
                        last->hi - runs->list[i].lo, runs->list[i].lo);
        if (last != NULL && runs->list[i].lo <= last->hi)
            last->hi = runs->list[i].hi > last->hi ? runs->list[i].hi : last->hi;
        else
            runs->list[kept++] = runs->list[i];
    }
    runs->count = kept;
}

/* All runs, region by region. */
static void touch_runs(struct double_job *job, struct runs *runs, bool write)
{
    join_neighbours(job, runs, write);
    double_lock();
    for (size_t i = 0; i < runs->count;) {
        const void *at = (const void *)(uintptr_t)runs->list[i].lo;
        struct region *region = region_find(at);
        char text[160];
        region_describe(at, text, sizeof(text));
        size_t end = i;
        for (; region != NULL && region->live && end < runs->count && runs->list[end].lo - region->base < region->bytes;
             end++) {
            runs->list[end].lo -= region->base;
            runs->list[end].hi -= region->base;
            if (runs->list[end].hi > region->bytes)
                double_fail(job->call, "%s %" PRIu64 " bytes beyond the end of an allocation of %" PRIu64 " bytes",
                            write ? "writes" : "reads", runs->list[end].hi - region->bytes, region->bytes);
        }
        if (end == i)
            double_fail(job->call, "%s %" PRIu64 " bytes at %s", write ? "writes" : "reads",
                        runs->list[i].hi - runs->list[i].lo, text);
        job_touch(job, region, runs->list + i, end - i, write, true);
        i = end;
    }
    double_unlock();
}

/* What to add to an address to come where its bytes lie. All of a box is in one allocation: touch_runs() saw to it. */
static char *home_of(const struct kernel_box *box, uint64_t base, uint64_t first)
{
    (void)box;
    double_lock();
    const struct region *region = region_find((const void *)(uintptr_t)first);
    char *home = region->home - region->base + base;
    double_unlock();
    return home;
}

static void run_tile(const struct kernel_call *call, const struct kernel_box *box, uint32_t index, char *dst,
                     const char *src)
{
    for (uint32_t lane = 0; lane < call->block.x; lane++)
        kernel_move(box, index, dst, src, lane, call->block.x);
}

static void run_move(struct double_job *job, void *arg)
{
    struct kernel_call *call = arg;
    const struct kernel_args *args = &call->args;
    struct runs writes = {0}, reads = {0};
    const struct kernel_tile *tiles =
        double_read(job, args->tiles + args->tile_begin, args->tile_count * sizeof(*args->tiles));
    for (uint32_t t = 0; t < args->tile_count; t++) {
        const struct kernel_box *box = double_read(job, args->boxes + tiles[t].box, sizeof(*box));
        const uint64_t *dst = double_read(job, args->bases + box->dst_base, sizeof(*dst));
        const uint64_t *src =
            box->kind == KERNEL_ZERO ? dst : double_read(job, args->bases + box->src_base, sizeof(*src));
        add_tile(box, tiles[t].index, *dst, *src, &writes, &reads);
    }
    touch_runs(job, &reads, false);
    touch_runs(job, &writes, true);
    for (uint32_t t = 0; t < args->tile_count; t++) {
        const struct kernel_box *box = double_read(job, args->boxes + tiles[t].box, sizeof(*box));
        const uint64_t *dst = double_read(job, args->bases + box->dst_base, sizeof(*dst));
        char *to = home_of(box, *dst, *dst + box->dst_offset), *from = to;
        if (box->kind != KERNEL_ZERO) {
            const uint64_t *src = double_read(job, args->bases + box->src_base, sizeof(*src));
            from = home_of(box, *src, *src + box->src_offset);
        }
        run_tile(call, box, tiles[t].index, to, from);
    }
    free(writes.list);
    free(reads.list);
    free(call);
}

static _Atomic uint64_t launches;

uint64_t kernel_launches(void)
{
    return atomic_load(&launches);
}

void kernel_enqueue(const void *kernel, dim3 grid, dim3 block, void **args, cudaStream_t stream)
{
    struct kernel_call *call = malloc(sizeof(*call));
    if (call == NULL)
        abort();
    if (kernel != move_kernel)
        double_fail("cudaLaunchKernel", "%p is no kernel", kernel);
    if (grid.x == 0 || grid.y != 1 || grid.z != 1 || block.x == 0 || block.x > MAX_LANES || block.y != 1 ||
        block.z != 1)
        double_fail("cudaLaunchKernel", "grid %ux%ux%u of blocks of %ux%ux%u", grid.x, grid.y, grid.z, block.x, block.y,
                    block.z);
    atomic_fetch_add(&launches, 1);
    *call = (struct kernel_call){.grid = grid, .block = block};
    memcpy(&call->args, args[0], sizeof(call->args));
    double_enqueue(stream, "cudaLaunchKernel(" KERNEL_NAME ")", run_move, call);
}
