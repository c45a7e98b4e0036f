# SPDX-License-Identifier: Apache-2.0
"""Section `refit`: weights moved by our plans and by megatron-core's refit planner, side by side.

The peer's planner runs as it is installed, in a process of its own (refit_peer.py) and a virtual environment of its
own, over parameters without data and process groups that say what a rank would say. Both sides of a pair run on the
same devices, eight a node, ranks along tp, dp, pp, experts along ep, dp, pp. Seconds are compared as processor seconds:
the whole process of ours, the planning call alone of the peer's.
"""

from __future__ import annotations

import functools
import json
import os
import subprocess
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import cases
import shell
from cases import LLAMA_70B, QWEN_235B, Grid, Model
from section import Done, Options, Row, plan_move, table

VENV = Path(os.environ.get("SHUNT_BENCH_VENV") or shell.ROOT / "build" / "bench-venv")
PACKAGES = ("megatron-core==0.16.1", "torch", "numpy", "einops", "packaging", "pydantic>=2")
NOT_HERE = 3  # exit code of the peer where packages are missing

LLAMA_8B = Model("llama-8b", 32, 4096, 32, 8, 14336, 128256)
QWEN_30B = Model("qwen-30b", 48, 2048, 32, 4, 768, 151936, experts=128)


@dataclass(frozen=True)
class Pair:
    """A move of weights."""

    model: Model
    old: Grid
    new: Grid

    @property
    def name(self) -> str:
        """Model and both grids."""
        return f"{self.model.name} {text_of(self.old)} -> {text_of(self.new)}"

    @property
    def ranks(self) -> int:
        """Of the world that has both sides."""
        return max(self.old.ranks, self.new.ranks)


def text_of(grid: Grid) -> str:
    """A grid in short."""
    return f"tp{grid.tp} pp{grid.pp} dp{grid.dp}" + (f" ep{grid.ep}" if grid.ep > 1 else "")


PAIRS = (
    Pair(LLAMA_8B, Grid(2, 2, 2), Grid(1, 1, 8)),
    Pair(LLAMA_8B, Grid(4, 2, 1), Grid(2, 1, 4)),
    Pair(LLAMA_8B, Grid(2, 2, 8), Grid(1, 1, 32)),
    Pair(LLAMA_8B, Grid(4, 2, 4), Grid(2, 1, 16)),
    Pair(LLAMA_8B, Grid(8, 1, 4), Grid(2, 1, 16)),
    Pair(LLAMA_8B, Grid(1, 4, 8), Grid(4, 1, 8)),
    Pair(LLAMA_8B, Grid(2, 2, 32), Grid(1, 1, 128)),
    Pair(LLAMA_70B, Grid(8, 4, 2), Grid(8, 1, 8)),
    Pair(LLAMA_70B, Grid(4, 4, 4), Grid(8, 1, 8)),
    Pair(LLAMA_70B, Grid(8, 2, 4), Grid(4, 1, 16)),
    Pair(LLAMA_70B, Grid(4, 8, 2), Grid(4, 1, 16)),
    Pair(LLAMA_70B, Grid(8, 4, 4), Grid(8, 1, 16)),
    Pair(LLAMA_70B, Grid(8, 4, 4), Grid(4, 2, 16)),
    Pair(LLAMA_70B, Grid(4, 8, 4), Grid(8, 1, 16)),
    Pair(QWEN_30B, Grid(1, 1, 8, 8), Grid(1, 1, 8, 4)),
    Pair(QWEN_30B, Grid(2, 2, 8, 8), Grid(2, 1, 16, 16)),
    Pair(QWEN_30B, Grid(1, 2, 16, 8), Grid(4, 1, 8, 32)),
    Pair(QWEN_30B, Grid(2, 1, 16, 8), Grid(4, 1, 8, 16)),
    Pair(QWEN_30B, Grid(4, 2, 16, 16), Grid(2, 1, 64, 32)),
    Pair(QWEN_235B, Grid(4, 2, 8, 8), Grid(4, 1, 16, 32)),
    Pair(QWEN_235B, Grid(4, 2, 16, 16), Grid(4, 1, 32, 32)),
    Pair(QWEN_235B, Grid(2, 2, 32, 32), Grid(4, 1, 32, 64)),
    Pair(LLAMA_70B, Grid(8, 4, 32), Grid(8, 1, 128)),
)
QUICK_PAIRS = 1
COLUMNS = ("plan_cpu_seconds", "max_send", "max_receive", "inter_node", "staging", "operations")
WANTED_SPEEDUP, SPEEDUP_RANKS = 100, 128


# ---- ours -------------------------------------------------------------------------------


def documents(pair: Pair, folder: Path) -> tuple[Path, Path]:
    """Model, cluster and layouts, weights alone."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "model.yaml").write_text(json.dumps(pair.model.document()))
    (folder / "cluster.yaml").write_text(cases.CLUSTER)
    paths = (folder / "old.yaml", folder / "new.yaml")
    for path, grid in zip(paths, (pair.old, pair.new)):
        parallel = {"tp": grid.tp, "pp": grid.pp, "dp": grid.dp}
        parallel |= {"ep": grid.ep, "etp": 1} if pair.model.experts else {}
        head = {"kind": "layout", "name": path.stem, "model": "model.yaml", "cluster": "cluster.yaml"}
        rest = {"vocab": {"padded": pair.model.rows}, "state": {"param": "bf16"}}
        path.write_text(json.dumps(head | {"parallel": parallel} | rest))
    return paths


def lines_with(plan: Path, words: Iterable[str]) -> dict[str, int]:
    """How many operations of each kind a plan has."""
    marks = {word: f'"op":"{word}"' for word in words}
    counts = dict.fromkeys(marks, 0)
    with subprocess.Popen([shell.shunt(), "inspect", str(plan), "--ops"], stdout=subprocess.PIPE, text=True) as listing:
        assert listing.stdout is not None
        for line in listing.stdout:
            plain = line.replace(" ", "")
            for word, mark in marks.items():
                counts[word] += mark in plain
    if listing.returncode:
        sys.exit(f"inspect --ops: exit {listing.returncode}")
    return counts


def our_figures(pair: Pair, options: Options) -> Row:
    """Our plan of a pair."""
    folder = options.folder / "refit"
    first, second = documents(pair, folder)
    plan = folder / "move.plan"
    row = plan_move(first, second, plan)
    counts = lines_with(plan, ("send", "recv", "copy"))
    moved = row["bytes"]
    return {
        "plan_seconds": row["plan_seconds"],
        "plan_cpu_seconds": row["plan_cpu_seconds"],
        "max_send": moved["max_send"],
        "max_receive": moved["max_recv"],
        "inter_node": moved["inter_node"],
        "inter_node_lower_bound": moved["inter_node_lower_bound"],
        "staging": row["memory"]["staging"],
        "operations": sum(counts.values()),
        "all_operations": row["schedule"]["ops"],
        "written": moved["needed_remote"] + moved["local"],
        "predicted": row["time"]["predicted"],
        "faults": row["faults"],
    }


# ---- the peer's ---------------------------------------------------------------------------


def description(pair: Pair) -> Row:
    """What the peer's process needs to know."""
    tensors = [{"name": t.name, "shape": t.shape, "dim": t.dim, "segments": t.segments, "stage": t.stage}
               for t in pair.model.tensors()]
    grids = [{"tp": g.tp, "pp": g.pp, "dp": g.dp, "ep": g.ep,
              "layers": [cases.stage_of_layer(pair.model, g, k) for k in range(pair.model.layers)]}
             for g in (pair.old, pair.new)]
    return {"name": pair.name, "tensors": tensors, "grids": grids, "experts": pair.model.experts, "ranks": pair.ranks,
            "node": cases.NODE}


def missing() -> str:
    """How to get the peer."""
    packages = " ".join(f"'{package}'" for package in PACKAGES)
    return (f"the peer is not installed in {VENV}; about 6 GB, as torch brings its CUDA libraries:\n"
            f"  python3 -m venv {VENV} && {VENV}/bin/pip install {packages}\n"
            f"another place: SHUNT_BENCH_VENV=DIR")


def peer_figures(pair: Pair, options: Options) -> Row:
    """The peer's plan of a pair; one process each, as its planner keeps what it made."""
    python = VENV / "bin" / "python"
    if not python.exists():
        raise shell.Refused(missing())
    task = options.folder / "refit.json"
    task.write_text(json.dumps(description(pair)))
    command = [str(python), str(Path(__file__).with_name("refit_peer.py")), str(task)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode == NOT_HERE:
        raise shell.Refused(f"{done.stderr.strip()}\n{missing()}")
    if done.returncode:
        return {"failed": done.stderr.strip().splitlines()[-1]}
    return json.loads(done.stdout.splitlines()[-1])


# ---- both -------------------------------------------------------------------------------


def measure(options: Options) -> Row:
    """All pairs, largest last."""
    pairs = [pair for pair in PAIRS if options.wanted(pair.name)][: QUICK_PAIRS if options.quick else None]
    result: Row = {"rows": {}, "worse": [], "faults": [], "missed": []}
    done, peers_done = Done(options.resume), Done(options.resume, PACKAGES[0])
    for pair in pairs:
        shell.note(f"refit: {pair.name}")
        try:
            peer = peers_done.get(f"refit {pair.name}", functools.partial(peer_figures, pair, options))
        except shell.Refused as refusal:
            shell.note(str(refusal))
            return result | {"skipped": str(refusal)}
        ours = done.get(f"refit {pair.name}", functools.partial(our_figures, pair, options))
        ratios = {} if "failed" in peer else {key: ratio(peer[key], ours[key]) for key in COLUMNS}
        result["rows"][pair.name] = {"ranks": pair.ranks, "ours": ours, "peer": peer, "peer_to_ours": ratios}
        result["faults"] += [f"{pair.name}: {fault}" for fault in ours["faults"]]
        if "failed" not in peer and peer["written"] != ours["written"]:
            result["faults"].append(f"{pair.name}: the peer writes {peer['written']:,} B, ours {ours['written']:,}")
        result["worse"] += [f"{pair.name}: {key}: ours {ours[key]:,}, the peer's {peer[key]:,}"
                            for key, value in ratios.items() if value is not None and value < 1]
        if pair.ranks >= SPEEDUP_RANKS and (ratios.get("plan_cpu_seconds") or WANTED_SPEEDUP) < WANTED_SPEEDUP:
            result["missed"].append(f"{pair.name}: planned {ratios['plan_cpu_seconds']:.1f} times as fast")
    return result


def ratio(other: float, mine: float) -> float | None:
    """How many times ours the peer's figure is."""
    if mine == 0:
        return None if other else 1.0
    return other / mine


def show(result: Row) -> list[str]:
    """A line for each pair: ratios, and the bytes between nodes."""
    if "skipped" in result:
        return [result["skipped"]]
    cells = []
    for name, row in result["rows"].items():
        if "failed" in row["peer"]:
            cells.append([f"{name}: the peer: {row['peer']['failed']}"] + [None] * (len(COLUMNS) + 2))
            continue
        ratios = [row["peer_to_ours"][key] for key in COLUMNS]
        cells.append([name, *ratios, row["ours"]["inter_node"], row["peer"]["inter_node"]])
    head = ("peer / ours", *COLUMNS, "our bytes between nodes", "the peer's")
    return [*table(head, cells), f"{len(result['worse'])} worse", *result["worse"],
            f"{len(result['missed'])} missed", *result["missed"]]
