#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The 19 cases A to P: models, layouts and the cluster of each, as documents in a folder.

Each case moves 2 bytes of weight and 12 of optimizer state a parameter. The optimizer's states are
`z0`: as the weights, on every data-parallel rank; `z1`: the rows of each rank's tensor, spread over
the data-parallel ranks; `z2`: ranges of Megatron's flat buffers. No rule of the layout language is z1 and
leaves weights whole, so those layouts are written box by box; where that takes too many entries for a
document (cases N and P), the flat buffers stand in, and `form` of the case says so.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

Document = dict[str, Any]
Box = list[tuple[int, int]]

OPTIMIZER = ["master", "exp_avg", "exp_avg_sq"]
STATE = {"param": "bf16", "master": "fp32", "exp_avg": "fp32", "exp_avg_sq": "fp32"}
NODE = 8  # devices
MOST_EXPLICIT = 8192  # ranks
CLUSTER = """kind: cluster
name: cases
devices_per_node: 8
device: {memory: 1 TB, reserve: 0 B, transport_buffers: 0 B}
links: {intra_node: 450 GB/s, inter_node: 50 GB/s}
copy: 1300 GB/s
costs: {round: 50 us, message: 0 us}
"""


# ---- models ---------------------------------------------------------------------------


@dataclass(frozen=True)
class Tensor:
    """A tensor of a model; `dim` is cut over tp, in equal segments."""

    name: str
    shape: tuple[int, ...]
    dim: int | None = None
    segments: int = 1
    stage: str = "layer"

    @property
    def expert(self) -> bool:
        """Whether it is one of an expert, cut over ep alone."""
        return "{e}" in self.name

    @property
    def size(self) -> int:
        """Elements."""
        total = 1
        for extent in self.shape:
            total *= extent
        return total


@dataclass(frozen=True)
class Model:
    """Hidden size, query and key/value heads of 128, and the MLP: dense, or of experts."""

    name: str
    layers: int
    hidden: int
    heads: int
    groups: int
    ffn: int
    rows: int  # of the vocabulary
    experts: int = 0

    def tensors(self) -> list[Tensor]:
        """In the order in which Megatron registers them."""
        h, q, kv = self.hidden, 128 * self.heads, 128 * self.groups
        mlp = "layer.{i}.mlp" if not self.experts else "layer.{i}.moe.expert.{e}"
        attention = [
            Tensor("layer.{i}.attn.o.weight", (h, q), 1),
            Tensor("layer.{i}.input_norm.weight", (h,)),
            Tensor("layer.{i}.attn.qkv.weight", (q + 2 * kv, h), 0),
        ]
        if self.experts:  # as Qwen3: norms of queries and keys
            attention += [Tensor(f"layer.{{i}}.attn.{n}_norm.weight", (128,)) for n in "qk"]
        router = [Tensor("layer.{i}.moe.router.weight", (self.experts, h))] if self.experts else []
        return [
            Tensor("embed.weight", (self.rows, h), 0, stage="first"),
            *attention,
            Tensor("layer.{i}.post_attn_norm.weight", (h,)),
            *router,
            Tensor(f"{mlp}.gate_up.weight", (2 * self.ffn, h), 0, 2),
            Tensor(f"{mlp}.down.weight", (h, self.ffn), 1),
            Tensor("final_norm.weight", (h,), stage="final"),
            Tensor("lm_head.weight", (self.rows, h), 0, stage="last"),
        ]

    def parameters(self) -> int:
        """Elements of all weights."""
        total = 0
        for tensor in self.tensors():
            copies = self.layers if "{i}" in tensor.name else 1
            total += tensor.size * copies * (self.experts if tensor.expert else 1)
        return total

    def document(self) -> Document:
        """As `shunt` reads it."""
        items = []
        for tensor in self.tensors():
            item: Document = {"name": tensor.name, "shape": list(tensor.shape)}
            if tensor.stage != "layer":
                item["stage"] = tensor.stage
            if tensor.dim is not None:
                item["cut"] = {"dim": tensor.dim}
            if tensor.segments > 1:
                item["cut"]["segments"] = [tensor.shape[0] // tensor.segments] * tensor.segments
            items.append(item)
        head = {"kind": "model", "name": self.name, "layers": self.layers, "heads": self.heads}
        return head | ({"experts": self.experts} if self.experts else {}) | {"tensors": items}


LLAMA_70B = Model("llama-70b", 80, 8192, 64, 8, 28672, 128256)
LLAMA_405B = Model("llama-405b", 126, 16384, 128, 8, 53248, 128256)
QWEN_235B = Model("qwen-235b", 94, 4096, 64, 4, 1536, 151936, experts=128)


# ---- cases ----------------------------------------------------------------------------


@dataclass(frozen=True)
class Grid:
    """Sizes of the axes. Ranks are numbered along tp, then dp, then pp; experts are cut over ep only."""

    tp: int
    pp: int
    dp: int = 1
    ep: int = 1

    @property
    def ranks(self) -> int:
        """How many there are."""
        return self.tp * self.pp * self.dp

    @property
    def expert_dp(self) -> int:
        """Copies of an expert's weights."""
        return self.tp * self.dp // self.ep


@dataclass(frozen=True)
class Case:
    """A move; ranks run on the devices of their numbers, on survivors where a node is lost."""

    name: str
    model: Model
    old: Grid
    new: Grid
    zero: int
    lost_node: int | None = None

    @property
    def devices(self) -> int:
        """Devices that have an old or a new rank."""
        return max(self.old.ranks, self.new.ranks)

    @property
    def form(self) -> str:
        """How its layouts are written."""
        if self.lost_node is not None:
            return "boxes"
        if self.zero == 1:
            return "boxes" if self.devices <= MOST_EXPLICIT else "flat, not rows"
        return "flat" if self.zero == 2 else "whole"


CASES = (
    Case("A", LLAMA_70B, Grid(8, 4), Grid(4, 8, 2), 0),
    Case("A1", LLAMA_70B, Grid(8, 4), Grid(4, 8, 2), 1),
    Case("B", LLAMA_70B, Grid(8, 4), Grid(8, 8), 0),
    Case("C", LLAMA_70B, Grid(8, 2, 4), Grid(8, 2, 3), 1),
    Case("C2", LLAMA_70B, Grid(8, 2, 4), Grid(8, 2, 3), 2),
    Case("D", LLAMA_70B, Grid(4, 4, 4), Grid(8, 4, 2), 0),
    Case("E", LLAMA_70B, Grid(8, 4, 4), Grid(8, 4, 3), 0, lost_node=5),
    Case("F", LLAMA_70B, Grid(8, 4), Grid(8, 4, 4), 0),
    Case("G", QWEN_235B, Grid(4, 4, 4, 8), Grid(4, 8, 4, 16), 1),
    Case("G2", QWEN_235B, Grid(4, 4, 4, 8), Grid(4, 8, 4, 16), 2),
    Case("H", QWEN_235B, Grid(4, 4, 4, 8), Grid(2, 4, 8, 16), 0),
    Case("I", LLAMA_405B, Grid(8, 16, 8), Grid(8, 8, 16), 0),
    Case("J", LLAMA_405B, Grid(8, 16, 8), Grid(8, 16, 7), 1),
    Case("K", LLAMA_405B, Grid(8, 16, 8), Grid(4, 32, 8), 1),
    Case("L", LLAMA_405B, Grid(8, 16, 32), Grid(8, 8, 64), 0),
    Case("M", LLAMA_405B, Grid(8, 16, 32), Grid(4, 32, 32), 1),
    Case("N", LLAMA_405B, Grid(8, 16, 128), Grid(8, 16, 112), 1),
    Case("O", LLAMA_405B, Grid(8, 16, 128), Grid(4, 32, 128), 0),
    Case("P", LLAMA_405B, Grid(8, 16, 128), Grid(4, 32, 128), 1),
)


# ---- layouts by rule ------------------------------------------------------------------


def counted(model: Model, grid: Grid) -> bool:
    """Whether embedding and loss take the place of layers, so that the stages are even."""
    return model.layers % grid.pp != 0


def head(name: str) -> Document:
    """What all layouts begin with."""
    return {"kind": "layout", "name": name, "model": "model.yaml", "cluster": "cluster.yaml", "state": STATE}


def by_rule(name: str, case: Case, grid: Grid) -> Document:
    """A layout of axes and a rule."""
    parallel: Document = {"tp": grid.tp, "pp": grid.pp, "dp": grid.dp}
    if case.model.experts:
        parallel |= {"ep": grid.ep, "etp": 1}
    document = head(name) | {"parallel": parallel}
    if counted(case.model, grid):
        document["pipeline"] = {"count_embedding": True, "count_loss": True}
    rows = case.model.rows
    return document | {
        "shard": {"rule": "megatron" if case.zero else "none"},
        "vocab": {"padded": rows},
    }


# ---- layouts box by box -----------------------------------------------------------------


@dataclass(frozen=True)
class Place:
    """A tensor with its numbers written out, on a stage."""

    name: str
    tensor: Tensor
    stage: int
    expert: int = 0


def stage_of_layer(model: Model, grid: Grid, layer: int) -> int:
    """Stage that has a layer."""
    if counted(model, grid):
        return (layer + 1) * grid.pp // (model.layers + 2)
    return layer * grid.pp // model.layers


def places(model: Model, grid: Grid) -> Iterator[Place]:
    """All tensors by name."""
    for tensor in model.tensors():
        if tensor.stage != "layer":
            yield Place(tensor.name, tensor, 0 if tensor.stage == "first" else grid.pp - 1)
            continue
        for layer in range(model.layers):
            name, stage = tensor.name.replace("{i}", str(layer)), stage_of_layer(model, grid, layer)
            for expert in range(model.experts if tensor.expert else 1):
                yield Place(name.replace("{e}", str(expert)), tensor, stage, expert)


def part(tensor: Tensor, index: int, count: int) -> list[Box]:
    """Boxes of one of `count` parts of a cut tensor, one for each segment."""
    whole = [(0, extent) for extent in tensor.shape]
    if tensor.dim is None or count == 1:
        return [whole]
    size = tensor.shape[tensor.dim] // tensor.segments
    found = []
    for segment in range(tensor.segments):
        box = list(whole)
        box[tensor.dim] = (segment * size + size * index // count, segment * size + size * (index + 1) // count)
        found.append(box)
    return found


def rows_of(boxes: list[Box], index: int, count: int) -> list[Box]:
    """Boxes of one of `count` chunks of a rank's rows, the chunks of rounded-up size."""
    total = sum(box[0][1] - box[0][0] for box in boxes)
    chunk = -(-total // count)
    begin, end, at, found = index * chunk, min((index + 1) * chunk, total), 0, []
    for box in boxes:
        low, high = box[0]
        first, last = max(begin, at), min(end, at + high - low)
        if first < last:
            found.append([(low + first - at, low + last - at), *box[1:]])
        at += high - low
    return found


def entry(ranks: list[int], place: Place, states: list[str], boxes: list[Box]) -> Document:
    """A buffer of each state; its boxes lie one behind the other."""
    shape = [high - low for low, high in boxes[0]] if boxes else [0, *place.tensor.shape[1:]]
    if len(boxes) > 1:
        shape[0] = sum(box[0][1] - box[0][0] for box in boxes)
    row, texts, at = shape[1] if len(shape) > 1 else 1, [], 0
    for box in boxes:
        texts.append(", ".join(f"{low}:{high}" for low, high in box) + (f" @ {at}" if at else ""))
        at += (box[0][1] - box[0][0]) * row
    named = {"ranks": ranks[0] if len(ranks) == 1 else ",".join(map(str, ranks)), "tensor": place.name}
    return named | {"states": states, "shape": shape} | ({"boxes": texts} if texts else {})


def holders(case: Case, grid: Grid, place: Place) -> Iterator[tuple[list[list[int]], list[Box]]]:
    """Of each part of a tensor: the ranks that have it, one list for each data-parallel index, and its boxes."""
    base, per_stage = place.stage * grid.tp * grid.dp, grid.tp * grid.dp
    if place.tensor.expert:
        of_rank = case.model.experts // grid.ep
        ranks = [base + d * grid.ep + place.expert // of_rank for d in range(grid.expert_dp)]
        yield [[rank] for rank in ranks], part(place.tensor, 0, 1)
    elif place.tensor.dim is None:
        yield [[base + d * grid.tp + t for t in range(grid.tp)] for d in range(grid.dp)], part(place.tensor, 0, 1)
    else:
        for t in range(grid.tp):
            yield [[r] for r in range(base + t, base + per_stage, grid.tp)], part(place.tensor, t, grid.tp)


def entries(case: Case, grid: Grid, gone: set[int]) -> Iterator[Document]:
    """Every buffer of every rank that is left; ranks keep their numbers here."""
    for place in places(case.model, grid):
        for by_index, boxes in holders(case, grid, place):
            everyone = sorted(rank for ranks in by_index for rank in ranks if rank not in gone)
            states = ["param"] if case.zero else ["param", *OPTIMIZER]
            yield entry(everyone, place, states, boxes)
            if case.zero:
                for index, ranks in enumerate(by_index):
                    yield entry(ranks, place, OPTIMIZER, rows_of(boxes, index, len(by_index)))


def box_by_box(name: str, case: Case, grid: Grid, gone: set[int]) -> Document:
    """A layout as a list of holdings; ranks behind those that are gone move up."""
    left = [rank for rank in range(grid.ranks) if rank not in gone]
    number = {rank: index for index, rank in enumerate(left)}
    listed = list(entries(case, grid, gone))
    if gone:
        for item in listed:
            ranks = [number[int(rank)] for rank in str(item["ranks"]).split(",")]
            item["ranks"] = ranks[0] if len(ranks) == 1 else ",".join(map(str, ranks))
    document = head(name) | {"ranks": len(left), "holdings": listed}
    return document | ({"devices": left} if gone else {})


# ---- documents --------------------------------------------------------------------------


def side(name: str, case: Case, grid: Grid, old: bool) -> Document:
    """One side of a case."""
    gone = set(range(case.lost_node * NODE, (case.lost_node + 1) * NODE)) if case.lost_node is not None else set()
    if old and gone or case.form == "boxes" and not gone:
        return box_by_box(name, case, grid, gone)
    document = by_rule(name, case, grid)
    if gone:
        left = [device for device in range(case.devices) if device not in gone]
        document["devices"] = left[: grid.ranks]
    return document


def write(case: Case, folder: Path) -> tuple[Path, Path]:
    """Write all documents of a case; returns its layouts. JSON is YAML."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "cluster.yaml").write_text(CLUSTER)
    (folder / "model.yaml").write_text(json.dumps(case.model.document(), indent=1) + "\n")
    paths = (folder / "old.yaml", folder / "new.yaml")
    for path, grid, old in ((paths[0], case.old, True), (paths[1], case.new, False)):
        document = side(f"{case.name}-{path.stem}", case, grid, old)
        indent = None if "holdings" in document else 1
        path.write_text(json.dumps(document, indent=indent, separators=(", ", ": ")) + "\n")
    return paths


def main() -> int:
    """Command line: write the documents of some cases."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cases", nargs="*", metavar="CASE", help="names; all by default")
    parser.add_argument("-o", "--output", type=Path, required=True, metavar="DIR", help="a folder for each case")
    args = parser.parse_args()
    known = {case.name: case for case in CASES}
    if unknown := set(args.cases) - set(known):
        parser.error(f"no such case: {', '.join(sorted(unknown))}")
    for name in args.cases or known:
        write(known[name], args.output / name)
        print(args.output / name)
    return 0


if __name__ == "__main__":
    sys.exit(main())
