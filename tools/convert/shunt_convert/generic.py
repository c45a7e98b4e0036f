# SPDX-License-Identifier: Apache-2.0
"""A model document from a checkpoint alone: names and shapes are known, cuts are not."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from dataclasses import dataclass

from .errors import Refused, problem
from .model import Model, Tensor, render
from .safetensors import DTYPES, Entry

LAYER = re.compile(r"(?<=\.)(?:layers|h|blocks|layer)\.(\d{1,5})(?=\.)|^(?:layers|h|blocks|layer)\.(\d{1,5})(?=\.)")
EXPERT = re.compile(r"(?<=\.experts\.)(\d{1,5})(?=\.)")
FINAL = re.compile(r"(^|\.)(norm|ln_f|norm_f|final_norm|final_layernorm)\.(weight|bias)\Z")
FIRST = re.compile(r"(^|\.)(embed_tokens|wte|wpe|embeddings?|embed|tok_embeddings|pos_embed)\.weight\Z")
LAST = re.compile(r"(^|\.)(lm_head|output|output_layer)\.(weight|bias)\Z")
MOST_DIMS = 6
MOST_NAME = 255


@dataclass(frozen=True)
class Place:
    """Where one entry stands in its family."""

    pattern: str
    layer: int | None
    expert: int | None


def place(name: str, experts: bool) -> Place:
    """The family of a name, with experts numbered or not."""
    layer = expert = None
    found = LAYER.search(name)
    if found is not None:
        digits = found.group(1) or found.group(2)
        layer = int(digits)
        name = name[: found.end() - len(digits)] + "{i}" + name[found.end():]
    if experts and (inner := EXPERT.search(name)) is not None:
        expert = int(inner.group(1))
        name = name[: inner.start()] + "{e}" + name[inner.end():]
    return Place(name, layer, expert)


def expert_count(entries: list[Entry]) -> int | None:
    """Experts, if every layer that numbers any numbers the same ones from 0; else None."""
    numbers: dict[str, set[int]] = defaultdict(set)
    for entry in entries:
        inner = EXPERT.search(entry.name)
        if inner is not None:
            numbers[entry.name[: inner.start()] + entry.name[inner.end():]].add(int(inner.group(1)))
    counts = {len(found) for found in numbers.values() if found == set(range(len(found)))}
    whole = all(found == set(range(len(found))) for found in numbers.values())
    return counts.pop() if len(counts) == 1 and whole else None


Members = list[tuple[Entry, Place]]


def families(entries: list[Entry], experts: int) -> list[Members]:
    """Entries by pattern, in order; where layers differ, those that agree in shape and type are one family."""
    groups: dict[tuple[str, tuple[int, ...], str], Members] = defaultdict(list)
    for entry in entries:
        where = place(entry.name, experts > 0)
        groups[(where.pattern, entry.shape, entry.dtype)].append((entry, where))
    out: list[Members] = []
    for (pattern, _, _), members in groups.items():
        layers = {where.layer for _, where in members}
        if "{e}" not in pattern or ("{i}" in pattern and len(members) == len(layers) * experts):
            out.append(members)
        else:
            out += [[(entry, place(entry.name, False))] for entry, _ in members]
    return out


def stage_of(pattern: str) -> str:
    if "{i}" in pattern:
        return "layer"
    known = ((FIRST, "first"), (FINAL, "final"), (LAST, "last"))
    return next((stage for names, stage in known if names.search(pattern)), "all")


def tensor(members: Members, usual: str) -> Tensor:
    """One family."""
    entry, pattern = members[0][0], members[0][1].pattern
    dtype = DTYPES[entry.dtype][1]
    buffer = not entry.dtype.startswith(("BF", "F"))
    layers = tuple(sorted({where.layer for _, where in members if where.layer is not None}))
    return Tensor(
        name=pattern,
        shape=entry.shape,
        stage=stage_of(pattern),
        layers=layers if "{i}" in pattern else None,
        kind="buffer" if buffer else "weight",
        dtype=dtype if entry.dtype != usual else None,
    )


def check(path: str, entries: list[Entry]) -> None:
    """What a document cannot hold."""
    problems = []
    for entry in entries:
        if DTYPES[entry.dtype][1] is None:
            problems.append(problem(path, entry.name, entry.dtype, "an element type that Shunt has"))
        if len(entry.shape) > MOST_DIMS or 0 in entry.shape:
            expected = f"1 to {MOST_DIMS} dimensions without 0"
            problems.append(problem(path, entry.name, list(entry.shape), expected))
        if len(entry.name.encode()) > MOST_NAME or re.search(r"[/{}\x00-\x1f]|\.\.", entry.name):
            problems.append(problem(path, entry.name, "its name", "a name without `/`, `..` and braces"))
    if not entries:
        problems.append(problem(path, "header", "no tensors", "some"))
    if problems:
        raise Refused(problems)


def document(path: str, entries: list[Entry], name: str) -> tuple[str, list[str]]:
    """The document, and notes."""
    check(path, entries)
    whole = [entry for entry in entries if entry.shape]
    counts = Counter(entry.dtype for entry in whole if entry.dtype.startswith(("BF", "F")))
    usual = counts.most_common(1)[0][0] if counts else ""
    experts = expert_count(whole)
    tensors = tuple(tensor(members, usual) for members in families(whole, experts or 0))
    numbers = [layer for t in tensors for layer in t.layers or ()]
    remarks = (f"{name}: {len(entries)} entries, most of them {usual or 'no floats'}.",
               "Made from a checkpoint, which does not say how tensors are cut: until a `cut` is added, each is whole "
               "on every rank of its stage.")  # fmt: skip
    model = Model(
        name=name,
        layers=max(numbers, default=0) + 1,
        tensors=tensors,
        experts=experts if any("{e}" in t.name for t in tensors) else None,
        scalars=tuple((entry.name, str(DTYPES[entry.dtype][1]), 1) for entry in entries if not entry.shape),
        remarks=remarks,
    )
    return render(model), [f"{path}: no tensor is cut; add `cut` where tp splits one"]
