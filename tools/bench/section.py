# SPDX-License-Identifier: Apache-2.0
"""What the sections share: their options, plans of moves with the laws that each must keep, tables."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import shell

Row = dict[str, Any]
Item = TypeVar("Item")
UNSUPPORTED, INFEASIBLE = "not supported", "infeasible"  # in what the compiler says
FIGURES = ("bytes", "time", "memory", "schedule", "place")


@dataclass(frozen=True)
class Options:
    """What the command line says."""

    folder: Path  # for plans and documents
    runs: int = 5
    quick: bool = False
    steps: tuple[str, ...] = ()  # only rows whose name has one of these
    caps: tuple[str, ...] = ()  # only these caps
    jobs: int = 2
    resume: Path | None = None  # a file of rows that are done

    def wanted(self, name: str) -> bool:
        """Whether a row was asked for."""
        return not self.steps or any(step in name for step in self.steps)

    def wanted_cap(self, name: str) -> bool:
        """Whether a cap was asked for."""
        return not self.caps or name in self.caps


@dataclass(frozen=True)
class Section:
    """One part of the report."""

    measure: Callable[[Options], Row]
    show: Callable[[Row], list[str]]


def plan_move(first: object, second: object, plan: Path, *options: object, verify: bool = True) -> Row:
    """Plan a move and prove it: seconds, memory and the plan's figures. Refused is raised, a bad proof is not."""
    made = shell.timed(shell.shunt(), "plan", first, second, "-o", plan, "--no-verify", *options)
    row: Row = {"plan_seconds": made.seconds, "plan_cpu_seconds": made.cpu_seconds, "plan_peak_bytes": made.peak_bytes}
    report = shell.inspect(plan)
    row |= {name: report[name] for name in FIGURES if name in report} | {"devices": report["devices"]}
    row["file_bytes"] = plan.stat().st_size
    faults = broken_laws(report)
    if verify:
        try:
            proof = shell.timed(shell.shunt(), "verify", plan, first, second)
            row |= {"verify_seconds": proof.seconds, "verify_peak_bytes": proof.peak_bytes}
        except shell.Refused as refusal:
            faults.append(f"verify: {refusal}")
    return row | {"faults": faults}


def broken_laws(report: Row) -> list[str]:
    """Laws of every plan that this one breaks."""
    moved, time, memory = report["bytes"], report["time"], report["memory"]
    found = []
    if moved["moved"] != moved["needed_remote"] + moved["relayed"]:
        found.append(f"moved {moved['moved']} is not needed {moved['needed_remote']} + relayed {moved['relayed']}")
    if memory["peak"] > memory["cap"]:
        found.append(f"peak {memory['peak']} above the cap {memory['cap']}")
    for bound in ("lower_bound", "lower_bound_rounds"):
        if time["predicted"] < time[bound] * (1 - 1e-9):
            found.append(f"predicted {time['predicted']} below {bound} {time[bound]}")
    return found


def refused(refusal: shell.Refused) -> Row:
    """The row of a plan that was refused: for what it asks, not supported, or for a fault of our documents."""
    text = str(refusal)
    if UNSUPPORTED in text:
        return {UNSUPPORTED: text}
    return {"refused": text, "faults": [] if INFEASIBLE in text else [f"refused: {text}"]}


def above(gap: float | None, limit: float) -> bool:
    """Whether a gap is larger; where the bound is 0, nothing crosses a link and there is none."""
    return gap is not None and gap > limit


def in_parallel(items: Sequence[Item], work: Callable[[Item], Row], jobs: int) -> list[Row]:
    """Rows of all items, in their order."""
    with ThreadPoolExecutor(max(1, jobs)) as pool:
        return list(pool.map(work, items))


class Done:
    """Rows that an interrupted run has made already, of the same program: the compiler, or another that is named."""

    def __init__(self, path: Path | None, program: str | None = None) -> None:
        self.path = path
        self.program = program or (shell.digest(shell.shunt()) if path else "")
        self.rows: dict[str, Row] = {}
        if path and path.exists():
            entries = [json.loads(line) for line in path.read_text().splitlines()]
            self.rows = {entry["key"]: entry["row"] for entry in entries if entry["program"] == self.program}

    def get(self, key: str, make: Callable[[], Row]) -> Row:
        """The row, made where it is missing."""
        if key in self.rows:
            return self.rows[key]
        row = make()
        if self.path:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with self.path.open("a") as file:
                file.write(json.dumps({"key": key, "program": self.program, "row": row}) + "\n")
        return row


def text_of(value: object) -> str:
    """A figure in a few characters."""
    if value is None:
        return "-"
    if isinstance(value, float):
        return f"{value:,.4g}" if abs(value) < 1e4 else f"{value:,.0f}"
    return f"{value:,}" if isinstance(value, int) else str(value)


def table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> list[str]:
    """Lines of a table: the first column to the left, the others to the right."""
    cells = [list(head)] + [[text_of(value) for value in row] for row in rows]
    widths = [max(len(line[k]) for line in cells) for k in range(len(head))]
    return [
        "  ".join(c.ljust(w) if k == 0 else c.rjust(w) for k, (c, w) in enumerate(zip(line, widths))).rstrip()
        for line in cells
    ]
