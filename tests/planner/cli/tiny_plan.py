# SPDX-License-Identifier: Apache-2.0
"""Writes one small plan, byte for byte from schemas/plan-format.md, without the compiler.

Two devices with numbers 0 and 3. Device 0 has the old rank 0 and the new rank 0, device 3 the new rank 1:

    w     [4, 6] bf16   cut along dimension 1: half copied on device 0, half sent
    v     [3]    fp32   rows padded to 4 and cut: two copied, one sent beside a pad that is filled
    step  [1]    i64    kept on device 0, sent to device 3
    w     master fp32   an empty shard of the old side

in two rounds at overlap depth 2.
"""

from __future__ import annotations

import argparse
import hashlib
import struct
from pathlib import Path

NONE = 0xFFFFFFFF
STAGING = 0xFFFFFF00
FROM, TO, BOTH = 0, 1, 2
PARAM, MASTER, SCALAR = 0, 2, 7
BF16, FP32, I64 = 0, 2, 9
ELEM_BYTES = {BF16: 2, FP32: 4, I64: 8}
COPY, PACK, FILL, UNPACK = 1, 2, 3, 4
SEND, RECV = 0, 1
MAX_DIMS = 6
W, V, STEP = 0, 1, 2
SLOTS = (32, 32)
TRANSPORT, RESERVE = 100, 50


def crc_table() -> list[int]:
    """Table of CRC-32C, reflected."""
    table = []
    for value in range(256):
        for _ in range(8):
            value = (value >> 1) ^ (0x82F63B78 if value & 1 else 0)
        table.append(value)
    return table


CRC_TABLE = crc_table()


def crc32c(data: bytes) -> int:
    """CRC-32C (Castagnoli)."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc = CRC_TABLE[(crc ^ byte) & 0xFF] ^ (crc >> 8)
    return crc ^ 0xFFFFFFFF


def align(data: bytes, unit: int) -> bytes:
    """Zeros up to the next multiple of unit."""
    return data + bytes(-len(data) % unit)


def six(values: list[int], fill: int) -> bytes:
    """A small vector in SHUNT_MAX_DIMS numbers."""
    return struct.pack("<6q", *values, *[fill] * (MAX_DIMS - len(values)))


class Part:
    """Tables of one device, filled in file order."""

    def __init__(self, device: int) -> None:
        self.device = device
        self.buffers: list[bytes] = []
        self.holdings: list[bytes] = []
        self.views: list[bytes] = []
        self.corners: list[bytes] = []
        self.rounds: list[tuple[int, int, int]] = []
        self.ops: list[bytes] = []
        self.messages: list[bytes] = []
        self.live: list[int] = []
        self.dtypes: list[int] = []

    def intern(self, table: list[bytes], record: bytes) -> int:
        """Index of a record, appended if it is new."""
        if record not in table:
            table.append(record)
        return table.index(record)

    def view(self, elem_bytes: int, shape: list[int], strides: list[int] | None = None) -> int:
        """A view, dense unless strides are given."""
        if strides is None:
            strides = [elem_bytes] * len(shape)
            for d in range(len(shape) - 2, -1, -1):
                strides[d] = strides[d + 1] * shape[d + 1]
        record = struct.pack("<2I", len(shape), elem_bytes) + six(shape, 1) + six(strides, 0)
        return self.intern(self.views, record)

    def buffer(self, tensor: int, state: int, dtype: int, side: int, when: int, size: int, shape: list[int],
               box: tuple[list[int], list[int]] | None) -> int:
        """A buffer with at most one holding, at its start. `when`: its alloc or free round."""
        elem = ELEM_BYTES[dtype]
        begin, local = len(self.holdings), self.view(elem, shape)
        if box is not None:
            lo, held = box
            strides = list(struct.unpack_from(f"<{len(shape)}q", self.views[local], 8 + 8 * MAX_DIMS))
            corner = self.intern(self.corners, six(lo, 0))
            self.holdings.append(struct.pack("<2IQ", self.view(elem, held, strides), corner, 0))
        rounds = (when if side == TO else NONE, when if side == FROM else NONE)
        self.buffers.append(struct.pack("<I4BQ6I", tensor, state, dtype, side, 0, size, local, begin,
                                        len(self.holdings) - begin, *rounds, 0))
        self.dtypes.append(dtype)
        return len(self.buffers) - 1

    def op(self, kind: int, source: tuple[int, int, int], target: tuple[int, int, int]) -> None:
        """A copy; ends are (buffer, view, offset)."""
        self.ops.append(struct.pack("<B3x5I2Q", kind, source[0], target[0], source[1], target[1], 0, source[2],
                                    target[2]))

    def message(self, peer: int, direction: int, slot: int, size: int) -> None:
        """A message at the start of a slot."""
        self.messages.append(struct.pack("<4I2Q", peer, direction, STAGING + slot, 0, 0, size))

    def begin_round(self) -> None:
        """What follows is before the group of a new round."""
        self.rounds.append((len(self.ops), 0, len(self.messages)))

    def group(self) -> None:
        """What follows is after the group."""
        begin, _, messages = self.rounds[-1]
        self.rounds[-1] = (begin, len(self.ops), messages)

    def pack(self, live: list[int]) -> bytes:
        """The part's bytes, with its gap. `live`: of each round and behind the last one."""
        self.begin_round()
        self.group()
        rounds = [struct.pack("<4IQ", *r, 0, bytes_live) for r, bytes_live in zip(self.rounds, live, strict=True)]
        tables = [self.buffers, self.holdings, self.views, self.corners, rounds, self.ops, self.messages]
        counts = [len(self.buffers), len(self.holdings), len(self.views), len(self.corners), len(self.ops),
                  len(self.messages)]
        data = struct.pack("<8I2Q", self.device, *counts, 0, *SLOTS)
        for table in tables:
            data = align(data, 8) + b"".join(table)
        return align(data, 64)


def sending_part() -> bytes:
    """Device 0."""
    part = Part(0)
    old_w = part.buffer(W, PARAM, BF16, FROM, 1, 48, [4, 6], ([0, 0], [4, 6]))
    new_w = part.buffer(W, PARAM, BF16, TO, 0, 24, [4, 3], ([0, 0], [4, 3]))
    old_v = part.buffer(V, PARAM, FP32, FROM, 1, 12, [3], ([0], [3]))
    new_v = part.buffer(V, PARAM, FP32, TO, 1, 8, [2], ([0], [2]))
    step = part.buffer(STEP, SCALAR, I64, BOTH, 0, 8, [1], ([0], [1]))
    part.buffer(W, MASTER, FP32, FROM, 1, 0, [1, 1], None)
    half, dense = part.view(2, [4, 3], [12, 2]), part.view(2, [4, 3])
    two, one, count = part.view(4, [2]), part.view(4, [1]), part.view(8, [1])
    part.begin_round()
    part.op(COPY, (old_w, half, 0), (new_w, dense, 0))
    part.op(PACK, (old_w, half, 6), (STAGING, dense, 0))
    part.group()
    part.message(1, SEND, 0, 32)
    part.begin_round()
    part.op(COPY, (old_v, two, 0), (new_v, two, 0))
    part.op(PACK, (old_v, one, 8), (STAGING + 1, one, 0))
    part.op(PACK, (step, count, 0), (STAGING + 1, count, 16))
    part.group()
    part.message(1, SEND, 1, 32)
    held = 48 + 12 + 8 + sum(SLOTS) + TRANSPORT + RESERVE
    return part.pack([held + 24, held + 24 + 8, held + 24 + 8 - 48 - 12])


def receiving_part() -> bytes:
    """Device 3, the second in the table."""
    part = Part(1)
    new_w = part.buffer(W, PARAM, BF16, TO, 0, 24, [4, 3], ([0, 3], [4, 3]))
    new_v = part.buffer(V, PARAM, FP32, TO, 1, 8, [2], ([2], [1]))
    step = part.buffer(STEP, SCALAR, I64, TO, 1, 8, [1], ([0], [1]))
    dense, one, count = part.view(2, [4, 3]), part.view(4, [1]), part.view(8, [1])
    part.begin_round()
    part.group()
    part.message(0, RECV, 0, 32)
    part.op(UNPACK, (STAGING, dense, 0), (new_w, dense, 0))
    part.begin_round()
    part.op(FILL, (NONE, 0, 0), (new_v, one, 4))
    part.group()
    part.message(0, RECV, 1, 32)
    part.op(UNPACK, (STAGING + 1, one, 0), (new_v, one, 0))
    part.op(UNPACK, (STAGING + 1, count, 16), (step, count, 0))
    held = sum(SLOTS) + TRANSPORT + RESERVE
    return part.pack([held + 24, held + 40, held + 40])


def summary(at: dict[str, int], seconds: float) -> bytes:
    """The summary record; `at` maps strings to offsets, `seconds` is the predicted time."""
    names = [at[name] for name in ("tiny", "tp1", "tp2", "pair", "greedy", "none", "greedy")]
    volumes = [36, 36, 0, 40, 8, 36, 0, 4, 36, 36, 36]
    memory = [400, 314, 300, 314, sum(SLOTS), 68, 40, RESERVE, TRANSPORT]
    return struct.pack("<8I11Q3d9Q6IQ", *names, 0, *volumes, seconds, 2e-5, 3e-5, *memory, 0, 1, 1, 1, 0, 0, 17)


def device(number: int, ranks: tuple[int, int], part: bytes, offset: int, figures: tuple[int, int, int]) -> bytes:
    """A device record; two devices per node. Figures: old side, new side, peak."""
    return struct.pack("<4I2Q2I3Q", number, number // 2, *ranks, offset, len(part), crc32c(part), 0, *figures)


def digest(text: str) -> bytes:
    """Stands for the digest of a document."""
    return hashlib.sha256(text.encode()).digest()


def build(seconds: float = 3e-5, to_name: str = "tp2") -> bytes:
    """The whole file; figures that `shunt diff` should see differ."""
    strings, at = b"\0", {}
    for name in ("w", "v", "step", "tiny", "tp1", "tp2", "pair", "greedy", "none"):
        at[name] = len(strings)
        strings += (to_name if name == "tp2" else name).encode() + b"\0"
    extents = {"w": [4, 6], "v": [3], "step": [1]}
    tensors, dims = b"", b""
    for name, shape in extents.items():
        elements = shape[0] * (shape[1] if len(shape) > 1 else 1)
        tensors += struct.pack("<2I2Q", at[name], len(shape), len(dims) // 8, elements)
        dims += struct.pack(f"<{len(shape)}q", *shape)
    parts = [sending_part(), receiving_part()]
    sections = [(strings, 1), (summary(at, seconds), 248), (tensors, 24), (dims, 8), (bytes(128), 64)]
    sections.append((b"".join(parts), 1))
    begin = [256 + 6 * 32]
    for data, _ in sections:
        begin.append(begin[-1] + len(align(data, 64)))
    devices = device(0, (0, 0), parts[0], begin[5], (68, 40, 314))
    devices += device(3, (NONE, 1), parts[1], begin[5] + len(parts[0]), (0, 40, 254))
    sections[4] = (devices, 64)
    table, body = b"", b""
    for kind, (data, record) in enumerate(sections, 1):
        crc = 0 if kind == 6 else crc32c(align(data, 64))
        table += struct.pack("<2I2Q2I", kind, crc, begin[kind - 1], len(data), record, 0)
        body += align(data, 64)
    return seal(table, body, to_name)


def seal(table: bytes, body: bytes, to_name: str) -> bytes:
    """Put the header in front: first without, then with the plan id and its checksum."""
    digests = [digest(name) for name in ("tiny", "tp1", to_name, "pair")]
    tail = struct.pack("<7I36x", 2, 1, 2, 2, 2, 6, crc32c(table))

    def header(crc: int, plan_id: bytes) -> bytes:
        size = 256 + len(table) + len(body)
        return struct.pack("<8s4IQ32s32s32s32s32s", b"SHUNTPLN", 1, 0, 256, crc, size, plan_id, *digests) + tail

    plan_id = hashlib.sha256(header(0, bytes(32)) + table + body).digest()
    return header(crc32c(header(0, plan_id)), plan_id) + table + body


def main() -> None:
    """Write the plan to a file."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("path", type=Path)
    parser.parse_args().path.write_bytes(build())


if __name__ == "__main__":
    main()
