/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHUNT_EXECUTOR_COMMAND_H
#define SHUNT_EXECUTOR_COMMAND_H

/** The whole command: options, plans, and one of four ways to run them. @return the exit code */
int command_run(int argc, char **argv);

#endif
