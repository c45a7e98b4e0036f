# SPDX-License-Identifier: Apache-2.0
"""Section `exact`: 300 random small moves, greedy and auto beside their bound, the exact method, and all rounds.

The moves are of two kinds. Those of toy models are planned by the compiler as any other; the exact method ends for few
of them, and the bound is one that no plan beats, not one that some plan reaches, so that gaps to it are larger than those
to the best plan. Those of up to five whole tensors are those of a test (tests/planner/test_exact.c), which tries every
tensor in every round, in every order: gaps to that are exact.
"""

from __future__ import annotations

import functools
import json
import os
import random
import subprocess
from pathlib import Path

import shell
from cases import Case, Grid, Model, write
from section import UNSUPPORTED, Options, Row, in_parallel, plan_move, refused, table

SEED, COUNT, QUICK_COUNT = 1, 300, 6
METHODS = ("greedy", "auto", "exact")
WANTED = {"median": 0.02, "p99": 0.15}
CLUSTER = """kind: cluster
name: small
devices_per_node: 8
device: {memory: 1 GiB, reserve: 0 B, transport_buffers: 0 B}
links: {intra_node: 450 MB/s, inter_node: 50 MB/s}
copy: 1300 MB/s
costs: {round: 50 us, message: 0 us}
"""


def random_grid(draw: random.Random, experts: bool) -> Grid:
    """A grid of up to 16 ranks."""
    while True:
        grid = Grid(draw.choice((1, 2, 4)), draw.choice((1, 2, 4)), draw.choice((1, 2, 3, 4)))
        if grid.ranks <= 16:
            return Grid(grid.tp, grid.pp, grid.dp, draw.choice((1, grid.tp)) if experts else 1)


def random_case(number: int) -> tuple[Case, float]:
    """A move of a toy model, and its cap over the larger side."""
    draw = random.Random(SEED * 10**6 + number)
    experts = draw.random() < 0.3
    layers, heads = draw.choice((4, 8)), draw.choice((4, 8))
    model = Model("small", layers, 32 * draw.choice((1, 2, 3)), heads, 4, 16 * draw.randint(2, 6), 64,
                  experts=4 if experts else 0)
    old, new = random_grid(draw, experts), random_grid(draw, experts)
    return Case(str(number), model, old, new, draw.randrange(3)), draw.choice((1.05, 1.25, 2.0))


def plan(folder: Path, cap: int, method: str) -> Row:
    """A plan's figures, or what was said against it."""
    words = ("--cap", f"{cap} B", "--method", method)
    try:
        return plan_move(folder / "old.yaml", folder / "new.yaml", folder / f"{method}.plan", *words)
    except shell.Refused as refusal:
        return refused(refusal)


def measure_move(number: int, options: Options) -> Row:
    """One move: gaps of greedy and auto, and what the exact method gains."""
    case, factor = random_case(number)
    folder = options.folder / f"exact-{number}"
    write(case, folder)
    (folder / "cluster.yaml").write_text(CLUSTER)
    larger = max(max(shell.layout_figures(folder / f"{side}.yaml")["rank_bytes"]) for side in ("old", "new"))
    plans = {method: plan(folder, int(factor * larger), method) for method in METHODS}
    row: Row = {"cap": factor} | {method: keep(entry) for method, entry in plans.items()}
    best = plans["exact"]["time"]["predicted"] if "time" in plans["exact"] else 0
    for method in METHODS:
        if "time" in plans[method] and plans[method]["time"]["lower_bound_rounds"] > 0:
            row[f"{method} to bound"] = plans[method]["time"]["gap_rounds"]
        if "time" in plans[method] and best > 0:
            row[f"{method} to exact"] = plans[method]["time"]["predicted"] / best - 1
    faults = [fault for entry in plans.values() for fault in entry.get("faults", [])]
    faults += [f"exact slower than {method}" for method in METHODS if row.get(f"{method} to exact", 0) < -1e-9
               and plans[method]["schedule"]["method"].endswith("-hold") == holds(plans["auto"])]
    return row | {"faults": faults}


def holds(entry: Row) -> bool:
    """Whether a plan's rounds hold the old side to the end, which comes before time."""
    return entry["schedule"]["method"].endswith("-hold")


def all_rounds(count: int) -> Row:
    """Moves of whole tensors, beside the best of all their rounds; no rows where the test is not built."""
    program = Path(shell.shunt()).parents[1] / "tests" / "planner" / "test_exact"
    if not program.exists():
        shell.note(f"{program}: not built")
        return {"rows": [], "faults": []}
    done = subprocess.run([str(program), "rounds_are_near_the_best"], env=os.environ | {"SHUNT_EXACT_MOVES": str(count)},
                          capture_output=True, text=True, check=False)
    rows = [json.loads(line[2:]) for line in done.stdout.splitlines() if line.startswith("# {")]
    faults = [line for line in done.stdout.splitlines() if "not true" in line]
    return {"rows": rows, "faults": faults or [f"test_exact: exit {done.returncode}"] * bool(done.returncode)}


def keep(entry: Row) -> Row:
    """The figures that count."""
    return {key: entry[key] for key in ("time", "schedule", "plan_seconds", "refused", UNSUPPORTED) if key in entry}


def spread(values: list[float]) -> Row | None:
    """Median, 99th percentile and largest of some gaps."""
    if not values:
        return None
    ordered = sorted(values)
    at = {"median": 0.5, "p90": 0.9, "p99": 0.99}
    return {name: ordered[min(len(ordered) - 1, int(q * len(ordered)))] for name, q in at.items()} | {
        "most": ordered[-1], "count": len(ordered)}


def measure(options: Options) -> Row:
    """All moves."""
    numbers = range(QUICK_COUNT if options.quick else COUNT)
    tried = all_rounds(len(numbers))
    rows = in_parallel(numbers, functools.partial(measure_move, options=options), options.jobs)
    names = [f"{method} to {goal}" for goal in ("bound", "exact") for method in METHODS if method != goal]
    gaps = {name: spread([row[name] for row in rows if row.get(name) is not None]) for name in names}
    gaps |= {f"{method} to all rounds": spread([row["gaps"][method] for row in tried["rows"]]) for method in METHODS}
    return {
        "rows": rows,
        "all_rounds": tried["rows"],
        "gaps": gaps,
        "refused": sum("refused" in row["greedy"] for row in rows),
        "faults": [f"move {n}: {fault}" for n, row in enumerate(rows) for fault in row["faults"]] + tried["faults"],
        "missed": [f"{gap}, {name}: {gaps[gap][name]:.4f} > {limit}"
                   for gap in ("greedy to exact", "greedy to all rounds") for name, limit in WANTED.items()
                   if gaps[gap] and gaps[gap][name] > limit],
    }


def show(result: Row) -> list[str]:
    """The distribution of gaps."""
    keys = ("count", "median", "p90", "p99", "most")
    cells = [[name, *(gap[key] for key in keys)] for name, gap in result["gaps"].items() if gap]
    exact = [] if result["gaps"]["greedy to exact"] else [f"--method exact: {UNSUPPORTED}"]
    proved = sum(row["proved"] for row in result["all_rounds"])
    return [*table(("gap", *keys), cells), f"{result['refused']} refused under their cap", *exact,
            f"the exact method proved {proved} of {len(result['all_rounds'])} plans of whole tensors to be the best",
            f"{len(result['faults'])} faults", *result["faults"], *result["missed"]]
