# SPDX-License-Identifier: Apache-2.0
"""Sections `plan` and `execute`: a few moves, whole process, and a run beside plain memory copies."""

from __future__ import annotations

import json
import os
import statistics
import time
from pathlib import Path

import shell
from section import Options, Row

PAIRS = {
    "gpt2-124m, 8 devices": ("gpt2-tp4-pp2", "gpt2-tp2-pp4"),
    "gpt2-124m, 8 devices, to dp2": ("gpt2-tp2-pp4", "gpt2-tp2-pp2-dp2"),
    "llama-3-70b, 32 devices": ("llama-3-70b-tp8-pp4", "llama-3-70b-tp4-pp8"),
}
EXECUTED = "gpt2-124m, 8 devices"
SMALL = shell.ROOT / "plans" / "golden"
COPY_BYTES = 256 << 20


def documents(title: str) -> tuple[Path, Path]:
    """Layouts of a pair."""
    first, second = PAIRS[title]
    return shell.LAYOUTS / f"{first}.yaml", shell.LAYOUTS / f"{second}.yaml"


def plan_row(title: str, options: Options) -> Row:
    """Figures of planning, inspecting and verifying one move."""
    first, second = documents(title)
    plan = options.folder / "moves.plan"
    made = shell.median(options.runs, shell.shunt(), "plan", first, second, "-o", plan)
    proof = shell.median(options.runs, shell.shunt(), "verify", plan, first, second)
    report = shell.inspect(plan)
    return {
        "plan_seconds": made.seconds,
        "plan_peak_bytes": made.peak_bytes,
        "verify_seconds": proof.seconds,
        "verify_peak_bytes": proof.peak_bytes,
        "verify_to_plan_ratio": proof.seconds / made.seconds,
        "file_bytes": plan.stat().st_size,
        "ops": report["schedule"]["ops"],
        "file_bytes_per_op": plan.stat().st_size / max(1, report["schedule"]["ops"]),
        "moved_bytes": report["bytes"]["moved"],
        "gap_rounds": report["time"]["gap_rounds"],
    }


def measure_plan(options: Options) -> Row:
    """All pairs; the smallest one if it must be quick."""
    titles = [title for title in PAIRS if options.wanted(title)]
    return {title: plan_row(title, options) for title in titles[: 1 if options.quick else None]}


def copy_bytes_per_second(runs: int, size: int) -> float:
    """A stream of memory copies in this process: the baseline of the executor."""
    source, target = bytearray(os.urandom(1 << 20) * (size >> 20)), bytearray(size)
    rates = []
    for _ in range(runs + 1):  # the first touches the target's pages
        start = time.perf_counter()
        memoryview(target)[:] = source
        rates.append(size / (time.perf_counter() - start))
    return statistics.median(rates[1:])


def measure_execute(options: Options) -> Row:
    """Effective rate of a move over local processes, against plain memory copies."""
    title = "dense, 8 devices" if options.quick else EXECUTED
    first, second = (SMALL / "dense-tp2-pp2.yaml", SMALL / "dense-tp4-dp2.yaml") if options.quick else documents(title)
    plan = options.folder / "execute.plan"
    shell.timed(shell.shunt(), "plan", first, second, "-o", plan)
    launch = ("--launch", shell.inspect(plan)["devices"], "--transport", "ucx", "--fill", "42", "--check", "--json")
    results = [shell.timed(shell.program("executor", "shunt-exec"), plan, *launch) for _ in range(options.runs)]
    totals = [json.loads(run.out)["totals"] for run in results]
    copy = copy_bytes_per_second(options.runs, COPY_BYTES >> (3 if options.quick else 0))
    rate = statistics.median(total["moved"] / total["seconds"] for total in totals)
    row = {
        "wall_seconds": statistics.median(run.seconds for run in results),
        "moved_bytes_per_second": rate,
        "copy_bytes_per_second": copy,
        "moved_to_copy_ratio": rate / copy,
    }
    return {title: row}


def show(result: Row) -> list[str]:
    """The figures as text."""
    lines = []
    for title, row in result.items():
        lines.append(title)
        for key, value in row.items():
            lines.append(f"  {key:<26} {value:>16,.4g}" if isinstance(value, float) else f"  {key:<26} {value:>16,}")
    return lines
