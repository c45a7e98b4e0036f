# SPDX-License-Identifier: Apache-2.0
"""What a move makes of a state: another dtype, or another state. Written a second time, on bit patterns."""

from __future__ import annotations

import numpy as np

MADE = {"from-master": ("master", "bf16"), "from-param": ("param", "fp32")}  # word -> (origin, dtype)


def dtype_of(word: str) -> str:
    """The dtype that a layout's word for a state means."""
    return MADE[word][1] if word in MADE else word


def origin_of(state: str, word: str | None) -> str:
    """The old state that a new one is made from."""
    return MADE[word][0] if word in MADE else state


def narrowed(bits: np.ndarray) -> np.ndarray:
    """fp32 to bf16: the nearer neighbour, the even one in the middle; a NaN keeps its upper half and is quiet."""
    upper, lower = (bits >> np.uint32(16)).astype(np.uint32), bits & np.uint32(0xFFFF)
    nan = ((bits & np.uint32(0x7F800000)) == 0x7F800000) & ((bits & np.uint32(0x007FFFFF)) != 0)
    up = (lower > 0x8000) | ((lower == 0x8000) & (upper % 2 == 1))
    return np.where(nan, upper | 0x40, upper + up).astype(np.uint16)


def widened(bits: np.ndarray) -> np.ndarray:
    """bf16 to fp32: the same number."""
    return bits.astype(np.uint32) << np.uint32(16)


def cast(bits: np.ndarray, old: str, new: str) -> np.ndarray:
    """An array of bit patterns in another dtype."""
    if old == new:
        return bits
    return {("fp32", "bf16"): narrowed, ("bf16", "fp32"): widened}[old, new](bits)


def with_odd_numbers(bits: np.ndarray) -> np.ndarray:
    """fp32 patterns among which are ties, infinities, NaNs, subnormals and what rounds to infinity; none is zero."""
    bits = bits.copy()
    bits[::3] = (bits[::3] & np.uint32(0xFFFF0000)) | np.uint32(0x8000)
    bits[5::11] |= np.uint32(0x7F800000)
    bits[6::17] = (bits[6::17] & np.uint32(0x80000000)) | np.uint32(0x7F800000)
    bits[7::13] &= np.uint32(0x807FFFFF)
    bits[8::29] |= np.uint32(0x7F7F8000)
    return np.where(bits & np.uint32(0x7FFFFFFF) == 0, np.uint32(1), bits)
