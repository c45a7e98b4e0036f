# SPDX-License-Identifier: Apache-2.0
"""Contents of a buffer as runs of the whole tensor. Standard library only.

A run is (start, length) in elements of the flattened whole tensor; a start of PAD stands for
elements that belong to no tensor. A list of runs says what a buffer holds, first element first.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import product
from typing import Any

PAD = -1
Run = tuple[int, int]
Box = list[list[int]]


def merge(runs: Iterable[Run]) -> list[Run]:
    """Join neighbours, so that equal contents are equal lists."""
    result: list[Run] = []
    for start, length in runs:
        if length == 0:
            continue
        if result and (result[-1][0] + result[-1][1] == start if start != PAD else result[-1][0] == PAD):
            result[-1] = (result[-1][0], result[-1][1] + length)
        else:
            result.append((start, length))
    return result


def count(runs: Iterable[Run]) -> int:
    """Elements."""
    return sum(length for _, length in runs)


def cut(runs: Iterable[Run], begin: int, end: int) -> list[Run]:
    """Elements [begin, end) of a buffer."""
    result: list[Run] = []
    at = 0
    for start, length in runs:
        low, high = max(begin, at), min(end, at + length)
        if low < high:
            result.append((start if start == PAD else start + low - at, high - low))
        at += length
    return merge(result)


def box_runs(shape: list[int], box: Box) -> Iterator[Run]:
    """A box of the whole tensor, row by row."""
    strides = [1] * len(shape)
    for d in range(len(shape) - 2, -1, -1):
        strides[d] = strides[d + 1] * shape[d + 1]
    low, high = box[-1]
    for outer in product(*(range(*side) for side in box[:-1])):
        yield sum(i * s for i, s in zip(outer, strides, strict=False)) + low, high - low


def padded_rows(rows: int, parts: int, vocab: dict[str, int]) -> int:
    """Rows of a vocabulary tensor with its pads."""
    if "padded" in vocab:
        return vocab["padded"]
    unit = vocab.get("divisible_by", 128) * parts
    return -(-rows // unit) * unit


def slice_runs(shape: list[int], keys: dict[str, Any], part: int, parts: int, vocab: dict[str, int]) -> list[Run]:
    """Slice `part` of `parts` of a tensor as its cut says, in memory order."""
    rule = keys.get("cut")
    whole = [[0, extent] for extent in shape]
    if rule is None:
        return merge(box_runs(shape, whole))
    dim, rows = rule["dim"], shape[rule["dim"]]
    segments = rule.get("segments", [rows])
    if rule.get("pad"):
        segments = [padded_rows(rows, parts, vocab)]
    result: list[Run] = []
    at = 0
    for length in segments:
        low, high = at + part * length // parts, at + (part + 1) * length // parts
        held = [min(low, rows), min(high, rows)]
        result += box_runs(shape, whole[:dim] + [held] + whole[dim + 1 :])
        row = 1
        for extent in shape[dim + 1 :]:
            row *= extent
        result.append((PAD, (high - low - held[1] + held[0]) * row))
        at += length
    return merge(result)


def shunt_runs(item: dict[str, Any]) -> list[Run]:
    """What Shunt says a buffer holds: boxes in the buffer's order, pads at the buffer's end."""
    result: list[Run] = []
    for box in item["boxes"]:
        result += box_runs(item["shape"], box)
    held = count(result)
    pads = merge(run for pad in item["pads"] for run in box_runs(item["local_shape"], pad))
    if len(pads) > 1 or (pads and pads[0][0] != held):
        raise ValueError(f"pads {item['pads']} are not what follows {held} elements of {item['local_shape']}")
    return merge([*result, *((PAD, length) for _, length in pads)])
