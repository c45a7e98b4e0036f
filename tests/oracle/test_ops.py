# SPDX-License-Identifier: Apache-2.0
"""The plan as printed by `inspect --ops` and `--buffers`, replayed without the executor."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import numpy as np

import casts
import programs
from layout import DTYPES, Key, Layout, Model
from moves import Local, Move, sides
from programs import OracleError
from replay import Replay
from values import Space

Line = dict[str, Any]


def names(lines: list[Line], side: str) -> dict[tuple[int, str, str], str]:
    """Buffer name of each (device, state, tensor) on one side."""
    result: dict[tuple[int, str, str], str] = {}
    for line in lines:
        if line["side"] == side:
            key = (line["device"], line["state"], line["tensor"])
            if result.setdefault(key, line["buffer"]) != line["buffer"]:
                raise OracleError(f"two {side} buffers for {key}")
    return result


def box_of(whole: np.ndarray, line: Line) -> np.ndarray:
    """Elements of the global array that a line's box names."""
    for (low, high), extent in zip(line["box"], whole.shape, strict=True):
        if not 0 <= low < high <= extent:
            raise OracleError(f"box leaves the tensor {whole.shape}: {line}")
    return whole[tuple(slice(low, high) for low, high in line["box"])]


def put_boxes(replay: Replay, lines: list[Line], space: Space) -> None:
    """Fill the old side's buffers from the global arrays, box by box."""
    for line in lines:
        if line["side"] != "from" or line["box"] is None:
            continue
        want = box_of(space.whole[line["state"], line["tensor"]], line)
        memory = replay.devices[line["device"]].memory[line["buffer"]]
        if line["bytes"] != len(memory.data):
            raise OracleError(f"buffer of {len(memory.data)} bytes: {line}")
        data, written = memory.elements(line["region"], want.itemsize, "buffers")
        if tuple(line["region"]["shape"]) != want.shape or written.any():
            raise OracleError(f"region and box differ, or boxes overlap: {line}")
        data[...] = np.ascontiguousarray(want)[..., None].view(np.uint8)
        written[...] = True


def old_buffers(replay: Replay, lines: list[Line], layout: Layout, local: list[Local]) -> None:
    """Poisoned buffers of the old side, sized by the layout rules."""
    named = names(lines, "from")
    expected = {(layout.device_of(r), s, t): a for r, arrays in enumerate(local) for (s, t), (_, a) in arrays.items()}
    if extra := set(named) - set(expected):
        raise OracleError(f"old buffers that the layout does not have: {sorted(extra)}")
    for (device, state, tensor), array in expected.items():
        replay.place(device, named.get((device, state, tensor), f"from:{state}/{tensor}"), array.nbytes)


def check_old(replay: Replay, lines: list[Line], layout: Layout, local: list[Local]) -> None:
    """What the boxes put into the buffers must be what the layout rules say, pads left out."""
    named = names(lines, "from")
    for rank, arrays in enumerate(local):
        for (state, tensor), (_, array) in arrays.items():
            device = layout.device_of(rank)
            memory = replay.devices[device].memory[named.get((device, state, tensor), f"from:{state}/{tensor}")]
            want = np.frombuffer(array.tobytes(), np.uint8)
            pads = np.repeat(array.reshape(-1) == 0, array.itemsize)  # contents are never zero, pads are here
            if (memory.written != ~pads).any() or (memory.data != want)[memory.written].any():
                raise OracleError(f"old rank {rank} {state}/{tensor}: boxes and layout rules differ")


def check_new(replay: Replay, lines: list[Line], layout: Layout, local: list[Local]) -> None:
    """Every byte of the new side, pads included; and nothing else may be left."""
    named = names(lines, "to")
    left = {(d, n) for d, device in replay.devices.items() for n in device.memory if not n.startswith("staging:")}
    for rank, arrays in enumerate(local):
        for (state, tensor), (_, array) in arrays.items():
            device = layout.device_of(rank)
            name = named.get((device, state, tensor), f"to:{state}/{tensor}")
            memory = replay.devices[device].memory.get(name)
            where = f"new rank {rank} (device {device}) {state}/{tensor}"
            if memory is None:
                raise OracleError(f"{where}: no buffer {name} at the end")
            compare_bytes(where, memory.data, memory.written, array)
            left.discard((device, name))
    if left:
        raise OracleError(f"buffers left at the end: {sorted(left)}")


def compare_bytes(where: str, data: np.ndarray, written: np.ndarray, array: np.ndarray) -> None:
    """Bytes of a buffer against an array."""
    want = np.frombuffer(array.tobytes(), np.uint8)
    if len(data) != len(want):
        raise OracleError(f"{where}: {len(data)} bytes, want {len(want)}")
    if not written.all():
        raise OracleError(f"{where}: byte {int(np.argmin(written))} is never written")
    if (data != want).any():
        raise OracleError(f"{where}: byte {int(np.argmax(data != want))} is wrong")


def check_boxes(lines: list[Line], spaces: tuple[Space, Space], layouts: tuple[Layout, Layout], local: list[list[Local]]) -> None:
    """Rank, local shape, dtype and box of each line."""
    for line in lines:
        if line["side"] == "scratch":
            continue
        side = ("from", "to").index(line["side"])
        if layouts[side].device_of(line["rank"]) != line["device"]:
            raise OracleError(f"rank {line['rank']} does not run on device {line['device']}: {line}")
        entry, array = local[side][line["rank"]][line["state"], line["tensor"]]
        if tuple(line["local_shape"]) != array.shape or line["bytes"] != array.nbytes or line["dtype"] != entry.dtype:
            raise OracleError(f"want {entry.dtype} {array.shape}: {line}")
        if line["box"] is None:
            continue
        check_origin(line, side, spaces, layouts[1])
        box = box_of(spaces[side].whole[line["state"], line["tensor"]], line)
        if tuple(line["region"]["shape"]) != box.shape:
            raise OracleError(f"region and box differ: {line}")


def check_origin(line: Line, side: int, spaces: tuple[Space, Space], layout: Layout) -> None:
    """A line of the new side names the state and the dtype that it is made from, where those are not its own."""
    state = casts.origin_of(line["state"], dict(layout.state).get(line["state"])) if side else line["state"]
    dtype = spaces[0].dtypes[state, line["tensor"]] if side else line["dtype"]
    if (line.get("from_state", line["state"]), line.get("from_dtype", line["dtype"])) != (state, dtype):
        raise OracleError(f"want it made from {state} {dtype}: {line}")


def check_memory(replay: Replay, move: Move) -> None:
    """Recompute the peak from allocs and frees, and hold it against the report and the cap."""
    memory = move.report["memory"]
    fixed = move.cluster.reserve + move.cluster.transport_buffers
    for number, device in replay.devices.items():
        used = sum(device.staging.values())
        if used > memory["staging"]:
            raise OracleError(f"device {number}: ops use {used} bytes of staging, the report says {memory['staging']}")
        if device.peak + used + fixed > min(memory["peak"], memory["cap"]):
            raise OracleError(f"device {number}: peak {device.peak} + {used} + {fixed}, the report says {memory}")
    if (parked := max((device.host_peak for device in replay.devices.values()), default=0)) > memory["host_peak"]:
        raise OracleError(f"{parked} bytes of scratch in host memory, the report says {memory['host_peak']}")


def check_summary(replay: Replay, move: Move, old: list[Local], new: list[Local]) -> None:
    """Figures of the report that follow from the layout rules or from the replay."""
    node = move.cluster.devices_per_node
    sent = replay.sent
    crossing = sum(count for (a, b), count in sent.items() if a // node != b // node)
    totals: list[dict[int, int]] = [defaultdict(int), defaultdict(int)]
    for pair, count in sent.items():
        for side in (0, 1):
            totals[side][pair[side]] += count
    want = {
        "moved": sum(sent.values()),
        "inter_node": crossing,
        "intra_node": sum(sent.values()) - crossing,
        "filled": replay.filled,
        "max_send": max(totals[0].values(), default=0),
        "max_recv": max(totals[1].values(), default=0),
        "needed_remote": lacking(move, 1),
        "inter_node_lower_bound": lacking(move, node),
        "saved": saved(move),
    }
    found = move.report["bytes"]
    if wrong := {key: (found[key], value) for key, value in want.items() if found[key] != value}:
        raise OracleError(f"(report, oracle): {wrong}")
    sizes = [max(sum(array.nbytes for _, array in local.values()) for local in side) for side in (old, new)]
    if [move.report["memory"]["from_max"], move.report["memory"]["to_max"]] != sizes:
        raise OracleError(f"largest sides: want {sizes}, the report says {move.report['memory']}")
    check_bounds(move)


def check_bounds(move: Move) -> None:
    """No figure may beat its bound."""
    found, memory, times = move.report["bytes"], move.report["memory"], move.report["time"]
    pairs = [
        ("moved", found["moved"], found["needed_remote"]),
        ("inter_node", found["inter_node"], found["inter_node_lower_bound"]),
        ("peak", memory["peak"], memory["peak_lower_bound"]),
        ("least_cap", memory["least_cap"], memory["peak_lower_bound"]),
        ("cap", memory["cap"], memory["peak"]),
        ("predicted", times["predicted"], times["lower_bound_rounds"]),
        ("lower_bound_rounds", times["lower_bound_rounds"], times["lower_bound"]),
    ]
    for name, figure, bound in pairs:
        if figure < bound * (1 - 1e-12):
            raise OracleError(f"{name}: {figure} is below its bound {bound}")


def held(model: Model, layout: Layout, devices_per_group: int) -> dict[tuple[int, Key], np.ndarray]:
    """For each group of devices and array: which of its elements the group holds."""
    space = Space(model, layout)
    space.whole = {k: np.arange(1, w.size + 1).reshape(w.shape) for k, w in space.whole.items()}
    result: dict[tuple[int, Key], np.ndarray] = {}
    for rank in range(layout.world()):
        group = layout.device_of(rank) // devices_per_group
        for key, (_, local) in space.local(layout, rank, False).items():
            marks = result.setdefault((group, key), np.zeros(space.whole[key].size, bool))
            marks[local[local > 0] - 1] = True
    return result


def origins(move: Move) -> dict[Key, tuple[Key, int, bool]]:
    """For each new array: what it is made from, bytes of an element on the wire, and whether a new one will do."""
    old = Space(move.model, move.layouts[0])
    new = old.moved(move.layouts[1])
    words = dict(move.layouts[1].state)
    result = {}
    for key in new.whole:
        origin = (casts.origin_of(key[0], words.get(key[0])), key[1])
        width = min(DTYPES[old.dtypes[origin]][1], DTYPES[new.dtypes[key]][1])
        result[key] = (origin, width, origin != key and new.dtypes.get(origin) == old.dtypes[origin])
    return result


def lacking(move: Move, devices_per_group: int) -> int:
    """Bytes of the new side that no old buffer of the same device (or node) held, and that it cannot make itself."""
    old, new = (held(move.model, layout, devices_per_group) for layout in move.layouts)
    total = 0
    made_from = origins(move)
    for (group, key), marks in new.items():
        origin, width, fresh = made_from[key]
        missing = marks.copy()
        if (group, origin) in old:
            missing &= ~old[group, origin]
        if fresh and (group, origin) in new:
            missing &= ~new[group, origin]
        total += int(missing.sum()) * width
    return total


def saved(move: Move) -> int:
    """Bytes that what is made from another state would have needed from its own, less what it needs."""
    old, new = (held(move.model, layout, 1) for layout in move.layouts)
    total = 0
    made_from = origins(move)
    for (group, key), marks in new.items():
        origin, width, fresh = made_from[key]
        none = np.zeros_like(marks)
        here = old.get((group, origin), none) | (new.get((group, origin), none) if fresh else none)
        if origin != key:
            total += (int((marks & ~old.get((group, key), none)).sum()) - int((marks & ~here).sum())) * width
    return max(total, 0)


def replay_plan(move: Move) -> int:
    """Replay a plan in every order that the executor may take; returns the number of orders."""
    ops, lines = programs.lines(move.plan, "--ops"), programs.lines(move.plan, "--buffers")
    space = Space(move.model, move.layouts[0])
    if move.layouts[0].state != move.layouts[1].state:
        space.sprinkle()
    spaces = (space, space.moved(move.layouts[1]))
    old, new = (sides(side, layout, False) for side, layout in zip(spaces, move.layouts))
    check_boxes(lines, spaces, move.layouts, [old, new])
    depth = Replay(ops).depth()
    for early in range(depth):
        replay = Replay(ops)
        old_buffers(replay, lines, move.layouts[0], old)
        put_boxes(replay, lines, space)
        check_old(replay, lines, move.layouts[0], old)
        replay.run(bool(early))
        check_new(replay, lines, move.layouts[1], new)
        check_memory(replay, move)
        check_summary(replay, move, old, new)
    return depth
