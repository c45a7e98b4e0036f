/* SPDX-License-Identifier: Apache-2.0 */
#include "launch/leftovers.h"

#include <stdbool.h>
#include <stdio.h>
#include <sys/shm.h>

/** Whether the segment is what the listing said when it is looked at: ids are used again. */
static bool is_left(int id, pid_t dead)
{
    struct shmid_ds info;
    return shmctl(id, IPC_STAT, &info) == 0 && info.shm_cpid == dead && info.shm_nattch == 0;
}

void leftovers_remove(pid_t dead)
{
    char line[512];
    FILE *file = fopen("/proc/sysvipc/shm", "r");
    if (file == NULL)
        return;
    while (fgets(line, sizeof(line), file) != NULL) {
        int id;
        long maker;
        /* key shmid perms size cpid ... */
        if (sscanf(line, "%*d %d %*o %*u %ld", &id, &maker) == 2 && maker == (long)dead && is_left(id, dead))
            shmctl(id, IPC_RMID, NULL);
    }
    fclose(file);
}
