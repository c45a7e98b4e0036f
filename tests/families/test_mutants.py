# SPDX-License-Identifier: Apache-2.0
"""Damaged holdings documents: each must be refused, with tensor, box and ranks in the message."""

from __future__ import annotations

import copy
import json
import random
import re
import tempfile
from collections.abc import Callable
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
Needles = list[str]


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

    def rank_names(self, entry: Document) -> str:
        """Pattern of a message that names one of an entry's ranks."""
        ranks = "|".join(str(rank) for rank in sorted(rules.ranks_of(entry["ranks"])))
        return rf"ranks? (\d+[-, and]*)*\b({ranks})\b"

    def ranges(self, entry: Document, number: int = 0) -> list[tuple[int, int]]:
        """Ranges of a box."""
        return rules.parse_box(entry["boxes"][number])[0]

    def put(self, entry: Document, ranges: list[tuple[int, int]]) -> None:
        """Make one dense box the whole of an entry's buffer."""
        entry["boxes"] = [", ".join(f"{low}:{high}" for low, high in ranges)]
        entry["shape"] = [high - low for low, high in ranges]

    def overlap(self) -> Needles:
        """A box grows into what another rank holds."""

        def grows(entry: Document) -> bool:
            box, shape = self.ranges(entry), self.shapes[entry["tensor"]]
            return len(entry["boxes"]) == 1 and any(high < extent for (_, high), extent in zip(box, shape))

        entry = self.pick(grows)
        box, shape = self.ranges(entry), self.shapes[entry["tensor"]]
        d = self.draw.choice([d for d, extent in enumerate(shape) if box[d][1] < extent])
        box[d] = (box[d][0], box[d][1] + 1)
        self.put(entry, box)
        return [re.escape(entry["tensor"]), self.rank_names(entry), r"\[\d+,\d+\)"]

    def gap(self) -> Needles:
        """A box loses its first or last index."""
        entry = self.pick(lambda e: len(e["boxes"]) == 1 and any(high - low > 1 for low, high in self.ranges(e)))
        box = self.ranges(entry)
        d = self.draw.choice([d for d, (low, high) in enumerate(box) if high - low > 1])
        low, high = box[d]
        missing = (low, low + 1) if self.draw.random() < 0.5 else (high - 1, high)
        box[d] = (missing[1], high) if missing[0] == low else (low, missing[0])
        self.put(entry, box)
        return [re.escape(entry["tensor"]), rf"\[{missing[0]},{missing[1]}\)"]

    def undeclared(self) -> Needles:
        """Replicas in two entries that do not say so."""
        entry = self.pick(lambda e: len(rules.ranks_of(e["ranks"])) > 1)
        ranks = sorted(rules.ranks_of(entry["ranks"]))
        other = copy.deepcopy(entry)
        entry["ranks"], other["ranks"] = ranks[:-1], ranks[-1:]
        self.entries.append(other)
        return [re.escape(entry["tensor"]), self.rank_names(entry), self.rank_names(other), r"\[\d+,\d+\)"]

    def offset(self) -> Needles:
        """A box that ends behind its buffer."""
        entry = self.pick(lambda e: True)
        ranges, offset, strides = rules.parse_box(entry["boxes"][-1])
        moved = offset + self.draw.randint(1, prod(entry["shape"]))
        tail = f" / {','.join(map(str, strides))}" if strides else ""
        entry["boxes"][-1] = ", ".join(f"{low}:{high}" for low, high in ranges) + f" @ {moved}{tail}"
        return [re.escape(entry["tensor"]), self.rank_names(entry), self.box_pattern(ranges)]

    def box_pattern(self, ranges: list[tuple[int, int]]) -> str:
        """Pattern of a box in either way of writing it."""
        return "|".join((r"x".join(rf"\[{a},{b}\)" for a, b in ranges), ", ?".join(f"{a}:{b}" for a, b in ranges)))

    def rank(self) -> Needles:
        """A rank behind the last one."""
        entry = self.pick(lambda e: True)
        beyond = self.document["ranks"] + self.draw.randint(0, 5)
        entry["ranks"] = sorted(rules.ranks_of(entry["ranks"]))[:-1] + [beyond]
        return [rf"\brank {beyond}\b", rf"holdings\[{self.entries.index(entry)}\]\.ranks"]

    def outside(self) -> Needles:
        """A box that leaves its tensor."""
        entry = self.pick(lambda e: len(e["boxes"]) == 1)
        box, shape = self.ranges(entry), self.shapes[entry["tensor"]]
        d = self.draw.randrange(len(box))
        box[d] = (box[d][0], shape[d] + self.draw.randint(1, 3))
        self.put(entry, box)
        return [re.escape(entry["tensor"]), self.rank_names(entry), self.box_pattern(box)]

    def state(self) -> Needles:
        """A state that the layout does not keep, or that weights do not have."""
        entry = self.pick(lambda e: True)
        at = self.draw.randrange(len(entry["states"]))
        wrong = entry["states"][at] = self.draw.choice(["momentum", "exp_avg_sq", "grad", "buffer", "scalar"])
        place = rf"holdings\[{self.entries.index(entry)}\]"
        if wrong in ("buffer", "scalar"):  # known to every layout, but not kept for weights
            return [place, re.escape(entry["tensor"]), self.rank_names(entry)]
        return [place, wrong]

    def slot(self) -> Needles:
        """Two boxes at one place of a buffer."""
        entry = self.pick(lambda e: len(e["boxes"]) > 1)
        first, second = rules.parse_box(entry["boxes"][0]), rules.parse_box(entry["boxes"][1])
        entry["boxes"][1] = entry["boxes"][1].replace(f"@ {second[1]}", f"@ {first[1]}")
        return [re.escape(entry["tensor"]), self.rank_names(entry)]

    def twice(self) -> Needles:
        """A second buffer of a rank for a tensor and state."""
        entry = self.pick(lambda e: len(e["boxes"]) > 1)
        other = copy.deepcopy(entry) | {"boxes": [entry["boxes"].pop()]}
        self.entries.append(other)
        return [re.escape(entry["tensor"]), self.rank_names(entry)]

    KINDS = (overlap, gap, undeclared, offset, rank, outside, state, slot, twice)


def check_mutant(folder: Path, seed: int, model: Document, document: Document, target: Path) -> str | None:
    """One mutant; returns what is wrong with how it was taken."""
    mutator = Mutator(seed, model, document)
    kind = Mutator.KINDS[seed % len(Mutator.KINDS)]
    needles = kind(mutator)
    path = cells.write(folder / "mutant.yaml", mutator.document)
    outcome = programs.run("shunt", "plan", path, target, "-o", folder / "no.plan")
    if outcome.code != 1:
        return f"{kind.__name__} {seed}: exit {outcome.code}\n{outcome.err[-600:]}\n{needles}"
    missing = [needle for needle in needles if not re.search(needle, outcome.err)]
    return f"{kind.__name__} {seed}: the message lacks {missing}: {outcome.err[-600:]}" if missing else None


def check_base(name: str, seeds: range) -> list[str | None]:
    """Mutants of one model's layout, which without damage is taken."""
    model = toys.MODELS[name]()
    with tempfile.TemporaryDirectory(prefix="shunt-families-") as room:
        folder = Path(room)
        cells.write_model(folder, model)
        document = explicit_document(folder, BASES[name])
        target = cells.write(folder / "target.yaml", layout({}))
        programs.plan(cells.write(folder / "whole.yaml", document), target, folder / "good.plan")
        return [check_mutant(folder, seed, model, document, target) for seed in seeds]


def mutants(kind: int) -> str:
    """The mutants of one kind, spread over the bases."""
    seeds = range(kind, COUNT, len(Mutator.KINDS))
    found: list[str | None] = []
    for number, name in enumerate(BASES):
        step = len(Mutator.KINDS) * len(BASES)
        found += check_base(name, range(kind + number * len(Mutator.KINDS), COUNT, step))
    bad = [text for text in found if text]
    if bad:
        raise OracleError("\n".join(bad[:4]) + f"\n{len(bad)} of {len(seeds)} mutants")
    return f"{len(found)} refused"


def groups() -> list[Group]:
    """COUNT mutants in all."""
    names = [(kind.__doc__ or "").rstrip(".").lower() for kind in Mutator.KINDS]
    return [Group(f"damaged holdings: {name}", mutants, (number,)) for number, name in enumerate(names)]
