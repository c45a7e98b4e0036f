# SPDX-License-Identifier: Apache-2.0
"""Section `memory`: least caps of 200 random small moves beside their bound, and a rotation of full devices.

In the rotation every stage goes to the next node, so that no device has room before another has made some.
"""

from __future__ import annotations

import dataclasses
import functools
import json
import re
from pathlib import Path

import exact
import shell
from cases import LLAMA_70B, NODE, Case, Grid, write
from section import Options, Row, in_parallel, plan_move, refused, table

COUNT, QUICK_COUNT, FIRST = 200, 4, 10_000  # numbers apart from those of `exact`
OCCUPANCY = 0.98
STAGING = 256 << 20
WANTED_GAP = 0.005
QUICK_LAYERS = 4


def plan(folder: Path, *words: object) -> Row:
    """A plan's figures, or what was said against it."""
    try:
        return plan_move(folder / "old.yaml", folder / "new.yaml", folder / "move.plan", *words)
    except shell.Refused as refusal:
        return refused(refusal)


def measure_move(number: int, options: Options) -> Row:
    """The least cap of a move: it is met, a byte less is refused with a place and that figure."""
    case, _ = exact.random_case(FIRST + number)
    folder = options.folder / f"memory-{number}"
    write(case, folder)
    (folder / "cluster.yaml").write_text(exact.CLUSTER)
    free = plan(folder)
    least, bound = free["memory"]["least_cap"], free["memory"]["peak_lower_bound"]
    met, less = plan(folder, "--cap", f"{least} B"), plan(folder, "--cap", f"{least - 1} B")
    faults = list(free["faults"])
    if "time" not in met:
        faults.append(f"the least cap of {least} B is refused: {met}")
    else:
        faults += met["faults"]
    said = less.get("refused", "")
    if "time" in less:
        faults.append(f"a cap below the least one, {least - 1} B, is met")
    elif not re.search(r"(device|rank) \d+", said) or f"{least} B" not in said:
        faults.append(f"{least - 1} B: no place or no least cap in: {said}")
    return {"least_cap": least, "bound": bound, "gap": least / bound - 1 if bound else 0.0, "faults": faults}


def rotation(options: Options) -> Row:
    """All stages go to the next node under a cap that leaves 2 percent."""
    shell.note("memory: rotation")
    folder = options.folder / "memory-rotation"
    model = dataclasses.replace(LLAMA_70B, layers=QUICK_LAYERS) if options.quick else LLAMA_70B
    grid = Grid(NODE, 4)
    write(Case("rotation", model, grid, grid, 0), folder)
    new = json.loads((folder / "new.yaml").read_text())
    new["devices"] = [(rank + NODE) % grid.ranks for rank in range(grid.ranks)]
    (folder / "new.yaml").write_text(json.dumps(new))
    larger = max(shell.layout_figures(folder / "old.yaml")["rank_bytes"])
    words = ("--cap", f"{int(larger / OCCUPANCY)} B", "--staging", f"{STAGING} B")
    tried = {"plain": plan(folder, *words)}
    if "time" not in tried["plain"] and "--spill" in shell.timed(shell.shunt(), "plan", "--help").out:
        tried["--spill host"] = plan(folder, *words, "--spill", "host")
    return tried


def measure(options: Options) -> Row:
    """Random moves, then the rotation."""
    numbers = range(QUICK_COUNT if options.quick else COUNT)
    rows = in_parallel(numbers, functools.partial(measure_move, options=options), options.jobs)
    turned = rotation(options)
    missed = [f"move {n}: least cap {row['gap']:.4f} above its bound" for n, row in enumerate(rows)
              if row["gap"] > WANTED_GAP]
    if all("time" not in entry for entry in turned.values()):
        missed.append(f"rotation at {OCCUPANCY:.0%}: refused")
    faults = [f"move {n}: {fault}" for n, row in enumerate(rows) for fault in row["faults"]]
    faults += [f"rotation, {name}: {fault}" for name, entry in turned.items() for fault in entry.get("faults", ())]
    return {"rows": rows, "gap": exact.spread([row["gap"] for row in rows]), "rotation": turned, "missed": missed,
            "faults": faults}


def show(result: Row) -> list[str]:
    """The distribution of gaps, and the rotation."""
    keys = ("count", "median", "p90", "p99", "most")
    lines = table(("least cap over its bound", *keys), [["gap", *(result["gap"][key] for key in keys)]])
    for name, entry in result["rotation"].items():
        if "time" not in entry:
            lines.append(f"rotation, {name}: {next(iter(entry.values())).splitlines()[0]}")
        else:
            lines += table(("rotation", "predicted", "bound", "gap_rounds", "rounds", "plan s"), [
                [name, entry["time"]["predicted"], entry["time"]["lower_bound"], entry["time"]["gap_rounds"],
                 entry["schedule"]["rounds"], entry["plan_seconds"]]])
    return [*lines, f"{len(result['missed'])} missed", f"{len(result['faults'])} faults", *result["faults"]]
