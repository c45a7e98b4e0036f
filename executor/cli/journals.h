/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHUNT_EXECUTOR_JOURNALS_H
#define SHUNT_EXECUTOR_JOURNALS_H

/** The journals of all devices, in one folder. */

#include <stdio.h>

#include "cli/chain.h"
#include "cli/options.h"

/** Make the folder, if it is not there. @return SHUNT_ERR_IO */
enum shunt_status journals_make(const char *dir, struct shunt_err *err);

/** The file of a device. @return SHUNT_ERR_IO when the name is too long */
enum shunt_status journals_path(const char *dir, uint32_t device, char *path, size_t size, struct shunt_err *err);

/**
 * --read-journal: how far each device came in the plan of the chain that its journal names, as text or JSON.
 *
 * @return the first error; what could be read is printed in any case
 */
enum shunt_status journals_print(const struct options *options, const struct chain *chain, FILE *file,
                                 struct shunt_err *err);

#endif
