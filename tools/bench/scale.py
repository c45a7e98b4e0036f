# SPDX-License-Identifier: Apache-2.0
"""Section `scale`: seconds and memory of planning by number of ranks and of tensors, and of the proof."""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import shell
from cases import CLUSTER, LLAMA_70B, Grid, Model
from section import Options, Row, table

METHODS = ("auto", "greedy")
SLOW_RANKS = 4096  # from here on one run counts
WANTED_EXPONENT = 1.1


@dataclass(frozen=True)
class Target:
    """A move of built-in layouts and the seconds that are wanted of each method."""

    name: str
    first: str
    second: str
    cluster: str
    ranks: int
    wanted: tuple[float, float]


TARGETS = (
    Target("70B on 64", "llama-3-70b-64-tp4cp2pp4vpp5dp2", "llama-3-70b-64-tp4pp8vpp5dp2", "h100", 64, (0.3, 0.05)),
    Target("DeepSeek-V3 256 to 512", "deepseek-v3-256-tp8pp16dp2ep8", "deepseek-v3-512-pp16dp32ep32", "h20", 512,
           (2.0, math.inf)),
    Target("405B 8,192 to 16,384", "llama-3.1-405b-8192-tp8pp16vpp8dp64", "llama-3.1-405b-16384-tp8pp16vpp8dp128",
           "h100", 16384, (8.0, 2.0)),
    Target("405B on 16,384", "llama-3.1-405b-16384-tp8pp16vpp8dp128", "llama-3.1-405b-16384-tp8cp16pp16vpp8dp8",
           "h100", 16384, (8.0, 2.0)),
)
BY_RANKS = (64, 128, 256, 512, 1024)
WANTED_AT = {1024: (3.0, 0.5)}
BY_LAYERS = (40, 80, 160, 320)
QUICK = (8, 16)


# ---- measuring ------------------------------------------------------------------------


def measure_plan(first: Path, second: Path, method: str, cluster: str, options: Options, runs: int) -> Row:
    """Planning a move with a method, and proving it: medians, whole process."""
    plan = options.folder / "scale.plan"
    words = ("-o", plan, "--no-verify", "--method", method, "--cluster", cluster)
    try:
        made = shell.median(runs, shell.shunt(), "plan", first, second, *words)
        proof = shell.median(runs, shell.shunt(), "verify", plan, first, second)
    except shell.Refused as refusal:
        return {"refused": str(refusal)}
    report = shell.inspect(plan)
    row = {
        "plan_seconds": made.seconds,
        "plan_cpu_seconds": made.cpu_seconds,
        "plan_peak_bytes": made.peak_bytes,
        "verify_seconds": proof.seconds,
        "verify_to_plan_ratio": proof.seconds / made.seconds,
        "file_bytes": plan.stat().st_size,
        "ops": report["schedule"]["ops"],
        "gap_rounds": report["time"]["gap_rounds"],
    }
    plan.unlink()
    return row


def measure_target(target: Target, options: Options) -> Row:
    """Both methods."""
    runs = 1 if target.ranks >= SLOW_RANKS else options.runs
    paths = [shell.LAYOUTS / f"{name}.yaml" for name in (target.first, target.second)]
    row: Row = {"ranks": target.ranks}
    for method, seconds in zip(METHODS, target.wanted):
        shell.note(f"scale: {target.name}, {method}")
        row[method] = measure_plan(*paths, method, target.cluster, options, runs)
        row[method]["wanted_seconds"] = seconds if math.isfinite(seconds) else None
    return row


# ---- series ---------------------------------------------------------------------------


def documents(folder: Path, model: Model, grids: Sequence[Grid]) -> tuple[Path, Path]:
    """Two layouts of a model with Megatron's distributed optimizer."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "model.yaml").write_text(json.dumps(model.document()))
    (folder / "cluster.yaml").write_text(CLUSTER)
    paths = (folder / "old.yaml", folder / "new.yaml")
    for path, grid in zip(paths, grids):
        parallel = {"tp": grid.tp, "pp": grid.pp, "dp": grid.dp}
        head = {"kind": "layout", "name": path.stem, "model": "model.yaml", "cluster": "cluster.yaml"}
        path.write_text(json.dumps(head | {"parallel": parallel, "shard": {"rule": "megatron"}}))
    return paths


def series(title: str, points: Sequence[tuple[int, Model, Sequence[Grid]]], options: Options) -> Row:
    """Rows along one measure, and the exponent of growth of each method."""
    result: Row = {method: {} for method in METHODS}
    for at, model, grids in points:
        folder = options.folder / f"{title}-{at}"
        first, second = documents(folder, model, grids)
        for method, seconds in zip(METHODS, WANTED_AT.get(at, (math.inf, math.inf))):
            shell.note(f"scale: {at} {title}, {method}")
            row = measure_plan(first, second, method, str(folder / "cluster.yaml"), options, min(3, options.runs))
            row["wanted_seconds"] = seconds if math.isfinite(seconds) else None
            result[method][str(at)] = row
    for method in METHODS:
        result[method] = {"rows": result[method], "exponent": exponent(result[method])}
    return result


def exponent(rows: Row) -> float | None:
    """Slope of processor seconds over the measure, both as logarithms, by least squares."""
    points = [(math.log(int(at)), math.log(max(1e-3, row["plan_cpu_seconds"]))) for at, row in rows.items()
              if "refused" not in row]
    if len(points) < 2:
        return None
    mean = [sum(point[k] for point in points) / len(points) for k in (0, 1)]
    spread = sum((x - mean[0]) ** 2 for x, _ in points)
    return sum((x - mean[0]) * (y - mean[1]) for x, y in points) / spread


def by_ranks(options: Options) -> Row:
    """A model of 70B on ever more ranks: tp 8, pp 4 becomes tp 4, pp 8."""
    counts = [8 * n for n in QUICK] if options.quick else BY_RANKS
    return series("ranks", [(n, LLAMA_70B, (Grid(8, 4, n // 32), Grid(4, 8, n // 32))) for n in counts], options)


def by_tensors(options: Options) -> Row:
    """Ever more layers on 64 ranks."""
    counts = QUICK if options.quick else BY_LAYERS
    points = []
    for layers in counts:
        model = dataclasses.replace(LLAMA_70B, layers=layers)
        tensors = sum(layers if "{i}" in t.name else 1 for t in model.tensors())
        points.append((tensors, model, (Grid(8, 4, 2), Grid(4, 8, 2))))
    return series("tensors", points, options)


def measure(options: Options) -> Row:
    """All of it; of the targets none if it must be quick."""
    targets = [t for t in TARGETS if options.wanted(t.name)][: 0 if options.quick else None]
    result: Row = {"targets": {target.name: measure_target(target, options) for target in targets}}
    for title, make in (("ranks", by_ranks), ("tensors", by_tensors)):
        if options.wanted(title):
            result[title] = make(options)
    return result | {"missed": misses(result)}


def misses(result: Row) -> list[str]:
    """Seconds and exponents above what is wanted."""
    found = []
    for title, method, row in every_row(result):
        wanted = row.get("wanted_seconds")
        if "refused" not in row and wanted and row["plan_seconds"] > wanted:
            found.append(f"{title}, {method}: {row['plan_seconds']:.3f} s > {wanted} s")
    for title in ("ranks", "tensors"):
        for method in METHODS if title in result else ():
            value = result[title][method]["exponent"]
            if value is not None and value > WANTED_EXPONENT:
                found.append(f"exponent in {title}, {method}: {value:.2f} > {WANTED_EXPONENT}")
    return found


def every_row(result: Row) -> list[tuple[str, str, Row]]:
    """Title, method and figures of all rows."""
    rows = [(name, method, row[method]) for name, row in result["targets"].items() for method in METHODS]
    for title in ("ranks", "tensors"):
        for method in METHODS if title in result else ():
            rows += [(f"{at} {title}", method, row) for at, row in result[title][method]["rows"].items()]
    return rows


def show(result: Row) -> list[str]:
    """A line for each row, then the exponents."""
    cells = []
    for title, method, row in every_row(result):
        keys = ("plan_seconds", "plan_cpu_seconds", "wanted_seconds", "plan_peak_bytes", "verify_to_plan_ratio", "ops",
                "gap_rounds")
        cells.append([f"{title}, {method}", *(row.get(key) for key in keys)])
    head = ("move, method", "plan s", "cpu s", "wanted s", "peak B", "verify/plan", "ops", "gap_rounds")
    exponents = [[f"{title}, {method}", result[title][method]["exponent"]]
                 for title in ("ranks", "tensors") if title in result for method in METHODS]
    return [*table(head, cells), "", *table(("growth exponent", "value"), exponents),
            f"{len(result['missed'])} missed", *result["missed"]]
