/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHUNT_SCHEMAS_VERIFY_SIP_H
#define SHUNT_SCHEMAS_VERIFY_SIP_H

/**
 * SipHash-2-4 (Aumasson and Bernstein, 2012) of words, little-endian: under a key that whoever made a plan
 * could not know, nothing in it can be chosen to collide.
 */

#include <stdbool.h>
#include <stdint.h>

uint64_t vsip_words(const uint64_t key[2], const uint64_t *words, uint32_t count);

/** Draw keys. False if there are no random numbers. */
bool vsip_draw(uint64_t *words, uint32_t count);

#endif
