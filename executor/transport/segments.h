/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHUNT_EXECUTOR_SEGMENTS_H
#define SHUNT_EXECUTOR_SEGMENTS_H

/**
 * Shared-memory files of UCX that nobody may leave behind.
 *
 * UCX makes a file, sizes it, and only then removes its name: a process killed in that millisecond
 * leaves an anonymous-looking file in /dev/shm. So while its workers are made, a process offers UCX
 * a folder of its own, whose name says whose it is:
 *
 *     /dev/shm/shunt-exec-NAMESPACE-PID/
 *
 * seen by UCX as /proc/self/fd/N. Afterwards N becomes /dev/shm itself (where UCX may still put a
 * file when its pools grow) and the folder is gone. What a killed process has left can be told by
 * its name, and is removed by whoever is still there, or by the next run.
 */

#include <stdbool.h>

struct segments {
    int fd;         /* -1: not in use; else stays open as long as UCX is */
    char dir[40];   /* what to tell UCX */
    char name[64];  /* of the folder */
    bool soft_kill; /* the launcher's death was turned into a request to end, so that the folder goes */
};

/** Make the folder; on any failure fd is -1, and UCX keeps to its own ways. */
void segments_enter(struct segments *segments);
/** Remove the folder; fd stays good for what UCX makes later. */
void segments_leave(struct segments *segments);
void segments_close(struct segments *segments);

/** Remove the folders of processes that are no more. */
void segments_sweep(void);

#endif
