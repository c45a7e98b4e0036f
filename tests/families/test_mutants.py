# SPDX-License-Identifier: Apache-2.0
"""Damaged holdings documents: each must be refused, with tensor, box and ranks in the message."""

from __future__ import annotations

import copy
import json
import random
import re
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from math import prod
from pathlib import Path

import cells
import programs
import rules
import toys
from cells import OracleError
from families import STATE, layout
from rules import Document
from tap import Group

BASES = {
    "dense": layout({"tp": 2, "dp": 2}),
    "moe": layout({"tp": 2, "dp": 2, "ep": 2, "pp": 2}, shard={"rule": "megatron"}),
    "hybrid": layout({"tp": 2, "dp": 2}, shard={"rule": "fsdp2"}),
}
COUNT = 100
Ranges = list[tuple[int, int]]
Kind = Callable[..., "Wanted | list[str]"]
BOX = re.compile(r"\[\d+,\d+\)(?:x\[\d+,\d+\))*")


@dataclass
class Wanted:
    """What a message must name: the tensor, a box inside one of these, and a rank of each of these sets."""

    tensor: str
    boxes: list[Ranges]
    ranks: list[set[int]]

    def missing(self, said: str) -> list[str]:
        """What it does not name."""
        boxes = [[(int(a), int(b)) for a, b in re.findall(r"\[(\d+),(\d+)\)", text)] for text in BOX.findall(said)]
        ranks = {int(n) for text in re.findall(r"\branks? ((?:\d+, )*\d+)", said) for n in text.split(", ")}
        found = {
            "tensor": re.search(rf"(?<![\w.]){re.escape(self.tensor)}(?![\w.])", said) is not None,
            "box": any(inside(box, outer) for box in boxes for outer in self.boxes),
            "ranks": all(ranks & some for some in self.ranks),
        }
        return [what for what, good in found.items() if not good]


def inside(box: Ranges, outer: Ranges) -> bool:
    """Is a box, which is not empty, part of another?"""
    pairs = list(zip(box, outer))
    return len(box) == len(outer) and all(a <= low < high <= b for (low, high), (a, b) in pairs)


def read_entry(line: str) -> Document:
    """One printed entry of holdings."""
    text = re.sub(r"\bstates: \[([^\]]*)\]", lambda m: '"states": ' + json.dumps(m[1].split(", ")), line.strip()[2:])
    text = re.sub(r"([{ ])(ranks|tensor|shape|boxes|copy): ", r'\1"\2": ', text)
    return dict(json.loads(text))


def explicit_document(folder: Path, base: Document) -> Document:
    """A layout as the program prints it in holdings form."""
    source = cells.write(folder / "base.yaml", base)
    out = programs.succeed("shunt", "layout", source, "--explicit").out
    entries = [read_entry(line) for line in out.splitlines() if line.startswith("  - {ranks")]
    ranks = re.search(r"^ranks: (\d+)$", out, re.M)
    if not entries or ranks is None:
        raise OracleError(f"no holdings in\n{out[:2000]}")
    head = {"kind": "layout", "name": "boxes", "model": "model.yaml", "cluster": "cluster.yaml"}
    return head | {"ranks": int(ranks[1]), "holdings": entries, "state": STATE}


class Mutator:
    """Makes one damage at a time from a seed."""

    def __init__(self, seed: int, model: Document, document: Document) -> None:
        self.draw = random.Random(seed)
        self.document = copy.deepcopy(document)
        self.entries: list[Document] = self.document["holdings"]
        self.shapes = {i.name: i.tensor["shape"] for i in rules.all_instances(model)}
        self.made = ""

    def pick(self, good: Callable[[Document], bool]) -> Document:
        """Any entry of a weight that holds something and meets a condition."""
        whole = [e for e in self.entries if e["boxes"] and not e.get("copy")]
        weights = [e for e in whole if e["states"] != ["buffer"] and e["tensor"] in self.shapes]
        return self.draw.choice([e for e in weights if good(e)])

    def ranks(self, entry: Document) -> set[int]:
        """Ranks of an entry."""
        return set(rules.ranks_of(entry["ranks"]))

    def others(self, entry: Document) -> set[int]:
        """All other ranks."""
        return set(range(self.document["ranks"])) - self.ranks(entry)

    def ranges(self, entry: Document, number: int = 0) -> Ranges:
        """Ranges of a box."""
        return rules.parse_box(entry["boxes"][number])[0]

    def put(self, entry: Document, ranges: Ranges) -> None:
        """Make one dense box the whole of an entry's buffer."""
        entry["boxes"] = [", ".join(f"{low}:{high}" for low, high in ranges)]
        entry["shape"] = [high - low for low, high in ranges]

    def overlap(self) -> Wanted:
        """A box grows into what another rank holds."""

        def grows(entry: Document) -> bool:
            box, shape = self.ranges(entry), self.shapes[entry["tensor"]]
            return len(entry["boxes"]) == 1 and any(high < extent for (_, high), extent in zip(box, shape))

        entry = self.pick(grows)
        box, shape = self.ranges(entry), self.shapes[entry["tensor"]]
        d = self.draw.choice([d for d, extent in enumerate(shape) if box[d][1] < extent])
        slab = [*box[:d], (box[d][1], box[d][1] + 1), *box[d + 1 :]]
        box[d] = (box[d][0], box[d][1] + 1)
        self.put(entry, box)
        return Wanted(entry["tensor"], [slab], [self.ranks(entry), self.others(entry)])

    def gap(self) -> Wanted:
        """A box loses its first or last index."""
        entry = self.pick(lambda e: len(e["boxes"]) == 1 and any(high - low > 1 for low, high in self.ranges(e)))
        box = self.ranges(entry)
        d = self.draw.choice([d for d, (low, high) in enumerate(box) if high - low > 1])
        low, high = box[d]
        missing = (low, low + 1) if self.draw.random() < 0.5 else (high - 1, high)
        slab = [*box[:d], missing, *box[d + 1 :]]
        box[d] = (missing[1], high) if missing[0] == low else (low, missing[0])
        self.put(entry, box)
        return Wanted(entry["tensor"], [slab], [self.ranks(entry)])

    def undeclared(self) -> Wanted:
        """Replicas in two entries that do not say so."""
        entry = self.pick(lambda e: len(rules.ranks_of(e["ranks"])) > 1)
        ranks = sorted(rules.ranks_of(entry["ranks"]))
        other = copy.deepcopy(entry)
        entry["ranks"], other["ranks"] = ranks[:-1], ranks[-1:]
        self.entries.append(other)
        boxes = [self.ranges(entry, number) for number in range(len(entry["boxes"]))]
        return Wanted(entry["tensor"], boxes, [self.ranks(entry), self.ranks(other)])

    def offset(self) -> Wanted:
        """A box that ends behind its buffer."""
        entry = self.pick(lambda e: True)
        ranges, offset, strides = rules.parse_box(entry["boxes"][-1])
        moved = offset + self.draw.randint(1, prod(entry["shape"]))
        tail = f" / {','.join(map(str, strides))}" if strides else ""
        entry["boxes"][-1] = ", ".join(f"{low}:{high}" for low, high in ranges) + f" @ {moved}{tail}"
        return Wanted(entry["tensor"], [ranges], [self.ranks(entry)])

    def outside(self) -> Wanted:
        """A box that leaves its tensor."""
        entry = self.pick(lambda e: len(e["boxes"]) == 1)
        box, shape = self.ranges(entry), self.shapes[entry["tensor"]]
        d = self.draw.randrange(len(box))
        box[d] = (box[d][0], shape[d] + self.draw.randint(1, 3))
        self.put(entry, box)
        return Wanted(entry["tensor"], [box], [self.ranks(entry)])

    def slot(self) -> Wanted:
        """Two boxes at one place of a buffer."""
        entry = self.pick(lambda e: len(e["boxes"]) > 1)
        first, second = rules.parse_box(entry["boxes"][0]), rules.parse_box(entry["boxes"][1])
        entry["boxes"][1] = entry["boxes"][1].replace(f"@ {second[1]}", f"@ {first[1]}")
        return Wanted(entry["tensor"], [first[0], second[0]], [self.ranks(entry)])

    def twice(self) -> Wanted:
        """A second buffer of a rank for a tensor and state."""
        entry = self.pick(lambda e: len(e["boxes"]) > 1)
        other = copy.deepcopy(entry) | {"boxes": [entry["boxes"].pop()]}
        self.entries.append(other)
        return Wanted(entry["tensor"], [self.ranges(other)], [self.ranks(entry)])

    KINDS = (overlap, gap, undeclared, offset, outside, slot, twice)

    def rank(self) -> list[str]:
        """A rank behind the last one."""
        entry = self.pick(lambda e: True)
        beyond = self.document["ranks"] + self.draw.randint(0, 5)
        entry["ranks"] = sorted(rules.ranks_of(entry["ranks"]))[:-1] + [beyond]
        return [rf"\brank {beyond}\b", rf"holdings\[{self.entries.index(entry)}\]\.ranks"]

    def state(self) -> list[str]:
        """A state that the layout does not keep, or that weights do not have."""
        entry = self.pick(lambda e: True)
        at = self.draw.randrange(len(entry["states"]))
        wrong = entry["states"][at] = self.draw.choice(["momentum", "exp_avg_sq", "grad", "buffer", "scalar"])
        place = rf"holdings\[{self.entries.index(entry)}\]"
        if wrong in ("buffer", "scalar"):  # known to every layout, but not kept for weights
            ranks = "|".join(map(str, sorted(self.ranks(entry))))
            return [place, rf"found {wrong} of {re.escape(entry['tensor'])} on rank ({ranks})\b"]
        return [place, wrong]

    OTHER_KINDS = (rank, state)  # faults of an entry, not of what it holds: named by place


def check_mutant(folder: Path, mutator: Mutator, kind: Kind, target: Path) -> str | None:
    """One mutant; returns what is wrong with how it was taken."""
    wanted = kind(mutator)
    path = cells.write(folder / "mutant.yaml", mutator.document)
    outcome = programs.run("shunt", "plan", path, target, "-o", folder / "no.plan")
    if outcome.code != 1:
        return f"{kind.__name__}: exit {outcome.code}\n{outcome.err[-600:]}\n{wanted}"
    if isinstance(wanted, Wanted):
        missing = wanted.missing(outcome.err)
    else:
        missing = [needle for needle in wanted if not re.search(needle, outcome.err)]
    return f"{kind.__name__}: {wanted}: the message lacks {missing}: {outcome.err[-600:]}" if missing else None


def check_base(name: str, kind: Kind, seeds: list[int]) -> list[str | None]:
    """Mutants of one model's layout, which without damage is taken."""
    model = toys.MODELS[name]()
    with tempfile.TemporaryDirectory(prefix="shunt-families-") as room:
        folder = Path(room)
        cells.write_model(folder, model)
        document = explicit_document(folder, BASES[name])
        target = cells.write(folder / "target.yaml", layout({}))
        programs.plan(cells.write(folder / "whole.yaml", document), target, folder / "good.plan")
        return [check_mutant(folder, Mutator(seed, model, document), kind, target) for seed in seeds]


def mutants(kind: Kind, first: int, step: int) -> str:
    """Mutants of one kind: seeds from `first` on, spread over the bases."""
    seeds = range(first, COUNT, step)
    found: list[str | None] = []
    for number, name in enumerate(BASES):
        found += check_base(name, kind, list(seeds)[number :: len(BASES)])
    bad = [text for text in found if text]
    if bad:
        raise OracleError("\n".join(bad[:4]) + f"\n{len(bad)} of {len(seeds)} mutants")
    return f"{len(found)} refused"


def groups() -> list[Group]:
    """COUNT mutants of what layouts hold, each refused with tensor, box and ranks; and some others."""
    result = []
    for kinds, remark in ((Mutator.KINDS, "tensor, box and ranks named"), (Mutator.OTHER_KINDS, "entry named")):
        for number, kind in enumerate(kinds):
            what = (kind.__doc__ or "").rstrip(".").lower()
            step = len(kinds) if kinds is Mutator.KINDS else 10
            result.append(Group(f"damaged holdings: {what}: {remark}", mutants, (kind, number, step)))
    return result
