# SPDX-License-Identifier: Apache-2.0
"""Headers of safetensors files, and their index. Tensor data is never read; everything in a file is checked."""

from __future__ import annotations

import os
from dataclasses import dataclass
from math import prod

from .errors import Refused, Unavailable, problem, quoted, read_text
from .fields import parse_object

MOST_HEADER = 100_000_000
MOST_DIMS = 16

# element type: bits, and Shunt's name where it has one
DTYPES: dict[str, tuple[int, str | None]] = {
    "BF16": (16, "bf16"), "F16": (16, "fp16"), "F32": (32, "fp32"), "F64": (64, "fp64"),
    "F8_E4M3": (8, "fp8_e4m3"), "F8_E5M2": (8, "fp8_e5m2"), "F8_E8M0": (8, None), "F4": (4, None),
    "F6_E2M3": (6, None), "F6_E3M2": (6, None), "C64": (64, None),
    "I8": (8, "i8"), "I16": (16, "i16"), "I32": (32, "i32"), "I64": (64, "i64"),
    "U8": (8, "u8"), "U16": (16, "u16"), "U32": (32, "u32"), "U64": (64, "u64"), "BOOL": (8, "bool"),
}  # fmt: skip


@dataclass(frozen=True)
class Entry:
    """One tensor of a checkpoint."""

    name: str
    shape: tuple[int, ...]
    dtype: str
    file: str


def header_bytes(path: str) -> tuple[bytes, int]:
    """The header of a file, and the bytes behind it."""
    try:
        with open(path, "rb") as stream:
            size = os.fstat(stream.fileno()).st_size
            head = stream.read(8)
            length = int.from_bytes(head, "little")
            if len(head) < 8 or length > min(size - 8, MOST_HEADER):
                found = f"{size} bytes" if len(head) < 8 else f"a header of {length} bytes in a file of {size}"
                raise Refused(problem(path, "header", found, "a safetensors file"))
            return stream.read(length), size - 8 - length
    except OSError as error:
        raise Unavailable(f"{path}: {error.strerror}") from error


def whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1 << 60


def entry(path: str, name: str, value: object, room: int) -> Entry:
    """One entry of a header."""
    if not isinstance(value, dict):
        raise Refused(problem(path, name, quoted(value), "an object with dtype, shape and data_offsets"))
    dtype, shape, span = value.get("dtype"), value.get("shape"), value.get("data_offsets")
    if not isinstance(dtype, str) or dtype not in DTYPES:
        raise Refused(problem(path, f"{name}.dtype", quoted(dtype), f"one of {', '.join(DTYPES)}"))
    if not isinstance(shape, list) or len(shape) > MOST_DIMS or not all(whole(extent) for extent in shape):
        raise Refused(problem(path, f"{name}.shape", quoted(shape), f"at most {MOST_DIMS} whole numbers"))
    if not isinstance(span, list) or len(span) != 2 or not all(whole(offset) for offset in span):
        raise Refused(problem(path, f"{name}.data_offsets", quoted(span), "two whole numbers"))
    bits = prod(shape) * DTYPES[dtype][0]
    if span[0] > span[1] or span[1] > room or (span[1] - span[0]) * 8 != bits:
        expected = f"{(bits + 7) // 8} bytes below {room}, which the shape and the file's size ask for"
        raise Refused(problem(path, f"{name}.data_offsets", quoted(span), expected))
    return Entry(name, tuple(shape), dtype, path)


def read_file(path: str) -> list[Entry]:
    """Entries of one file, in the order of its header."""
    header, room = header_bytes(path)
    values = parse_object(path, header)
    values.pop("__metadata__", None)
    return [entry(path, name, value, room) for name, value in values.items()]


def index_files(path: str) -> dict[str, str]:
    """Name of each tensor to the file that an index gives for it."""
    values = parse_object(path, read_text(path))
    mapping = values.get("weight_map")
    if not isinstance(mapping, dict) or not all(isinstance(file, str) for file in mapping.values()):
        raise Refused(problem(path, "weight_map", quoted(mapping), "tensor names and files"))
    for file in set(mapping.values()):
        if file != os.path.basename(file) or file in ("", ".", "..") or "\0" in file:
            raise Refused(problem(path, "weight_map", quoted(file), "the name of a file beside the index"))
    return dict(mapping)


def read_index(path: str) -> list[Entry]:
    """Entries of all files of an index, which must list what they hold."""
    mapping = index_files(path)
    folder = os.path.dirname(path)
    problems, entries = [], []
    for file in sorted(set(mapping.values())):
        for one in read_file(os.path.join(folder, file)):
            if mapping.get(one.name) == file:
                entries.append(one)
            else:
                found = quoted(mapping[one.name]) if one.name in mapping else "no such entry"
                problems.append(problem(path, f"weight_map.{one.name}", found, f"`{file}`, which has it"))
    held = {one.name for one in entries}
    problems += [
        problem(path, f"weight_map.{name}", f"`{file}`", "a file that has it")
        for name, file in mapping.items()
        if name not in held and not any(f"weight_map.{name}:" in line for line in problems)
    ]
    if problems:
        raise Refused(problems)
    return entries


def read(path: str) -> list[Entry]:
    """Entries of a file or of an index."""
    return read_index(path) if path.endswith(".json") else read_file(path)
