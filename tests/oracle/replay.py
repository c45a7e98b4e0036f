# SPDX-License-Identifier: Apache-2.0
"""Replays `inspect --ops` and `--buffers` in numpy, without the executor.

Memory starts poisoned and unwritten. Every byte has a written flag, so that a read of
memory that nothing has filled, of a buffer that is freed, or outside a buffer is an error.
The ops are replayed twice where a plan overlaps rounds: once in the order of the lines,
and once with each round's packs moved before the receives of the round before it.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import Any

import numpy as np

import casts
from programs import OracleError

POISON = 0xA5
BEFORE_GROUP = ("alloc", "fill", "copy", "pack")
Op = dict[str, Any]
BYTES = {"bf16": 2, "fp32": 4}


def widths(op: Op) -> dict[str, int]:
    """Bytes of an element at both ends of an op."""
    if "cast" not in op:
        return {"src": op["elem_bytes"], "dst": op["elem_bytes"]}
    return dict(zip(("src", "dst"), (BYTES[dtype] for dtype in op["cast"].split("->"))))


class Memory:
    """One buffer or staging slot: bytes and a written flag for each."""

    def __init__(self, size: int) -> None:
        self.data = np.full(size, POISON, np.uint8)
        self.written = np.zeros(size, bool)
        self.filled_in = np.full(size, -1, np.int32)  # staging only: the round whose pack or receive came last

    def claim(self, offset: int, size: int, round_number: int, where: str) -> None:
        """Mark staging bytes as used by a round, which may use each byte once."""
        span = self.filled_in[offset : offset + size]
        if (span == round_number).any():
            raise OracleError(f"{where}: staging bytes {offset}..{offset + size} are used twice in a round")
        span[...] = round_number

    def elements(self, region: Op, elem_bytes: int, where: str) -> tuple[np.ndarray, np.ndarray]:
        """Writable views (data, written) of a strided region, one trailing axis of element bytes."""
        shape, strides, offset = region["shape"], region["strides"], region["offset"]
        if len(shape) != len(strides) or min(shape, default=1) < 1 or min([offset, *strides]) < 0:
            raise OracleError(f"{where}: bad region {region}")
        end = offset + sum((n - 1) * s for n, s in zip(shape, strides)) + elem_bytes
        if end > len(self.data):
            raise OracleError(f"{where}: region {region} ends at {end}, behind the buffer's {len(self.data)} bytes")
        views = []
        for array in (self.data, self.written):
            tail = array[offset:]
            views.append(np.lib.stride_tricks.as_strided(tail, (*shape, elem_bytes), (*strides, 1)))
        return views[0], views[1]


@dataclass
class Device:
    """Memory of one device and its accounting."""

    memory: dict[str, Memory] = field(default_factory=dict)
    live: int = 0
    peak: int = 0
    parked: int = 0
    host_peak: int = 0
    staging: dict[str, int] = field(default_factory=dict)

    def count(self, change: int, parked: bool = False) -> None:
        """Account for an allocation or a free, in device memory or of scratch in host memory."""
        if parked:
            self.parked += change
            self.host_peak = max(self.host_peak, self.parked)
        else:
            self.live += change
            self.peak = max(self.peak, self.live)


class Replay:
    """State of all devices while the ops of a plan run."""

    def __init__(self, ops: list[Op]) -> None:
        self.ops = ops
        self.devices: dict[int, Device] = defaultdict(Device)
        self.flying: dict[tuple[int, int, int], tuple[np.ndarray, np.ndarray]] = {}
        self.sent: dict[tuple[int, int], int] = defaultdict(int)  # payload bytes by (sender, receiver)
        self.filled = 0
        for op in ops:
            for side in ("src", "dst"):
                self.measure_staging(op, op.get(side))

    def measure_staging(self, op: Op, region: Op | None) -> None:
        """Learn how much of each staging slot the ops use."""
        if region is None or not region["buffer"].startswith("staging:"):
            return
        end = region["offset"] + int(op.get("bytes") or 0)
        if "strides" in region and "elem_bytes" in op:
            width = widths(op)["src" if region is op.get("src") else "dst"]
            extent = sum((n - 1) * s for n, s in zip(region["shape"], region["strides"])) + width
            end = max(end, region["offset"] + extent)
        staging = self.devices[op["device"]].staging
        staging[region["buffer"]] = max(staging.get(region["buffer"], 0), end)

    def place(self, device: int, name: str, size: int, parked: bool = False) -> Memory:
        """A buffer that exists from here on."""
        here = self.devices[device]
        if name in here.memory:
            raise OracleError(f"device {device}: two buffers named {name}")
        here.memory[name] = Memory(size)
        here.count(size, parked)
        return here.memory[name]

    def depth(self) -> int:
        """Rounds that overlap: 2 where two staging slots are used."""
        return 2 if any("staging:1" in device.staging for device in self.devices.values()) else 1

    def run(self, early: bool) -> None:
        """Replay all ops; `early` overlaps each round's packs with the round before."""
        for device in self.devices.values():
            for name, size in device.staging.items():
                device.memory[name] = Memory(size)
        for op in sorted(self.ops, key=lambda op: moment(op, early)) if early else self.ops:
            self.step(op)
        if self.flying:
            sender, receiver, number = next(iter(self.flying))
            raise OracleError(f"round {number}: message from device {sender} to {receiver} is never received")

    def step(self, op: Op) -> None:
        """One op line."""
        where = f"device {op['device']} round {op['round']} {op['op']}"
        handler = {"alloc": self.alloc, "free": self.free, "send": self.send, "recv": self.recv, "fill": self.fill}
        handler.get(op["op"], self.copy)(op, where)

    def buffer(self, op: Op, region: Op, where: str) -> Memory:
        """The live memory that a region names."""
        memory = self.devices[op["device"]].memory.get(region["buffer"])
        if memory is None:
            raise OracleError(f"{where}: {region['buffer']} is not live")
        return memory

    def alloc(self, op: Op, where: str) -> None:
        """A new or scratch buffer, poisoned."""
        if not op["buffer"].startswith(("to:", "scratch:")):
            raise OracleError(f"{where}: {op['buffer']} is not of the new side")
        self.place(op["device"], op["buffer"], op["bytes"], op.get("tier") == "host")

    def free(self, op: Op, where: str) -> None:
        """Drop an old or scratch buffer; later reads of it fail."""
        here = self.devices[op["device"]]
        memory = here.memory.pop(op["buffer"], None)
        if memory is None or not op["buffer"].startswith(("from:", "scratch:")):
            raise OracleError(f"{where}: {op['buffer']} is not a live old buffer")
        if op.get("bytes", len(memory.data)) != len(memory.data):
            raise OracleError(f"{where}: {op['buffer']} has {len(memory.data)} bytes, the line says {op['bytes']}")
        here.count(-len(memory.data), op.get("tier") == "host")

    def fill(self, op: Op, where: str) -> None:
        """Zeros into pads, which must not have been written before."""
        data, written = self.buffer(op, op["dst"], where).elements(op["dst"], op["elem_bytes"], where)
        if written.any():
            raise OracleError(f"{where}: fills bytes that were written before: {op['dst']}")
        data[...] = 0
        written[...] = True
        self.filled += data.size

    def copy(self, op: Op, where: str) -> None:
        """copy, pack and unpack: one box from written memory to memory of the same shape, cast or as it is."""
        width = widths(op)
        if op["src"]["shape"] != op["dst"]["shape"]:
            raise OracleError(f"{where}: shapes differ: {op['src']} {op['dst']}")
        data, written = self.buffer(op, op["src"], where).elements(op["src"], width["src"], where)
        if not written.all():
            raise OracleError(f"{where}: reads bytes that nothing has written: {op['src']}")
        memory = self.buffer(op, op["dst"], where)
        target, marks = memory.elements(op["dst"], width["dst"], where)
        if "cast" in op:
            data = self.cast(op, data, where)
        if op["dst"]["buffer"].startswith("staging:"):
            memory.claim(op["dst"]["offset"], target.size, op["round"], where)
        elif marks.any():
            raise OracleError(f"{where}: writes bytes a second time: {op['dst']}")
        target[...] = data
        marks[...] = True

    def cast(self, op: Op, data: np.ndarray, where: str) -> np.ndarray:
        """Bytes of the elements in the other dtype. Only the narrower form may cross the network."""
        old, new = op["cast"].split("->")
        if {"pack": "bf16", "copy": new, "unpack": "fp32"}[op["op"]] != new:
            raise OracleError(f"{where}: {op['cast']} is for the other end")
        bits = np.ascontiguousarray(data).view(f"<u{BYTES[old]}")
        return casts.cast(bits, old, new).view(np.uint8)

    def message(self, op: Op, region: Op, where: str) -> tuple[Memory, slice]:
        """Staging slot of a message, and its bytes there."""
        offset, size = region["offset"], op["bytes"]
        if offset % 16 or size % 16 or size == 0 or op["peer"] == op["device"]:
            raise OracleError(f"{where}: offset {offset}, {size} bytes, peer {op['peer']}")
        return self.buffer(op, region, where), slice(offset, offset + size)

    def send(self, op: Op, where: str) -> None:
        """Put a message on the wire; its slot may be packed anew afterwards."""
        key = (op["device"], op["peer"], op["round"])
        if key in self.flying:
            raise OracleError(f"{where}: second message to device {op['peer']} in one round")
        memory, span = self.message(op, op["src"], where)
        packed = memory.filled_in[span] == op["round"]
        self.flying[key] = (memory.data[span].copy(), packed)
        self.sent[op["device"], op["peer"]] += int(packed.sum())
        memory.written[span] = False

    def recv(self, op: Op, where: str) -> None:
        """Take the message that the peer sent in the same round."""
        sent = self.flying.pop((op["peer"], op["device"], op["round"]), None)
        if sent is None:
            raise OracleError(f"{where}: device {op['peer']} has sent nothing, or only once")
        memory, span = self.message(op, op["dst"], where)
        if len(sent[0]) != span.stop - span.start:
            raise OracleError(f"{where}: {len(sent[0])} bytes sent by device {op['peer']}, {op['bytes']} expected")
        memory.claim(span.start, op["bytes"], op["round"], where)
        memory.data[span], memory.written[span] = sent


def moment(op: Op, early: bool) -> tuple[int, int]:
    """Sort key of an op. Early: what comes before the group of round k+1 runs while round k is on the wire."""
    if op["op"] in BEFORE_GROUP:
        return (op["round"] - 1, 1) if early else (op["round"], -1)
    return (op["round"], {"send": 0, "recv": 2, "unpack": 3, "free": 4}[op["op"]])
