/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHUNT_PLANNER_PROBLEM_H
#define SHUNT_PLANNER_PROBLEM_H

/**
 * What must be scheduled: immutable once built. A job is one item (tensor and state) with
 * something to do: pieces to move or a new buffer to allocate. It is executed in chunks: its
 * pieces are dealt into groups, and each piece of a group is cut into slices. Its new buffers are allocated in the round of its
 * first chunk, its old ones that are read are released at the end of the round of its last.
 *
 * A job whose item is derived from another one comes after that item's job, and releases the old buffers
 * that both read.
 */

#include "routing/route.h"

#include "shunt/plan_format.h"

/** Memory of a job on one device, in bytes. Buffers in host memory count as 0 here and below: the cap is the device's. */
struct job_memory {
    uint32_t device;
    uint64_t alloc;   /* new buffer */
    uint64_t release; /* old buffer that the job reads, and no later one */
};

#define JOB_NONE UINT32_MAX

struct job {
    uint32_t item, type;
    uint32_t index;      /* of the item in its type */
    uint32_t elem_bytes; /* of an element when sent */
    uint32_t after;      /* job that must be finished before; JOB_NONE */
    bool reads_new;      /* and whose new buffers must be complete: it reads them */
    uint32_t stages;     /* of its pieces */
    bool passes;         /* some of them lie in scratch memory before they are sent on */
    uint32_t memory_count;
    struct job_memory *memory; /* ascending device */
    uint64_t traffic;          /* most bytes that one device sends and receives for it, aligned */
    uint64_t largest;          /* bytes of its largest remote piece, aligned */
    uint64_t bytes;            /* payload of all its remote pieces */
};

struct problem_device {
    uint64_t fixed;    /* reserve and transport buffers */
    uint64_t memory;   /* it has no more, whatever the cap; PROBLEM_NO_CAP: the cap says */
    uint64_t from, to; /* bytes of the old and the new buffers, kept ones in both */
    uint64_t unread;   /* old buffers that are neither kept nor read by any job, or are parked */
    uint64_t traffic;  /* bytes it sends and receives in all, aligned */
};

/** An old buffer that is copied to host memory in the first round, freed, and read there from then on. */
struct parked {
    uint32_t item;
    uint64_t bytes;
};

/** Those of device d are list[begin[d] .. begin[d + 1]), by ascending item; begin is NULL where none are. */
struct parks {
    const uint32_t *begin;
    const struct parked *list;
};

struct problem {
    const struct route *route;
    uint64_t cap;     /* bytes per device, everything included; a device of a smaller memory has less */
    uint64_t staging; /* most bytes for staging slots per device */
    uint32_t threads; /* at most, where work on it is shared; 0: one */
    uint32_t job_count;
    struct job *jobs; /* in the order of the items */
    struct problem_device *devices;
    bool fills_kept;   /* some kept buffer has pads to zero */
    bool frees_unread; /* some old buffer, perhaps of 0 bytes, is neither kept nor read */
    bool may_spill;    /* old buffers may be parked where the cap asks for it */
    struct parks parks;
    const struct problem *other; /* the same move by another route, to be tried behind this one; NULL: none */
    uint64_t piece_count;        /* of all jobs */
    uint64_t from_max, to_max, traffic_max, unread_max;
    uint64_t peak_lower_bound; /* max over devices of fixed + max(from, to) */
};

/** Caps from here on are none. */
#define PROBLEM_NO_CAP (UINT64_MAX / 4)

/** Of what is fixed on a device, the buffers that its transport has for its peers. */
static inline uint64_t problem_peer_bytes(const struct problem *problem, uint32_t device)
{
    const struct cfg_cluster *cluster = problem->route->world->cluster;
    return problem->devices[device].fixed - cluster->device_reserve - cluster->transport_buffers;
}

/** With fewer pieces than these, threads cost more than they save. */
#define PROBLEM_MANY_PIECES 50000u

/** Threads that are worth while. */
static inline uint32_t problem_threads(const struct problem *problem)
{
    return problem->piece_count < PROBLEM_MANY_PIECES ? 1 : problem->threads;
}

/** Most that is fixed on any device. */
static inline uint64_t problem_most_fixed(const struct problem *problem)
{
    uint64_t most = 0;
    for (uint32_t d = 0; d < problem->route->world->device_count; d++)
        most = problem->devices[d].fixed > most ? problem->devices[d].fixed : most;
    return most;
}

/** Cap of a device under a cap of all. */
static inline uint64_t problem_cap(const struct problem *problem, uint64_t cap, uint32_t device)
{
    uint64_t memory = problem->devices[device].memory;
    return cap < PROBLEM_NO_CAP && memory < cap ? memory : cap;
}

static inline bool parks_any(const struct problem *problem)
{
    return problem->parks.begin != NULL && problem->parks.begin[problem->route->world->device_count] > 0;
}

/** Whether a device parks its old buffer of an item. */
static inline bool parks_holds(const struct problem *problem, uint32_t device, uint32_t item)
{
    const struct parks *parks = &problem->parks;
    uint32_t lo = parks->begin != NULL ? parks->begin[device] : 0;
    const uint32_t end = parks->begin != NULL ? parks->begin[device + 1] : 0;
    for (uint32_t hi = end; lo < hi;) {
        uint32_t middle = lo + (hi - lo) / 2;
        if (parks->list[middle].item < item)
            lo = middle + 1;
        else
            hi = middle;
    }
    return lo < end && parks->list[lo].item == item;
}

/** Bytes that a device parks. */
static inline uint64_t parks_bytes(const struct problem *problem, uint32_t device)
{
    uint64_t bytes = 0;
    for (uint32_t i = problem->parks.begin[device]; i < problem->parks.begin[device + 1]; i++)
        bytes += problem->parks.list[i].bytes;
    return bytes;
}

static inline uint64_t problem_align(uint64_t bytes)
{
    return (bytes + SHUNT_PLAN_MESSAGE_ALIGN - 1) & ~(uint64_t)(SHUNT_PLAN_MESSAGE_ALIGN - 1);
}

/** Message space of `elements` elements: payload rounded up to the message alignment. */
static inline uint64_t problem_aligned_bytes(int64_t elements, uint32_t elem_bytes)
{
    return problem_align((uint64_t)elements * elem_bytes);
}

struct problem *problem_build(struct arena *arena, const struct route *route, uint64_t cap, uint64_t staging);

#endif
