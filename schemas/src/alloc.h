/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHUNT_SCHEMAS_ALLOC_H
#define SHUNT_SCHEMAS_ALLOC_H

/** The one way to allocate in this room, so that a test can let each call fail in turn. */

#include <stddef.h>

/** calloc() until a test puts another function here. */
extern void *(*schema_calloc)(size_t count, size_t size);

/** At least one record, zeroed, or NULL. */
void *schema_alloc(size_t count, size_t size);

#endif
