# SPDX-License-Identifier: Apache-2.0
"""A checkpoint against a model document: every tensor there, in the shape that the document says."""

from __future__ import annotations

import os
from dataclasses import dataclass, field

from . import generic, hf_names, model, safetensors
from .errors import Refused, problem
from .hf_names import Match
from .model import Model, Tensor
from .safetensors import Entry

FUSED = {"attn.qkv": ("q", "k", "v"), "gate_up": ("gate", "up")}


@dataclass
class Report:
    """What a check found."""

    path: str
    document: Model
    tensors: dict[str, Tensor]
    problems: list[str] = field(default_factory=list)
    found: dict[str, set[str]] = field(default_factory=dict)  # parts of each tensor
    skipped: int = 0
    prediction: int = 0
    unclear: int = 0

    def refuse(self, where: str, found: object, expected: str) -> None:
        self.problems.append(problem(self.path, where, found, expected))


def fused_parts(name: str) -> tuple[str, ...]:
    """Parts that a checkpoint keeps apart in a tensor of this name; () if none."""
    return next((parts for mark, parts in FUSED.items() if f"{mark}." in name), ())


def part_rows(report: Report, name: str, tensor: Tensor, part: str) -> int | None:
    """Rows of one part of a fused tensor; None where the document cannot tell."""
    if part in ("gate", "up"):
        return tensor.segments[("gate", "up").index(part)] if len(tensor.segments) == 2 else None
    rows, out = tensor.shape[0], report.tensors.get(name[: name.index("attn.qkv")] + "attn.o.weight")
    if out is None or (rows - out.shape[1]) % 2 != 0 or out.shape[1] >= rows:
        return None
    return out.shape[1] if part == "q" else (rows - out.shape[1]) // 2


def expected_shapes(report: Report, name: str, tensor: Tensor, match: Match) -> list[tuple[int, ...]] | None:
    """Shapes that an entry may have; None where the document cannot tell."""
    shape, experts = tensor.shape, report.document.experts or 0
    if match.part and match.part in fused_parts(name):
        rows = part_rows(report, name, tensor, match.part)
        return [(rows, *shape[1:])] if rows is not None else None
    if match.form == "transposed":
        return [shape[::-1]]
    if match.form == "stacked":
        return [(experts, *shape), (experts, *shape[::-1])] if len(shape) > 1 else [(experts, *shape)]
    if match.form in ("blocks", "scales"):  # 32 values of 4 bits, and a scale for them
        blocks = (experts, shape[0], shape[1] // 32)
        return [(*blocks, 16)] if match.form == "blocks" else [blocks]
    return [shape]


def resolve(report: Report, match: Match) -> list[str]:
    """Names of the document that an entry stands for; a stacked one stands for every expert."""
    for name in match.names:
        if "*" in name:
            names = [name.replace("*", str(expert)) for expert in range(report.document.experts or 0)]
            if names and names[0] in report.tensors:
                return names
        elif name in report.tensors:
            return [name]
    return []


def check_entry(report: Report, entry: Entry) -> None:
    """One entry: known, wanted, once, and of the right shape."""
    if hf_names.SKIPPED.match(entry.name):
        report.skipped += 1
        return
    match = hf_names.translate(entry.name, report.document.layers)
    names = resolve(report, match) if match is not None else []
    if not names:
        if match is not None and any(name.startswith("mtp.") for name in match.names) and not has_block(report):
            report.prediction += 1
        else:
            expected = "no such tensor" if match is None else f"no such tensor: the model has no `{match.names[0]}`"
            report.refuse(entry.name, "a tensor", expected)
        return
    copy = match.copy or (entry.name.endswith("lm_head.weight") and names == ["embed.weight"])
    check_shape(report, entry, names[0], match)
    if not copy and match.form != "scales":
        mark(report, entry, names, match)


def has_block(report: Report) -> bool:
    """Whether the document has a prediction block."""
    return any(tensor.stage == "mtp" for tensor in report.document.tensors)


def check_shape(report: Report, entry: Entry, name: str, match: Match) -> None:
    shapes = expected_shapes(report, name, report.tensors[name], match)
    if shapes is None:
        report.unclear += 1
    elif entry.shape not in shapes:
        wanted = " or ".join(text(shape) for shape in dict.fromkeys(shapes))
        report.refuse(entry.name, text(entry.shape), f"{wanted}, as `{name}` of the model asks for")


def text(shape: tuple[int, ...]) -> str:
    return "[" + ", ".join(str(extent) for extent in shape) + "]"


def mark(report: Report, entry: Entry, names: list[str], match: Match) -> None:
    """Note the part that was found, once."""
    for name in names:
        parts = report.found.setdefault(name, set())
        part = match.part if match.part in fused_parts(name) else ""
        if part in parts or (parts and ("" in parts or part == "")):
            report.refuse(entry.name, f"`{name}` a second time", "each tensor once")
            return
        parts.add(part)


def check_missing(report: Report) -> None:
    """Tensors of the document that the checkpoint does not have, or not all of."""
    for name in report.tensors:
        parts, whole = report.found.get(name, set()), fused_parts(name)
        if not parts:
            report.refuse(name, "no such tensor in the checkpoint", "it, as the model has it")
        elif "" not in parts and parts != set(whole):
            report.refuse(name, f"only {', '.join(sorted(parts))}", f"{', '.join(whole)}, as the model has it")


def check(path: str, entries: list[Entry], document: Model) -> tuple[str, list[str]]:
    """One line that says what agreed, and notes; Refused if anything did not."""
    report = Report(path, document, {name: tensor for name, tensor, _, _ in document.expanded()})
    for entry in entries:
        check_entry(report, entry)
    check_missing(report)
    if report.problems:
        raise Refused(report.problems)
    notes = []
    if report.skipped:
        notes.append(f"{path}: skipped {report.skipped} entries that are no state: rotary tables, masks, scales")
    if report.prediction:
        notes.append(f"{path}: skipped {report.prediction} entries of a prediction block, which is not in the model")
    if report.unclear:
        notes.append(f"{path}: {report.unclear} entries are parts whose rows the model does not tell")
    files = len({entry.file for entry in entries})
    counts = f"{len(report.tensors)} tensors of the model agree with {len(entries)} entries"
    return f"{document.name}: {counts} in {files} file{'s' if files != 1 else ''}\n", notes


def run(source: str, reference: str | None, name: str | None) -> tuple[str, list[str]]:
    """The sub-command: text for stdout, notes."""
    entries = safetensors.read(source)
    if reference is not None:
        return check(source, entries, model.load(model.find(reference)))
    folder = os.path.basename(os.path.dirname(os.path.abspath(source)))
    return generic.document(source, entries, name or folder or "model")
