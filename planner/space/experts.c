/* SPDX-License-Identifier: Apache-2.0 */
#include "space/experts.h"

#include <string.h>

/** Length of the name of what is registered as one: the module (up to the last dot), or the expert. */
static size_t module_length(enum cfg_experts how, const struct space_family *family)
{
    const char *mark = strstr(family->name, "{e}"), *dot = strrchr(family->name, '.');
    if (how == CFG_EXPERTS_SEQUENTIAL && mark != NULL)
        return (size_t)(mark - family->name);
    return dot == NULL ? strlen(family->name) : (size_t)(dot - family->name);
}

bool experts_together(enum cfg_experts how, const struct space_family *a, const struct space_family *b)
{
    size_t length = module_length(how, a);
    return how != CFG_EXPERTS_STACKED && a->expert && b->expert && length == module_length(how, b) &&
           memcmp(a->name, b->name, length) == 0;
}

int64_t experts_in_stack(enum cfg_experts how, const struct space_family *family, int64_t local_experts)
{
    return how == CFG_EXPERTS_STACKED && family->expert ? local_experts : 1;
}
