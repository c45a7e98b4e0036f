# SPDX-License-Identifier: Apache-2.0
"""The safetensors file format in a few lines: 8 bytes of length, a JSON header, the data."""

from __future__ import annotations

import json
import struct
from pathlib import Path

import numpy as np

from layout import DTYPES

WIDTH = {name: width for name, width in DTYPES.values()}
Arrays = dict[str, tuple[str, np.ndarray]]  # entry name -> (safetensors dtype, raw unsigned elements)


def write(path: Path, arrays: Arrays) -> None:
    """Write entries in the given order."""
    header: dict[str, object] = {}
    offset = 0
    for name, (dtype, array) in arrays.items():
        header[name] = {"dtype": dtype, "shape": list(array.shape), "data_offsets": [offset, offset + array.nbytes]}
        offset += array.nbytes
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with path.open("wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for _, array in arrays.values():
            file.write(np.ascontiguousarray(array).tobytes())


def read(path: Path) -> Arrays:
    """Read all entries; the data must be covered by them without gap or overlap."""
    blob = path.read_bytes()
    (length,) = struct.unpack_from("<Q", blob)
    header = json.loads(blob[8 : 8 + length])
    header.pop("__metadata__", None)
    data = blob[8 + length :]
    result: Arrays = {}
    spans = []
    for name, item in header.items():
        begin, end = item["data_offsets"]
        width = WIDTH[item["dtype"]]
        array = np.frombuffer(data[begin:end], dtype=f"<u{width}")
        result[name] = (item["dtype"], array.reshape(item["shape"]))
        spans.append((begin, end))
    position = 0
    for begin, end in sorted(spans):
        if begin != position:
            raise ValueError(f"{path.name}: entries leave a gap or overlap at data offset {begin}")
        position = end
    if position != len(data):
        raise ValueError(f"{path.name}: {len(data) - position} bytes behind the last entry")
    return result
