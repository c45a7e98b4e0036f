/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Device memory. Addresses come from one reserved range that stays unmapped for ever, and are never used
 * twice: who touches one is stopped by the processor, and who uses a freed one is found by name. The bytes lie
 * in a mapping of their own, which the program has no address of, and which a free unmaps.
 */
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "cuda_internal.h"

#define RESERVED_BYTES (UINT64_C(256) << 30)
#define PAGE           4096u
#define DEFAULT_CAP    (UINT64_C(16) << 30)
#define FRESH_BYTE     0xCD

static struct {
    uintptr_t begin, next, end; /* reserved addresses */
    struct region *regions;     /* sorted by base */
    size_t count, room;
    uint64_t used[DOUBLE_MAX_DEVICES], peak[DOUBLE_MAX_DEVICES], allocs[DOUBLE_MAX_DEVICES];
    uint64_t cap;
} memory;

static uint64_t cap(void)
{
    const char *text = getenv("SHUNT_DOUBLE_MEMORY");
    if (memory.cap == 0)
        memory.cap = text != NULL ? strtoull(text, NULL, 0) : DEFAULT_CAP;
    return memory.cap;
}

static bool reserve(void)
{
    if (memory.begin != 0)
        return true;
    void *at = mmap(NULL, RESERVED_BYTES, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (at == MAP_FAILED)
        return false;
    memory.begin = (uintptr_t)at;
    memory.end = memory.begin + RESERVED_BYTES;
    memory.next = memory.begin + PAGE;
    return true;
}

static size_t first_above(uintptr_t address)
{
    size_t low = 0, high = memory.count;
    while (low < high) {
        size_t mid = low + (high - low) / 2;
        if (memory.regions[mid].base <= address)
            low = mid + 1;
        else
            high = mid;
    }
    return low;
}

static struct region *insert(const struct region *region)
{
    if (memory.count == memory.room) {
        memory.room = memory.room < 64 ? 64 : 2 * memory.room;
        memory.regions = realloc(memory.regions, memory.room * sizeof(*memory.regions));
        if (memory.regions == NULL)
            abort();
    }
    size_t at = first_above(region->base);
    memmove(memory.regions + at + 1, memory.regions + at, (memory.count - at) * sizeof(*memory.regions));
    memory.regions[at] = *region;
    memory.count++;
    return &memory.regions[at];
}

/* Bytes that lie behind the end of a region belong to it too, up to the next one: for messages. */
struct region *region_find(const void *ptr)
{
    size_t at = first_above((uintptr_t)ptr);
    if (at == 0)
        return NULL;
    struct region *region = &memory.regions[at - 1];
    uint64_t offset = (uintptr_t)ptr - region->base;
    if (offset < region->bytes || (region->kind == REGION_DEVICE && offset <= region->bytes))
        return region;
    return NULL;
}

bool double_take_memory(int device, size_t bytes)
{
    if (bytes > cap() - memory.used[device])
        return false;
    memory.used[device] += bytes;
    memory.allocs[device]++;
    if (memory.used[device] > memory.peak[device])
        memory.peak[device] = memory.used[device];
    return true;
}

void double_give_memory(int device, size_t bytes)
{
    memory.used[device] -= bytes;
}

void *region_create(int device, size_t bytes)
{
    uint64_t span = (bytes + PAGE - 1) / PAGE * PAGE;
    struct region region = {.bytes = bytes, .device = device, .kind = REGION_DEVICE, .live = true};
    if (!reserve() || span + PAGE > memory.end - memory.next)
        double_fail("cudaMalloc", "out of addresses");
    if (!double_take_memory(device, bytes))
        return NULL;
    region.home = mmap(NULL, span + PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (region.home == MAP_FAILED) {
        double_give_memory(device, bytes);
        return NULL;
    }
    memset(region.home, FRESH_BYTE, bytes);
    region.base = memory.next;
    memory.next += span + PAGE; /* a page apart, so that an overrun is nobody's */
    return (void *)insert(&region)->base;
}

void region_uncount(struct region *region)
{
    double_give_memory(region->device, region->bytes);
}

void region_unmap(struct region *region)
{
    munmap(region->home, (region->bytes + PAGE - 1) / PAGE * PAGE + PAGE);
    region->home = NULL;
    region->live = false;
    touches_finish(&region->touches);
}

bool region_pin(void *host, size_t bytes, enum region_kind kind)
{
    struct region region = {
        .base = (uintptr_t)host, .bytes = bytes, .home = host, .device = -1, .kind = (uint8_t)kind, .live = true};
    size_t at = first_above(region.base + bytes - 1);
    if (at > 0 && memory.regions[at - 1].base + memory.regions[at - 1].bytes > region.base)
        return false;
    insert(&region);
    return true;
}

void region_unpin(void *host, enum region_kind kind, const char *call)
{
    struct region *region = region_find(host);
    struct conflict conflict;
    if (region == NULL || region->base != (uintptr_t)host || region->kind != kind)
        double_fail(call, "%p is no such memory", host);
    touches_check_all(&region->touches, host_clock(), &conflict);
    if (conflict.found)
        double_fail(call, "frees host memory that %s may still use: the host has not waited for it",
                    mark_call(conflict.other));
    touches_finish(&region->touches);
    size_t at = (size_t)(region - memory.regions);
    memmove(region, region + 1, (memory.count - at - 1) * sizeof(*region));
    memory.count--;
}

void region_describe(const void *ptr, char *text, size_t size)
{
    const struct region *region = region_find(ptr);
    if (region == NULL) {
        bool ours = (uintptr_t)ptr >= memory.begin && (uintptr_t)ptr < memory.end;
        snprintf(text, size, "%p, which is %s", ptr, ours ? "in no allocation" : "pageable host memory");
        return;
    }
    snprintf(text, size, "%p, byte %" PRIu64 " of %s %" PRIu64 " bytes", ptr, (uint64_t)((uintptr_t)ptr - region->base),
             region->kind != REGION_DEVICE ? "pinned"
             : region->live                ? "allocated"
                                           : "freed",
             region->bytes);
}

void memory_get_info(int device, uint64_t *free_out, uint64_t *total_out)
{
    *total_out = cap();
    *free_out = cap() - memory.used[device];
}

int double_pointer_device(const void *ptr)
{
    double_lock();
    const struct region *region = region_find(ptr);
    int device = region != NULL && region->live ? region->device : -1;
    double_unlock();
    return device;
}

/* One line per device that was used, for tests that measure. */
void memory_print_stats(void)
{
    const char *path = getenv("SHUNT_DOUBLE_STATS");
    FILE *file = path == NULL ? NULL : fopen(path, "a");
    if (file == NULL)
        return;
    for (unsigned d = 0; d < DOUBLE_MAX_DEVICES; d++) {
        if (memory.allocs[d] > 0)
            fprintf(file,
                    "{\"rank\":%d,\"device\":%u,\"peak\":%" PRIu64 ",\"left\":%" PRIu64 ",\"allocs\":%" PRIu64
                    ",\"kernels\":%" PRIu64 "}\n",
                    double_rank(), d, memory.peak[d], memory.used[d], memory.allocs[d], kernel_launches());
    }
    fclose(file);
}

static void on_fault(int number, siginfo_t *info, void *context)
{
    (void)context;
    uintptr_t at = (uintptr_t)info->si_addr;
    if (at >= memory.begin && at < memory.end) {
        char text[160];
        region_describe(info->si_addr, text, sizeof(text));
        double_fail("host code", "touches device memory outside a stream's job: %s", text);
    }
    signal(number, SIG_DFL); /* not ours: it comes again, and then counts */
}

void memory_start(void)
{
    struct sigaction action = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO | SA_NODEFER};
    sigaction(SIGSEGV, &action, NULL);
    sigaction(SIGBUS, &action, NULL);
}
