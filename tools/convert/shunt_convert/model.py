# SPDX-License-Identifier: Apache-2.0
"""Shunt model documents: as data, written and read."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from math import prod
from pathlib import Path

from . import yaml_in, yaml_out
from .errors import Refused, Unavailable, problem, quoted, read_text

SCALARS = ("optimizer.step", "lr_scheduler.samples", "data.consumed_samples")
INCLUDES = ("megatron-state", "megatron-state-fp16")  # each has the SCALARS too
PLANS = Path(__file__).resolve().parents[3] / "plans"


@dataclass(frozen=True)
class Tensor:
    """A family of tensors: `{i}` is the layer, `{e}` the expert."""

    name: str
    shape: tuple[int, ...]
    stage: str = "layer"
    cut: int | None = None
    segments: tuple[int, ...] = ()  # () stands for one part
    pad_vocab: bool = False
    tied: tuple[str, ...] = ()
    layers: tuple[int, ...] | None = None  # None: all, or none where the name has no {i}
    kind: str = "weight"
    dtype: str | None = None
    remark: str = ""  # a comment line before it
    head_dim: int = 0  # rows of an attention head where q, k and v are fused by head group; 0: they are not

    def numbers(self, layers: int) -> tuple[int, ...]:
        """Layers that have it."""
        return tuple(range(layers)) if self.layers is None else self.layers

    def copies(self, model: "Model") -> int:
        """Tensors that the family stands for."""
        layers = len(self.numbers(model.layers)) if "{i}" in self.name else 1
        return layers * (model.experts or 1 if "{e}" in self.name else 1)


@dataclass(frozen=True)
class Model:
    """A whole document."""

    name: str
    layers: int
    tensors: tuple[Tensor, ...]
    heads: int | None = None
    kv_heads: int | None = None
    experts: int | None = None
    scalars: tuple[tuple[str, str, int], ...] = ()  # name, dtype, count
    remarks: tuple[str, ...] = field(default=(), compare=False)
    include: str | None = field(default=None, compare=False)  # a list of state beside the tensors, by name

    def elements(self, kind: str | None = None) -> int:
        """Elements of all tensors, or of those of one kind."""
        return sum(prod(t.shape) * t.copies(self) for t in self.tensors if kind in (None, t.kind))

    def count(self) -> int:
        """Tensors, families expanded."""
        return sum(tensor.copies(self) for tensor in self.tensors)

    def expanded(self) -> Iterator[tuple[str, Tensor, int | None, int | None]]:
        """Every tensor: its name, its family, its layer and its expert."""
        for tensor in self.tensors:
            layers: Iterable[int | None] = tensor.numbers(self.layers) if "{i}" in tensor.name else (None,)
            experts: Iterable[int | None] = range(self.experts or 0) if "{e}" in tensor.name else (None,)
            for layer in layers:
                for expert in experts:
                    name = tensor.name.replace("{i}", str(layer)).replace("{e}", str(expert))
                    yield name, tensor, layer, expert


# ---- layer lists ----------------------------------------------------------------------


def runs(numbers: Iterable[int]) -> list[tuple[int, int]]:
    """Ascending numbers as closed runs."""
    out: list[tuple[int, int]] = []
    for number in numbers:
        if out and out[-1][1] == number - 1:
            out[-1] = (out[-1][0], number)
        else:
            out.append((number, number))
    return out


def layers_value(numbers: tuple[int, ...], layers: int) -> object:
    """The `layers` key: a range where there is one, else a list such as "0,2,4-6"."""
    spans = runs(numbers)
    if len(spans) == 1:
        first, last = spans[0]
        entries = {"from": first} if first > 0 else {}
        return entries | ({"to": last + 1} if last + 1 < layers or not entries else {})
    return ",".join(str(a) if a == b else f"{a}-{b}" for a, b in spans)


# ---- writing ---------------------------------------------------------------------------


class Anchors:
    """Layer lists that come again: an anchor the first time, an alias from then on."""

    MOST = 200  # Shunt reads 256

    def __init__(self, model: Model) -> None:
        lists = [t.layers for t in model.tensors if t.layers is not None and len(t.layers) < model.layers]
        values = [value for value in (layers_value(v, model.layers) for v in lists) if isinstance(value, str)]
        again = [value for value, count in Counter(values).items() if count > 1][: self.MOST]
        self.names = {value: f"layers{number}" for number, value in enumerate(again, 1)}
        self.written: set[str] = set()

    def value(self, value: object) -> object:
        """The value as it is written here."""
        if not isinstance(value, str) or value not in self.names:
            return value
        if value in self.written:
            return yaml_out.Raw(f"*{self.names[value]}")
        self.written.add(value)
        return yaml_out.Raw(f"&{self.names[value]} {yaml_out.text(value)}")


def tensor_mapping(tensor: Tensor, layers: int, anchors: Anchors) -> dict[str, object]:
    """The keys of one entry, in the order of the built-in documents."""
    entry: dict[str, object] = {"name": tensor.name, "shape": list(tensor.shape)}
    if tensor.stage != "layer":
        entry["stage"] = tensor.stage
    if tensor.cut is not None:
        cut: dict[str, object] = {"dim": tensor.cut}
        cut |= {"segments": list(tensor.segments)} if tensor.segments else {}
        cut |= {"pad": "vocab"} if tensor.pad_vocab else {}
        cut |= {"heads": "qkv", "head_dim": tensor.head_dim} if tensor.head_dim else {}
        entry["cut"] = cut
    if tensor.tied:
        entry["tied"] = tensor.tied[0] if len(tensor.tied) == 1 else list(tensor.tied)
    if tensor.layers is not None and len(tensor.layers) < layers:
        entry["layers"] = anchors.value(layers_value(tensor.layers, layers))
    if tensor.kind != "weight":
        entry["kind"] = tensor.kind
    if tensor.dtype is not None:
        entry["dtype"] = tensor.dtype
    return entry


def render(model: Model) -> str:
    """The document."""
    lines = [line for remark in model.remarks for line in yaml_out.comment(remark)]
    lines += ["kind: model", f"name: {yaml_out.text(model.name)}", f"layers: {model.layers}"]
    for key in ("heads", "kv_heads", "experts"):
        value = getattr(model, key)
        lines += [f"{key}: {value}"] if value is not None else []
    lines += ["", "tensors:"]
    anchors = Anchors(model)
    for tensor in model.tensors:
        lines += [f"  # {tensor.remark}"] if tensor.remark else []
        lines += yaml_out.folded(tensor_mapping(tensor, model.layers, anchors), "  - ")
    if model.include is not None:
        lines += ["", "# State beside the tensors: what a Megatron job keeps.", f"include: {model.include}"]
    if model.scalars:
        lines += ["", "# Held whole by every rank.", "scalars:"]
    for name, dtype, count in model.scalars:
        entry = {"name": name, "dtype": dtype} | ({"count": count} if count != 1 else {})
        lines += yaml_out.folded(entry, "  - ")
    return "\n".join(lines) + "\n"


# ---- reading -----------------------------------------------------------------------------


class Parser:
    """Reads a document that Shunt itself accepts; what is wrong is refused, though with less care than Shunt's."""

    def __init__(self, path: str) -> None:
        self.path = path

    def fail(self, where: str, found: object, expected: str) -> Refused:
        return Refused(problem(self.path, where, found, expected))

    def mapping(self, value: object, where: str) -> dict[str, object]:
        if not isinstance(value, dict):
            raise self.fail(where, quoted(value), "a mapping")
        return value

    def listing(self, value: object, where: str) -> list[object]:
        if not isinstance(value, list):
            raise self.fail(where, quoted(value), "a list")
        return value

    def number(self, value: object, where: str) -> int:
        if not isinstance(value, yaml_in.Plain) or not value.isdecimal():
            raise self.fail(where, "no such key" if value is None else quoted(value), "a whole number")
        return int(value)

    def words(self, value: object, where: str) -> str:
        if not isinstance(value, str):
            raise self.fail(where, "no such key" if value is None else quoted(value), "a text")
        return str(value)

    def optional(self, entry: dict[str, object], key: str) -> int | None:
        return self.number(entry[key], key) if key in entry else None

    def numbers(self, value: object, where: str) -> tuple[int, ...]:
        return tuple(self.number(entry, where) for entry in self.listing(value, where))

    def layers(self, value: object, where: str, layers: int) -> tuple[int, ...]:
        """`layers` of a tensor, as numbers."""
        if isinstance(value, dict):
            first = self.number(value["from"], where) if "from" in value else 0
            end = self.number(value["to"], where) if "to" in value else layers
            return tuple(range(first, end))
        if isinstance(value, list):
            return self.numbers(value, where)
        out: list[int] = []
        for part in self.words(value, where).replace(" ", "").split(","):
            first_text, _, last_text = part.partition("-")
            if not first_text.isdecimal() or (last_text != "" and not last_text.isdecimal()):
                raise self.fail(where, quoted(value), 'layers such as "0,2,4-6"')
            out += range(int(first_text), int(last_text or first_text) + 1)
        return tuple(out)

    def tensor(self, value: object, where: str, layers: int) -> Tensor:
        entry = self.mapping(value, where)
        cut = self.mapping(entry["cut"], where + ".cut") if "cut" in entry else None
        tied = entry.get("tied", [])
        segments = self.numbers(cut["segments"], where + ".cut") if cut and "segments" in cut else ()
        dtype = entry.get("dtype")
        return Tensor(
            name=self.words(entry.get("name"), where + ".name"),
            shape=self.numbers(entry.get("shape"), where + ".shape"),
            stage=str(entry.get("stage", "layer")),
            cut=self.number(cut.get("dim"), where + ".cut.dim") if cut is not None else None,
            segments=segments if len(segments) > 1 else (),
            pad_vocab=cut is not None and cut.get("pad") == "vocab",
            tied=tuple(str(word) for word in (tied if isinstance(tied, list) else [tied])),
            layers=self.layers(entry["layers"], where + ".layers", layers) if "layers" in entry else None,
            kind=str(entry.get("kind", "weight")),
            dtype=str(dtype) if dtype is not None else None,
            head_dim=self.number(cut["head_dim"], where + ".cut") if cut and cut.get("heads") == "qkv" else 0,
        )

    def scalar(self, value: object, where: str) -> tuple[str, str, int]:
        entry = self.mapping(value, where)
        count = self.number(entry["count"], where) if "count" in entry else 1
        return self.words(entry.get("name"), where), self.words(entry.get("dtype"), where), count

    def model(self, value: object) -> Model:
        entry = self.mapping(value, "document")
        if entry.get("kind") != "model":
            raise self.fail("kind", quoted(entry.get("kind")), "`model`")
        layers = self.number(entry.get("layers"), "layers")
        tensors = self.listing(entry.get("tensors"), "tensors")
        scalars = self.listing(entry.get("scalars", []), "scalars")
        return Model(
            name=self.words(entry.get("name"), "name"),
            layers=layers,
            tensors=tuple(self.tensor(t, f"tensors[{k}]", layers) for k, t in enumerate(tensors)),
            heads=self.optional(entry, "heads"),
            kv_heads=self.optional(entry, "kv_heads"),
            experts=self.optional(entry, "experts"),
            scalars=tuple(self.scalar(s, f"scalars[{k}]") for k, s in enumerate(scalars)),
        )


def load(path: str) -> Model:
    """Read a model document."""
    return Parser(path).model(yaml_in.read(path, read_text(path)))


def find(reference: str) -> str:
    """Path of a model document: a file, else a built-in's name."""
    if os.path.exists(reference):
        return reference
    folder = Path(os.environ.get("SHUNT_PLANS") or PLANS) / "models"
    builtin = folder / f"{reference}.yaml"
    if os.sep not in reference and builtin.exists():
        return str(builtin)
    raise Unavailable(f"{reference}: no such file, and no built-in model of that name")
