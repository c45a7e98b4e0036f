/* SPDX-License-Identifier: Apache-2.0 */
#include "alloc.h"

#include <stdlib.h>

void *(*schema_calloc)(size_t count, size_t size) = calloc;

void *schema_alloc(size_t count, size_t size)
{
    return schema_calloc(count > 0 ? count : 1, size);
}
