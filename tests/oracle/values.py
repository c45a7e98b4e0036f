# SPDX-License-Identifier: Apache-2.0
"""Contents: bit patterns that tell every element from every other, and the arrays of each rank."""

from __future__ import annotations

import copy

import numpy as np

import casts
from layout import DTYPES, Entry, Key, Layout, Model, coordinates, cut, entries, pad_rows

ODD = {1: 0x9D, 2: 0x9E37, 4: 0x9E3779B1, 8: 0x9E3779B97F4A7C15}


class Patterns:
    """Hands out non-zero bit patterns; none repeats before all of its width are used."""

    def __init__(self) -> None:
        self.next = {1: 0, 2: 0, 4: 0, 8: 0}

    def take(self, dtype: str, shape: tuple[int, ...]) -> np.ndarray:
        """An array of fresh patterns in the element width of `dtype`."""
        width = DTYPES[dtype][1]
        count = int(np.prod(shape, dtype=np.int64))
        start = self.next[width]
        self.next[width] += count
        period = np.uint64(2 ** (8 * width) - 1)
        index = np.arange(start, start + count, dtype=np.uint64) % period + np.uint64(1)
        with np.errstate(over="ignore"):
            mixed = index * np.uint64(ODD[width])  # odd factor: a permutation that keeps zero alone
        return mixed.astype(f"u{width}").reshape(shape)


class Space:
    """The whole arrays of a model, and what each rank of a layout holds of them."""

    def __init__(self, model: Model, layout: Layout) -> None:
        self.model = model
        self.patterns = Patterns()
        self.whole: dict[Key, np.ndarray] = {}
        self.dtypes: dict[Key, str] = {}
        for rank in range(layout.world()):
            for entry in entries(model, layout, rank):
                if entry.key not in self.whole:
                    self.whole[entry.key] = self.patterns.take(entry.dtype, entry.shape)
                    self.dtypes[entry.key] = entry.dtype

    def moved(self, layout: Layout) -> Space:
        """The space after a move to a layout: states that it keeps, cast or made from others as it says."""
        result = copy.copy(self)
        result.whole, result.dtypes = {}, {}
        words = dict(layout.state)
        for rank in range(layout.world()):
            for entry in entries(self.model, layout, rank):
                state, tensor = entry.key
                origin = (casts.origin_of(state, words.get(state)), tensor)
                if entry.key not in result.whole:
                    result.whole[entry.key] = casts.cast(self.whole[origin], self.dtypes[origin], entry.dtype)
                    result.dtypes[entry.key] = entry.dtype
        return result

    def sprinkle(self) -> Space:
        """The same with numbers that are odd to round."""
        for key, dtype in self.dtypes.items():
            if dtype == "fp32":
                flat = casts.with_odd_numbers(self.whole[key].reshape(-1))
                self.whole[key] = flat.reshape(self.whole[key].shape)
        return self

    def local(self, layout: Layout, rank: int, garbage_pads: bool) -> dict[Key, tuple[Entry, np.ndarray]]:
        """Local arrays of a rank; pads are zero, or fresh patterns that must never show up elsewhere."""
        tp_rank = coordinates(layout, rank)["tp"]
        result = {}
        for entry in entries(self.model, layout, rank):
            pads = None
            count = pad_rows(entry, layout)
            if garbage_pads and count:
                pads = self.patterns.take(entry.dtype, (count,) + entry.shape[1:])
            result[entry.key] = (entry, cut(entry, layout, tp_rank, self.whole[entry.key], pads))
        return result
