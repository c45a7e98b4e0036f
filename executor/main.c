/* SPDX-License-Identifier: Apache-2.0 */
/* shunt-exec: replay plans. Results on stdout, everything else on stderr. */
#include <stdlib.h>

#include "cli/command.h"

int main(int argc, char **argv)
{
    return command_run(argc, argv);
}
