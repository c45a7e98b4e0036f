/* SPDX-License-Identifier: Apache-2.0 */
/* shunt-exec: replay plans. Results on stdout, everything else on stderr. */
#include <stdlib.h>

#include "cli/command.h"
#include "shunt/streams.h"

int main(int argc, char **argv)
{
    shunt_open_streams();
    return command_run(argc, argv);
}
