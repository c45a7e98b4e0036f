/* SPDX-License-Identifier: Apache-2.0 */
/** Shared memory of processes that were killed: removed when nobody uses it, and not before. */

#include <signal.h>
#include <stdlib.h>
#include <sys/shm.h>
#include <sys/wait.h>
#include <unistd.h>

#include "harness.h"
#include "launch/leftovers.h"

/** A child that makes a segment, attaches it, and waits to be killed. */
static pid_t start_maker(int *id_out)
{
    int ends[2];
    if (pipe(ends) != 0)
        return -1;
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        alarm(60);
        int id = shmget(IPC_PRIVATE, 4096, 0600);
        bool good = id >= 0 && shmat(id, NULL, 0) != (void *)-1;
        id = good ? id : -1;
        if (write(ends[1], &id, sizeof(id)) == sizeof(id))
            pause();
        _exit(1);
    }
    bool told = child > 0 && read(ends[0], id_out, sizeof(*id_out)) == sizeof(*id_out) && *id_out >= 0;
    close(ends[0]);
    close(ends[1]);
    return told ? child : -1;
}

static bool exists(int id)
{
    struct shmid_ds info;
    return shmctl(id, IPC_STAT, &info) == 0;
}

static void removes_what_nobody_uses(void)
{
    int id = -1;
    pid_t maker = start_maker(&id);
    if (maker < 0) {
        test_skip("no System V shared memory here");
        return;
    }
    void *mine = shmat(id, NULL, 0);
    leftovers_remove(maker);
    CHECK(exists(id)); /* its maker lives */
    kill(maker, SIGKILL);
    CHECK(waitpid(maker, NULL, 0) == maker);
    leftovers_remove(maker);
    CHECK(exists(id)); /* we use it */
    CHECK(mine != (void *)-1 && shmdt(mine) == 0);
    leftovers_remove(getpid());
    CHECK(exists(id)); /* somebody else's */
    leftovers_remove(maker);
    CHECK(!exists(id));
}

static const struct test_case cases[] = {
    {"removes_what_nobody_uses", removes_what_nobody_uses},
};
TEST_MAIN(cases)
