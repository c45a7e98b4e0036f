/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHUNT_EXECUTOR_PATTERN_H
#define SHUNT_EXECUTOR_PATTERN_H

/**
 * Predictable contents. Every tensor of every state is a stream of bytes that depends only on
 * (seed, state, tensor name): its elements in row-major global order. Byte t of the stream is byte
 * t % 8 of mix(key + t / 8), where mix is the finaliser of splitmix64 and key a hash of the three.
 * So an element's bytes are a pure function of seed, state, name, dtype size and global index.
 */

#include <stdint.h>

/** Key of one tensor's stream. */
uint64_t pattern_key(uint64_t seed, unsigned state, const char *tensor);

/** Write bytes [begin, begin + count) of the stream. */
void pattern_write(uint64_t key, uint64_t begin, void *dst, uint64_t count);

/** First byte of `data` that differs from the stream at [begin, begin + count); count if none does. */
uint64_t pattern_compare(uint64_t key, uint64_t begin, const void *data, uint64_t count);

#endif
