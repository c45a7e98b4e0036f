/* SPDX-License-Identifier: Apache-2.0 */
/* Shared memory that has no name: the id says whose descriptor it is, and the system opens that for the others. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <unistd.h>

#include "nccl_internal.h"

#define ID_MAGIC UINT64_C(0x6c63636e756f6873)

struct id {
    uint64_t magic, token;
    int64_t pid;
    int32_t fd;
};
_Static_assert(sizeof(struct id) <= NCCL_UNIQUE_ID_BYTES, "fits the id");

static size_t rings_at(uint32_t ranks)
{
    size_t bytes = sizeof(struct segment) + ranks * sizeof(struct seat);
    return (bytes + 4095) / 4096 * 4096;
}

static size_t segment_bytes(uint32_t ranks)
{
    return rings_at(ranks) + (size_t)ranks * ranks * sizeof(struct ring);
}

bool segment_create(ncclUniqueId *id)
{
    struct id own = {.magic = ID_MAGIC, .pid = getpid(), .fd = memfd_create("nccl-double", MFD_CLOEXEC)};
    if (own.fd < 0 || getrandom(&own.token, sizeof(own.token), 0) != sizeof(own.token))
        return false;
    memset(id, 0, sizeof(*id));
    memcpy(id, &own, sizeof(own));
    return true;
}

struct segment *segment_join(const ncclUniqueId *id, uint32_t ranks)
{
    struct id own;
    char path[64];
    memcpy(&own, id, sizeof(own));
    if (own.magic != ID_MAGIC)
        double_fail("ncclCommInitRankConfig", "the id is none");
    snprintf(path, sizeof(path), "/proc/%ld/fd/%d", (long)own.pid, own.fd);
    int fd = open(path, O_RDWR | O_CLOEXEC);
    if (fd < 0 || ftruncate(fd, (off_t)segment_bytes(ranks)) != 0) {
        if (fd >= 0)
            close(fd);
        return NULL;
    }
    struct segment *segment = mmap(NULL, segment_bytes(ranks), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    if (segment == MAP_FAILED)
        return NULL;
    uint32_t none = 0;
    if (!atomic_compare_exchange_strong(&segment->ranks, &none, ranks) && none != ranks)
        double_fail("ncclCommInitRankConfig", "%u ranks here, %u elsewhere", ranks, none);
    return segment;
}

void segment_leave(struct segment *segment)
{
    munmap(segment, segment_bytes(atomic_load(&segment->ranks)));
}

struct ring *segment_ring(struct segment *segment, uint32_t from, uint32_t to)
{
    uint32_t ranks = atomic_load(&segment->ranks);
    return (struct ring *)((char *)segment + rings_at(ranks)) + (size_t)from * ranks + to;
}

bool segment_is_dead(const struct segment *segment, uint32_t rank)
{
    int64_t pid = atomic_load(&segment->seats[rank].pid);
    return pid != 0 && kill((pid_t)pid, 0) != 0 && errno == ESRCH;
}
