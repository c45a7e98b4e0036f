# SPDX-License-Identifier: Apache-2.0
"""Section `exact`: 300 random small moves, greedy beside its bound and beside the exact method.

The moves are small enough for the exact method to end. Where a version has none, the bound stands alone; it is one that
no plan beats, not one that some plan reaches, so that gaps to it are larger than those to the best plan.
"""

from __future__ import annotations

import functools
import random
from pathlib import Path

import shell
from cases import Case, Grid, Model, write
from section import UNSUPPORTED, Options, Row, in_parallel, plan_move, refused, table

SEED, COUNT, QUICK_COUNT = 1, 300, 6
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
    """One move: gaps of greedy, and what the exact method gains."""
    case, factor = random_case(number)
    folder = options.folder / f"exact-{number}"
    write(case, folder)
    (folder / "cluster.yaml").write_text(CLUSTER)
    larger = max(max(shell.layout_figures(folder / f"{side}.yaml")["rank_bytes"]) for side in ("old", "new"))
    greedy, exact = (plan(folder, int(factor * larger), method) for method in ("greedy", "exact"))
    row: Row = {"cap": factor, "greedy": keep(greedy), "exact": keep(exact)}
    if "time" in greedy and greedy["time"]["lower_bound_rounds"] > 0:
        row["to_bound"] = greedy["time"]["gap_rounds"]
    if "time" in greedy and "time" in exact and exact["time"]["predicted"] > 0:
        row["to_exact"] = greedy["time"]["predicted"] / exact["time"]["predicted"] - 1
    return row | {"faults": greedy.get("faults", []) + exact.get("faults", [])}


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
    rows = in_parallel(numbers, functools.partial(measure_move, options=options), options.jobs)
    gaps = {name: spread([row[name] for row in rows if name in row]) for name in ("to_bound", "to_exact")}
    return {
        "rows": rows,
        "gaps": gaps,
        "refused": sum("refused" in row["greedy"] for row in rows),
        "faults": [f"move {n}: {fault}" for n, row in enumerate(rows) for fault in row["faults"]],
        "missed": [f"greedy to exact, {name}: {gaps['to_exact'][name]:.4f} > {limit}" for name, limit in WANTED.items()
                   if gaps["to_exact"] and gaps["to_exact"][name] > limit],
    }


def show(result: Row) -> list[str]:
    """The distribution of greedy's gaps."""
    keys = ("count", "median", "p90", "p99", "most")
    cells = [[name, *(gap[key] for key in keys)] for name, gap in result["gaps"].items() if gap]
    exact = [] if result["gaps"]["to_exact"] else [f"--method exact: {UNSUPPORTED}"]
    return [*table(("gap of greedy", *keys), cells), f"{result['refused']} refused under their cap", *exact,
            f"{len(result['faults'])} faults", *result["faults"], *result["missed"]]
