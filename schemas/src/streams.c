/* SPDX-License-Identifier: Apache-2.0 */
#include "shunt/streams.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

void shunt_open_streams(void)
{
    /* the lowest free descriptor is taken: in ascending order each gets its own */
    static const int modes[] = {[STDIN_FILENO] = O_RDONLY, [STDOUT_FILENO] = O_RDONLY, [STDERR_FILENO] = O_WRONLY};
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++) {
        if (fcntl(fd, F_GETFD) < 0 && errno == EBADF)
            (void)!open("/dev/null", modes[fd]);
    }
}
