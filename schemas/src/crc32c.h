/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHUNT_SCHEMAS_CRC32C_H
#define SHUNT_SCHEMAS_CRC32C_H

/** The table-driven body of shunt_crc32c(), apart so that tests reach it on any processor. */

#include <stddef.h>
#include <stdint.h>

uint32_t shunt_crc32c_portable(uint32_t crc, const void *bytes, size_t size);

#endif
