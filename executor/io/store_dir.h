/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHUNT_EXECUTOR_STORE_DIR_H
#define SHUNT_EXECUTOR_STORE_DIR_H

/** Inside io/store*.c: walks over a folder of rank files. */

#include "io/store.h"

/** Call `visit` for every name in an open folder, until it returns false. @return SHUNT_ERR_IO */
enum shunt_status dir_each(int dir_fd, const char *dir, bool (*visit)(void *ctx, const char *name), void *ctx,
                           struct shunt_err *err);

/** A few names, for a message: "rank-00004.safetensors, rank-00005.safetensors and 3 more". */
struct name_list {
    char text[300];
    uint32_t count;
};
void name_list_add(struct name_list *list, const char *name);
const char *name_list_text(struct name_list *list);

#endif
