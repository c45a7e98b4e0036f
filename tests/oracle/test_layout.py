# SPDX-License-Identifier: Apache-2.0
"""The oracle's own rules, held against worked examples and against their inverse."""

from __future__ import annotations

import numpy as np

import casts
from cases import Case, for_each
from layout import Layout, coordinates, cut, entries, gather, padded_rows, stage_layers
from tap import Group
from values import Patterns, Space


def rank_coordinates() -> None:
    """Worked examples of the two orders in use."""
    plain = Layout(tp=2, cp=2, dp=2, pp=2)
    want = {1: (1, 0, 0, 0), 2: (0, 1, 0, 0), 4: (0, 0, 1, 0), 7: (1, 1, 1, 0), 10: (0, 1, 0, 1)}
    for rank, digits in want.items():
        got = coordinates(plain, rank)
        assert (got["tp"], got["cp"], got["dp"], got["pp"]) == digits, (rank, got)
    inner = Layout(tp=2, cp=2, dp=2, pp=2, order=("tp", "cp", "ep", "pp", "dp"))
    for rank, digits in {5: (1, 0, 0, 1), 10: (0, 1, 1, 0)}.items():
        got = coordinates(inner, rank)
        assert (got["tp"], got["cp"], got["dp"], got["pp"]) == digits, (rank, got)


def pipelines() -> None:
    """Even and uneven splits."""
    table = [
        (Layout(pp=4), 16, [4, 4, 4, 4]),
        (Layout(pp=4, first=4, last=6), 22, [4, 6, 6, 6]),
        (Layout(pp=2, first=6, last=8), 14, [6, 8]),
        (Layout(pp=3, last=2), 12, [5, 5, 2]),
    ]
    for layout, layers, counts in table:
        ranges = [stage_layers(layout, layers, stage) for stage in range(layout.pp)]
        assert [len(r) for r in ranges] == counts, (layout, ranges)
        assert [i for r in ranges for i in r] == list(range(layers)), (layout, ranges)


def vocabularies() -> None:
    """Padded sizes of known models."""
    table = {
        50257: (50304, 50432, 50688, 51200, 51200),
        32000: (32000, 32000, 32256, 32768, 32768),
        128256: (128256, 128256, 128512, 129024, 129024),
        151936: (151936, 152064, 152064, 152576, 153600),
    }
    for rows, sizes in table.items():
        assert tuple(padded_rows(Layout(tp=tp), rows) for tp in (1, 2, 4, 8, 16)) == sizes, rows
    assert padded_rows(Layout(tp=2, divisible_by=1), 50257) == 50258


def patterns() -> None:
    """No pattern is zero or repeats within its width's period."""
    taken = Patterns()
    values = np.concatenate([taken.take("bf16", (255, 257 - 2)), taken.take("bf16", (510,))], axis=None)
    assert len(values) == 65535 and len(np.unique(values)) == 65535 and values.min() > 0


def round_trip(case: Case) -> None:
    """Cutting and gathering is the identity, and every tensor has a holder."""
    for layout in case.layouts:
        space = Space(case.model, layout)
        held: set[tuple[str, str]] = set()
        for stage in range(layout.pp):
            ranks = [r for r in range(layout.world()) if coordinates(layout, r)["pp"] == stage]
            for entry in entries(case.model, layout, ranks[0]):
                whole = space.whole[entry.key]
                local = [cut(entry, layout, t, whole) for t in range(layout.tp)]
                assert np.array_equal(gather(entry, layout, local), whole), entry
                held.add(entry.key)
        assert held == set(space.whole)


def rounding() -> None:
    """Casts by bits against casts by arithmetic: the neighbour that is nearer, in double precision."""
    start = np.arange(0, 2**32, 65521, dtype=np.uint64).astype(np.uint32)
    bits = np.concatenate([start, casts.with_odd_numbers(start)])
    got = casts.widened(casts.narrowed(bits))
    nan = np.isnan(bits.view(np.float32))
    assert np.isnan(got[nan].view(np.float32)).all() and nan.any()
    bits, got = bits[~nan], got[~nan]
    finite = np.isfinite(got.view(np.float32))
    assert (np.abs(bits[~finite].view(np.float32)) >= np.float32(3.3961776e38)).all() and (~finite).any()
    value, below = bits[finite].view(np.float32).astype(np.float64), bits[finite] & np.uint32(0xFFFF0000)
    down = np.abs(value - below.view(np.float32))
    up = np.abs((below + np.uint32(0x10000)).view(np.float32).astype(np.float64) - value)
    upper = np.where(np.isfinite(up), up, np.inf)
    even = (below >> np.uint32(16)) % 2 == 0
    assert ((down == upper) & even).any() and ((down == upper) & ~even).any(), "no ties"
    want = np.where((down < upper) | ((down == upper) & even), below, below + np.uint32(0x10000))
    assert np.array_equal(got[finite], want)
    halves = np.arange(65536, dtype=np.uint16)
    quiet = np.where((halves & 0x7FFF) > 0x7F80, halves | 0x40, halves)
    assert np.array_equal(casts.narrowed(casts.widened(halves)), quiet)


def random_round_trips(seed_value: int) -> str:
    """The identity over random cases."""
    return f"{for_each(seed_value, 60, round_trip)} cases"


def groups(seed_value: int) -> list[Group]:
    """Groups of this file."""
    return [
        Group("oracle: rank to coordinates", rank_coordinates),
        Group("oracle: layers of pipeline stages", pipelines),
        Group("oracle: vocabulary padding", vocabularies),
        Group("oracle: contents are unique", patterns),
        Group("oracle: casts", rounding),
        Group("oracle: cut, then gather is the identity", random_round_trips, (seed_value,)),
    ]
