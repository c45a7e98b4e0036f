# SPDX-License-Identifier: Apache-2.0
"""One move: plan, verify, and compare both sides and the moved bytes with rules.py."""

from __future__ import annotations

import json
import re
import sys
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

sys.path.append(str(Path(__file__).resolve().parents[1] / "oracle"))

import beside
import casts
import programs
import rules
import tensorfile
from programs import OracleError
from replay import Replay
from rules import PAD, Document, Key, Local, Side

SAFETENSORS = {
    "bf16": "BF16", "fp16": "F16", "fp32": "F32", "fp64": "F64", "i8": "I8", "i16": "I16", "i32": "I32",
    "i64": "I64", "u8": "U8", "u16": "U16", "u32": "U32", "u64": "U64", "fp8_e4m3": "F8_E4M3", "fp8_e5m2": "F8_E5M2",
}  # fmt: skip
CLUSTER: Document = {
    "kind": "cluster",
    "name": "toy",
    "devices_per_node": 4,
    "device": {"memory": "1 GiB"},
    "links": {"intra_node": "4 GB/s", "inter_node": "1 GB/s"},
    "copy": "8 GB/s",
    "costs": {"round": "50 us", "message": "5 us"},
}
Line = dict[str, Any]
Values = dict[Key, np.ndarray]  # whole arrays of bit patterns


class BadCell(OracleError):
    """A failure with the letter that it has in the matrix."""

    def __init__(self, letter: str, text: str) -> None:
        super().__init__(text)
        self.letter = letter


@dataclass
class Sides:
    """Model, layouts and what the rules make of them."""

    model: Document
    layouts: tuple[Document, Document]
    maps: tuple[Side, Side]
    current: Side  # of the old side, without what is a step behind
    beside: dict[str, str] = field(default_factory=dict)  # what becomes of the state beside the tensors


def write(path: Path, document: Document) -> Path:
    """Write a document: JSON is YAML."""
    path.write_text(json.dumps(document, indent=1))
    return path


def write_model(folder: Path, model: Document) -> None:
    """Write what layouts refer to."""
    write(folder / "model.yaml", model)
    write(folder / "cluster.yaml", CLUSTER)


def sides_of(model: Document, old: Document, new: Document) -> Sides:
    """Both sides by the rules."""
    maps = (rules.side_map(model, old), rules.side_map(model, new))
    found = beside.add(maps, model, old, new)
    return Sides(model, (old, new), maps, rules.current_side(old, maps[0]), found)


# ---- contents ------------------------------------------------------------------


def contents(sides: Sides) -> Values:
    """Whole arrays of the old side; where states change, fp32 ones have numbers that are odd to round."""
    result = patterns(sides.maps[0])
    if sides.layouts[0].get("state") == sides.layouts[1].get("state"):
        return result
    narrow = {key for arrays in sides.maps[0] for key, local in arrays.items() if local.dtype == "fp32"}
    return {key: casts.with_odd_numbers(bits) if key in narrow else bits for key, bits in result.items()}


def moved(sides: Sides, values: Values) -> Values:
    """Whole arrays of the new side: cast, or made from another state, as its layout says."""
    old = {key: local.dtype for arrays in sides.maps[0] for key, local in arrays.items()}
    result: Values = {}
    for arrays in sides.maps[1]:
        for key, local in arrays.items():
            if key not in result:
                origin = (casts.origin_of(key[0], rules.kept(sides.layouts[1], key[0]).get("dtype")), key[1])
                result[key] = casts.cast(values[origin], old[origin], local.dtype)
    return result


def patterns(side: Side) -> Values:
    """Whole arrays without a zero; no pattern comes twice before all of its width are used."""
    result: Values = {}
    taken = 0
    for arrays in side:
        for key, local in arrays.items():
            if key not in result:
                size = int(np.prod(local.shape))
                result[key] = pattern(taken, size, rules.itemsize(local.dtype))
                taken += size
    return result


def pattern(start: int, size: int, width: int) -> np.ndarray:
    """Bit patterns of one width, none of them zero."""
    period = np.uint64(2 ** (8 * width) - 1)
    index = np.arange(start, start + size, dtype=np.uint64) % period + np.uint64(1)
    odd = np.uint64({1: 0x9D, 2: 0x9E37, 4: 0x9E3779B1, 8: 0x9E3779B97F4A7C15}[width])
    with np.errstate(over="ignore"):
        return (index * odd).astype(f"u{width}")


def local_values(whole: np.ndarray, local: Local) -> np.ndarray:
    """Local array of bit patterns, zero in pads."""
    return np.where(local.index == PAD, whole.dtype.type(0), whole[np.maximum(local.index, 0)])


def old_values(whole: np.ndarray, local: Local, current: Local) -> np.ndarray:
    """The same for the old side: what is a step behind has the other bits, so that no byte of it may turn up again."""
    right = local_values(whole, local)
    return np.where((local.index != PAD) & (current.index == PAD), ~right, right)


# ---- the map -------------------------------------------------------------------


def same_shape(got: tuple[int, ...], want: tuple[int, ...]) -> bool:
    """Equal shapes; an empty shard may be any, as test_cases.py has a case of its own for that."""
    return got == want or (0 in got and 0 in want)


def line_index(line: Line, shape: tuple[int, ...]) -> tuple[np.ndarray, np.ndarray]:
    """Positions in the buffer and element numbers of a line's box."""
    width = rules.itemsize(line["dtype"])
    region, whole = line["region"], rules.element_numbers(list(shape))
    box = whole[tuple(slice(low, high) for low, high in line["box"])]
    where = np.full(box.shape, region["offset"], np.int64)
    for d, stride in enumerate(region["strides"]):
        where += np.arange(box.shape[d]).reshape([-1 if k == d else 1 for k in range(box.ndim)]) * stride
    if list(box.shape) != region["shape"] or (where % width).any():
        raise BadCell("B", f"region and box differ: {line}")
    return where // width, box


def check_buffers(lines: list[Line], sides: Sides) -> None:
    """What `inspect --buffers` says of both sides against the rules, element by element."""
    for number, side in enumerate(("from", "to")):
        found: dict[tuple[int, str, str], np.ndarray] = {}
        for line in lines:
            if line["side"] == side:
                place_line(found, line, sides, number)
        compare_maps(found, sides.maps[1] if number else sides.current, side)


def place_line(found: dict[tuple[int, str, str], np.ndarray], line: Line, sides: Sides, number: int) -> None:
    """Add one line's elements."""
    rank, key = line["rank"], (line["state"], line["tensor"])
    if not 0 <= rank < len(sides.maps[number]) or key not in sides.maps[number][rank]:
        raise BadCell("B", f"{line['side']} rank {rank} has no {key} by the rules: {line}")
    want = sides.maps[number][rank][key]
    if line["device"] != rules.device_of(sides.layouts[number], rank):
        raise BadCell("B", f"wrong device: {line}")
    if not same_shape(tuple(line["local_shape"]), want.index.shape) or line["dtype"] != want.dtype:
        raise BadCell("B", f"the rules say {want.dtype} {want.index.shape}: {line}")
    if line["tier"] != want.tier:
        raise BadCell("B", f"the rules say {want.tier} memory: {line}")
    if line["bytes"] != want.index.size * rules.itemsize(want.dtype):
        raise BadCell("B", f"size: {line}")
    array = found.setdefault((rank, *key), np.full(want.index.size, PAD, np.int64))
    if line["box"] is None:
        return
    where, box = line_index(line, want.shape)
    if (array[where] != PAD).any():
        raise BadCell("B", f"boxes overlap: {line}")
    array[where] = box


def compare_maps(found: dict[tuple[int, str, str], np.ndarray], side: Side, name: str) -> None:
    """Element numbers of every local array."""
    for rank, arrays in enumerate(side):
        for key, local in arrays.items():
            got = found.pop((rank, *key), None)
            if got is None and not local.index.size:
                continue
            if got is None:
                raise BadCell("B", f"{name} rank {rank}: no {key}, the rules say {local.index.shape}")
            if not np.array_equal(got, local.index.reshape(-1)):
                at = int(np.argmax(got != local.index.reshape(-1)))
                want = local.index.reshape(-1)[at]
                raise BadCell("B", f"{name} rank {rank} {key}: local element {at} is {got[at]}, the rules say {want}")


# ---- the state beside the tensors ------------------------------------------------


def check_statement(plan: Path, sides: Sides) -> None:
    """The plan must say of every entry what the rules say, and why."""
    notes = programs.inspect(plan)["beside_tensors"]
    found = {note["name"]: note["action"] for note in notes}
    if found != sides.beside or len(found) != len(notes) or not all(note["why"] for note in notes):
        raise BadCell("S", f"the plan says {found}, the rules {sides.beside}")


# ---- memory --------------------------------------------------------------------


def device_bytes(side: Side, layout: Document) -> dict[int, int]:
    """Bytes in device memory of each device of one side."""
    result: dict[int, int] = defaultdict(int)
    for rank, arrays in enumerate(side):
        counted = [l.index.size * rules.itemsize(l.dtype) for l in arrays.values() if l.tier == "device"]
        result[rules.device_of(layout, rank)] += sum(counted)
    return result


def peak_of_device(ops: list[Line], old: int, host: set[str], depth: int) -> int:
    """Most bytes of buffers in device memory: those of a round are freed when `depth` more have begun."""
    changes: dict[int, int] = defaultdict(int)
    for op in ops:
        if op["op"] == "alloc" and op["buffer"] not in host:
            changes[op["round"]] += op["bytes"]
        if op["op"] == "free" and op["buffer"] not in host:
            changes[op["round"] + depth] -= op["bytes"]
    live = peak = old
    for k in range(max((op["round"] for op in ops), default=-1) + 1):
        live += changes[k]
        peak = max(peak, live)
    return peak


def check_memory(plan: Path, lines: list[Line], sides: Sides) -> None:
    """The report's peak and sides from the rules and the list of operations: host memory does not count."""
    report, ops = programs.inspect(plan), programs.lines(plan, "--ops")
    old, new = (device_bytes(sides.maps[n], sides.layouts[n]) for n in (0, 1))
    host = {(line["device"], line["buffer"]) for line in lines if line["tier"] == "host"}
    depth, peak = report["schedule"]["overlap_depth"], 0
    for device in {*old, *new}:
        own = [op for op in ops if op["device"] == device]
        names = {buffer for d, buffer in host if d == device}
        peak = max(peak, peak_of_device(own, old.get(device, 0), names, depth))
    memory = report["memory"]
    want = {"from_max": max(old.values()), "to_max": max(new.values())}
    if wrong := {key: (memory[key], value) for key, value in want.items() if memory[key] != value}:
        raise BadCell("B", f"memory: (report, rules): {wrong}")
    if not peak <= memory["peak"] <= peak + memory["staging"] or memory["peak"] > memory["cap"]:
        raise BadCell("B", f"memory: buffers take up to {peak} bytes, the report says {memory}")


# ---- replay --------------------------------------------------------------------


def buffer_names(lines: list[Line], side: str) -> dict[tuple[int, str, str], str]:
    """Buffer of each (rank, state, tensor)."""
    return {(l["rank"], l["state"], l["tensor"]): l["buffer"] for l in lines if l["side"] == side}


def load_old(replay: Replay, lines: list[Line], sides: Sides, values: Values) -> None:
    """Old buffers with their contents; pads stay unwritten, so that reading one fails."""
    names = buffer_names(lines, "from")
    for rank, arrays in enumerate(sides.maps[0]):
        device = rules.device_of(sides.layouts[0], rank)
        for key, local in arrays.items():
            if (rank, *key) not in names:
                continue
            array = old_values(values[key], local, sides.current[rank][key]).reshape(-1)
            memory = replay.place(device, names[rank, *key], array.nbytes)
            memory.data[...] = array.view(np.uint8)
            memory.written[...] = np.repeat(local.index.reshape(-1) != PAD, array.itemsize)


def compare_new(replay: Replay, lines: list[Line], sides: Sides, values: Values) -> None:
    """Every byte of the new side, pads included, and nothing else left."""
    names = buffer_names(lines, "to")
    left = {(d, n) for d, device in replay.devices.items() for n in device.memory if not n.startswith("staging:")}
    for rank, arrays in enumerate(sides.maps[1]):
        device = rules.device_of(sides.layouts[1], rank)
        for key, local in arrays.items():
            if not local.index.size and (rank, *key) not in names:
                continue
            name = names[rank, *key]
            memory = replay.devices[device].memory.get(name)
            want = local_values(values[key], local).reshape(-1).view(np.uint8)
            if memory is None or not memory.written.all() or not np.array_equal(memory.data, want):
                raise BadCell("R", f"new rank {rank} {key}: wrong, missing or unwritten bytes")
            left.discard((device, name))
    if left:
        raise BadCell("R", f"buffers left at the end: {sorted(left)}")


def replay_plan(plan: Path, lines: list[Line], sides: Sides, values: Values) -> None:
    """Replay the ops in numpy."""
    replay = Replay(programs.lines(plan, "--ops"))
    load_old(replay, lines, sides, values)
    try:
        replay.run(replay.depth() > 1)
    except BadCell:
        raise
    except OracleError as error:
        raise BadCell("R", str(error)) from None
    compare_new(replay, lines, sides, moved(sides, values))


# ---- executor ------------------------------------------------------------------


def store(folder: Path, sides: Sides, values: Values) -> None:
    """One file per rank of the old side, with what the move leaves beside what it copies."""
    left = [name for name, what in sides.beside.items() if what != "copied"]
    folder.mkdir(parents=True, exist_ok=True)
    for stale in folder.glob("*"):  # of a cell before: a set has the files of its ranks and no others
        stale.unlink()
    for rank, arrays in enumerate(sides.maps[0]):
        entries = {}
        for key, local in arrays.items():
            array = old_values(values[key], local, sides.current[rank][key])
            entries["/".join(key)] = (SAFETENSORS[local.dtype], array)
        entries |= {f"{'blob' if len(n) % 2 else 'scalar'}/{n}": ("U8", np.full(3, rank % 250, np.uint8)) for n in left}
        tensorfile.write(folder / f"rank-{rank:05d}.safetensors", entries)


def compare_files(folder: Path, side: Side, values: Values) -> None:
    """Files of all ranks, bit for bit."""
    for rank, arrays in enumerate(side):
        got = tensorfile.read(folder / f"rank-{rank:05d}.safetensors")
        want = {f"{s}/{t}": (SAFETENSORS[l.dtype], local_values(values[s, t], l)) for (s, t), l in arrays.items()}
        if set(got) != set(want):
            raise BadCell("X", f"rank {rank}: entries differ: {sorted(set(got) ^ set(want))[:6]}")
        for name, (dtype, array) in want.items():
            found = got[name]
            good = found[0] == dtype and same_shape(found[1].shape, array.shape)
            if not good or (found[1].reshape(-1) != array.reshape(-1)).any():
                raise BadCell("X", f"rank {rank} {name}: want {dtype} {array.shape}, got {found[0]} {found[1].shape}")


def execute(plan: Path, folder: Path, sides: Sides, values: Values) -> None:
    """Run the plan over files of the old side, and compare those of the new side."""
    store(folder / "old", sides, values)
    for stale in (folder / "new").glob("*"):
        stale.unlink()
    arguments = ("--transport", "loopback", "--load", folder / "old", "--store", folder / "new")
    outcome = programs.run("shunt-exec", plan, *arguments)
    if outcome.code:
        raise BadCell("X", outcome.text())
    compare_files(folder / "new", sides.maps[1], moved(sides, values))


# ---- a whole move --------------------------------------------------------------


def step(letter: str, *arguments: object) -> None:
    """A command of `shunt` that must succeed."""
    outcome = programs.run("shunt", *arguments)
    if outcome.code:
        raise BadCell(letter, outcome.text())


def placed_devices(paths: tuple[Path, Path], out: Path) -> list[int]:
    """Devices that the compiler chooses for the new ranks, from the layout that it writes."""
    step("P", "plan", *paths, "-o", out.with_suffix(".plan"), "--place", "optimal", "--place-out", out)
    found = re.search(r"\bdevices\b\"?: \"([0-9,-]+)\"", out.read_text())
    if not found:
        raise BadCell("P", f"{out.read_text()[:500]} names no devices")
    devices: list[int] = []
    for piece in found[1].split(","):
        first, _, last = piece.partition("-")
        devices += range(int(first), int(last or first) + 1)
    return devices


def check_move(paths: tuple[Path, Path], sides: Sides, plan: Path, how: str, *options: str) -> str:
    """Plan, verify and compare the maps; then replay or execute. Returns the letter of what was done."""
    step("P", "plan", *paths, "-o", plan, *options)
    step("V", "verify", plan, *paths)
    lines = programs.lines(plan, "--buffers")
    check_buffers(lines, sides)
    check_statement(plan, sides)
    check_memory(plan, lines, sides)
    if how == "verify":
        return "v"
    values = contents(sides)
    if how == "execute":
        execute(plan, plan.with_suffix(".run"), sides, values)
        return "x"
    replay_plan(plan, lines, sides, values)
    return "r"


def explicit(layout: Path, out: Path) -> Path:
    """The same layout in holdings form, as the program prints it."""
    out.write_text(programs.succeed("shunt", "layout", layout, "--explicit").out)
    return out
