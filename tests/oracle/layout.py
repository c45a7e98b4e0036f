# SPDX-License-Identifier: Apache-2.0
"""The layout rules, written a second time.

For a model and a layout this module says which tensors a rank holds and what its local
array is, starting from the whole array. It shares nothing with the C code: the rules are
taken from the documents' description alone.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from casts import dtype_of

AXES = ("tp", "cp", "ep", "dp", "pp")

# document name -> (safetensors name, bytes of one element)
DTYPES: dict[str, tuple[str, int]] = {
    "bf16": ("BF16", 2),
    "fp16": ("F16", 2),
    "fp32": ("F32", 4),
    "fp64": ("F64", 8),
    "fp8_e4m3": ("F8_E4M3", 1),
    "fp8_e5m2": ("F8_E5M2", 1),
    "i8": ("I8", 1),
    "i16": ("I16", 2),
    "i32": ("I32", 4),
    "i64": ("I64", 8),
    "u8": ("U8", 1),
    "u16": ("U16", 2),
    "u32": ("U32", 4),
    "u64": ("U64", 8),
}

Key = tuple[str, str]  # (state, global tensor name)


@dataclass(frozen=True)
class Tensor:
    """A family of tensors: one name pattern, one logical shape, one cut rule."""

    name: str
    shape: tuple[int, ...]
    stage: str | None = None  # None: `layer` if the name has {i}, else an explicit stage is required
    cut_dim: int | None = None
    segments: tuple[int, ...] | None = None
    pad_vocab: bool = False
    tied: bool = False
    kind: str = "weight"
    dtype: str | None = None
    layers: tuple[int, int] | None = None  # half-open

    def place(self) -> str:
        """Stage rule after the default."""
        return self.stage or "layer"


@dataclass(frozen=True)
class Scalar:
    """A small value that every rank holds whole."""

    name: str
    dtype: str = "i64"
    count: int = 1


@dataclass(frozen=True)
class Model:
    """Tensors of a network by global name."""

    layers: int
    tensors: tuple[Tensor, ...]
    scalars: tuple[Scalar, ...] = ()
    heads: int | None = None
    kv_heads: int | None = None
    name: str = "toy"


@dataclass(frozen=True)
class Layout:
    """One way to spread a model over ranks."""

    tp: int = 1
    cp: int = 1
    ep: int = 1
    dp: int = 1
    pp: int = 1
    order: tuple[str, ...] | None = None  # None: tp-cp-ep-dp-pp; fastest first
    first: int | None = None
    last: int | None = None
    divisible_by: int | None = None  # None: 128
    padded: int | None = None
    state: tuple[tuple[str, str], ...] = (("param", "bf16"),)  # dtypes, or words as in casts.MADE
    devices: tuple[int, ...] | None = None  # None: rank r runs on device r
    name: str = "layout"

    def size(self, axis: str) -> int:
        """Degree of one axis."""
        return int(getattr(self, axis))

    def world(self) -> int:
        """Number of ranks."""
        return self.tp * self.cp * self.ep * self.dp * self.pp

    def device_of(self, rank: int) -> int:
        """Device that a rank runs on."""
        return rank if self.devices is None else self.devices[rank]


@dataclass(frozen=True)
class Cluster:
    """Figures of the machines; only the byte counts matter for what is right."""

    devices_per_node: int = 8
    memory: int = 1 << 30
    reserve: int = 0
    transport_buffers: int = 0
    costs: bool = True  # of rounds and messages: small moves are not relayed then
    name: str = "bench"


@dataclass(frozen=True)
class Entry:
    """One array that a rank holds."""

    key: Key
    dtype: str
    shape: tuple[int, ...]  # whole logical shape
    tensor: Tensor | None = field(default=None, compare=False)  # None: a scalar


def coordinates(layout: Layout, rank: int) -> dict[str, int]:
    """Mixed radix digits of a rank, the leftmost axis of the order fastest."""
    order = layout.order or AXES
    result = dict.fromkeys(AXES, 0)
    rest = rank
    for axis in order:
        result[axis] = rest % layout.size(axis)
        rest //= layout.size(axis)
    if rest:
        raise ValueError(f"rank {rank} is outside the layout")
    return result


def stage_counts(layout: Layout, layers: int) -> list[int]:
    """Layers of each pipeline stage."""
    head = [] if layout.first is None else [layout.first]
    tail = [] if layout.last is None else [layout.last]
    middle = layout.pp - len(head) - len(tail)
    rest = layers - sum(head) - sum(tail)
    if rest < 0 or (middle == 0 and rest != 0) or (middle > 0 and rest % middle):
        raise ValueError(f"{layers} layers do not fit the pipeline")
    return head + [rest // middle] * middle + tail if middle else head + tail


def stage_layers(layout: Layout, layers: int, stage: int) -> range:
    """Global layers of one stage."""
    counts = stage_counts(layout, layers)
    begin = sum(counts[:stage])
    return range(begin, begin + counts[stage])


def concrete(tensor: Tensor, layout: Layout, layers: int, stage: int) -> list[str]:
    """Global names of the tensors of a family that one stage holds."""
    place = tensor.place()
    if place == "layer":
        begin, end = tensor.layers or (0, layers)
        return [tensor.name.replace("{i}", str(i)) for i in stage_layers(layout, layers, stage) if begin <= i < end]
    last = layout.pp - 1
    here = {"first": stage == 0 or (tensor.tied and stage == last), "last": stage == last, "all": True}[place]
    return [tensor.name] if here else []


def tensor_states(tensor: Tensor, layout: Layout) -> list[tuple[str, str]]:
    """(state, dtype) of a tensor."""
    if tensor.kind == "buffer":
        assert tensor.dtype, f"{tensor.name}: buffers of the oracle's models name their dtype"
        return [("buffer", tensor.dtype)]
    return [(s, tensor.dtype if s == "param" and tensor.dtype else dtype_of(word)) for s, word in layout.state]


def entries(model: Model, layout: Layout, rank: int) -> list[Entry]:
    """All arrays that a rank holds."""
    stage = coordinates(layout, rank)["pp"]
    result = []
    for tensor in model.tensors:
        for name in concrete(tensor, layout, model.layers, stage):
            for state, dtype in tensor_states(tensor, layout):
                result.append(Entry((state, name), dtype, tensor.shape, tensor))
    for scalar in model.scalars:
        result.append(Entry(("scalar", scalar.name), scalar.dtype, (scalar.count,)))
    return result


def padded_rows(layout: Layout, rows: int) -> int:
    """Rows of a vocabulary tensor after padding."""
    if layout.padded is not None:
        return layout.padded
    unit = (128 if layout.divisible_by is None else layout.divisible_by) * layout.tp
    return -(-rows // unit) * unit


def pad_rows(entry: Entry, layout: Layout) -> int:
    """Pad rows behind the logical rows of an array."""
    if entry.tensor is None or not entry.tensor.pad_vocab:
        return 0
    return padded_rows(layout, entry.shape[0]) - entry.shape[0]


def segment_bounds(entry: Entry, extent: int) -> list[tuple[int, int]]:
    """[begin, end) of each fused part along the cut dimension."""
    assert entry.tensor is not None
    if entry.tensor.segments is None:
        return [(0, extent)]
    ends = np.cumsum(entry.tensor.segments).tolist()
    return list(zip([0] + ends[:-1], ends))


def cut(entry: Entry, layout: Layout, tp_rank: int, whole: np.ndarray, pads: np.ndarray | None = None) -> np.ndarray:
    """Local array of one tensor-parallel rank. `pads` stand behind the logical rows; None means zeros."""
    count = pad_rows(entry, layout)
    if count:
        if pads is None:
            pads = np.zeros((count,) + whole.shape[1:], whole.dtype)
        whole = np.concatenate([whole, pads], axis=0)
    if entry.tensor is None or entry.tensor.cut_dim is None:
        return whole
    dim = entry.tensor.cut_dim
    parts = []
    for begin, end in segment_bounds(entry, whole.shape[dim]):
        share, rest = divmod(end - begin, layout.tp)
        if rest:
            raise ValueError(f"{entry.key}: segment of {end - begin} over tp {layout.tp}")
        index = [slice(None)] * whole.ndim
        index[dim] = slice(begin + tp_rank * share, begin + (tp_rank + 1) * share)
        parts.append(whole[tuple(index)])
    return np.ascontiguousarray(np.concatenate(parts, axis=dim))


def gather(entry: Entry, layout: Layout, local: list[np.ndarray]) -> np.ndarray:
    """Inverse of cut: the whole array from the local arrays of tensor-parallel ranks 0, 1, ..."""
    if entry.tensor is None or entry.tensor.cut_dim is None:
        return local[0]
    dim = entry.tensor.cut_dim
    extent = sum(part.shape[dim] for part in local)
    done, pieces = 0, []
    for begin, end in segment_bounds(entry, extent):
        share = (end - begin) // layout.tp
        for part in local:
            pieces.append(np.take(part, range(done, done + share), axis=dim))
        done += share
    whole = np.concatenate(pieces, axis=dim)
    return whole[: entry.shape[0]] if entry.tensor.pad_vocab else whole
