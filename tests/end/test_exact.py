#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Small moves by --method exact: proved, never slower than others, verified, and the same bytes each time.

usage: test_exact.py BUILD_DIR   (TAP on stdout)
"""
from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

MODEL = """\
kind: model
name: small
layers: 2
heads: 4
tensors:
  - {name: "layer.{i}.up.weight", shape: [64, 16], cut: {dim: 0}}
  - {name: "layer.{i}.down.weight", shape: [16, 64], cut: {dim: 1}}
"""
CLUSTER = """\
kind: cluster
name: slow
devices_per_node: 4
device: {memory: 1 GiB, reserve: 0 B, transport_buffers: 0 B}
links: {intra_node: 4 MB/s, inter_node: 1 MB/s}
copy: 20 MB/s
costs: {round: 1 ms, message: MESSAGE us}
"""
LAYOUT = """\
kind: layout
name: {name}
model: model.yaml
cluster: cluster.yaml
parallel: {parallel}
{states}"""
STATES = "state: {param: bf16, master: fp32}\n"
FROM_MASTER = "state: {param: from-master, master: fp32}\n"
# old, new, states of the new side, microseconds of a message, words of the command
MOVES: dict[str, tuple[str, str, str, int, tuple[str, ...]]] = {
    "pipeline": ("{tp: 2, pp: 2}", "{tp: 4, pp: 1}", STATES, 0, ()),
    "messages": ("{tp: 4, pp: 1}", "{tp: 1, pp: 2, dp: 2}", STATES, 100, ()),
    "relays": ("{tp: 2, pp: 1}", "{tp: 2, pp: 1, dp: 4}", STATES, 0, ()),
    "weights from masters": ("{tp: 2, pp: 1}", "{tp: 1, pp: 2}", FROM_MASTER, 0, ()),
    "a tight cap": ("{tp: 2, pp: 2}", "{tp: 1, pp: 2, dp: 2}", STATES, 0, ("--cap", "19000 B", "--staging", "5000 B")),
}


class Rig:
    """Documents of one move, and the compiler."""

    def __init__(self, build: Path, folder: Path, name: str) -> None:
        old, new, states, message, self.words = MOVES[name]
        self.shunt, self.folder = build / "planner" / "shunt", folder
        (folder / "model.yaml").write_text(MODEL)
        (folder / "cluster.yaml").write_text(CLUSTER.replace("MESSAGE", str(message)))
        self.layouts = [folder / "old.yaml", folder / "new.yaml"]
        self.layouts[0].write_text(LAYOUT.format(name="old", parallel=old, states=STATES))
        self.layouts[1].write_text(LAYOUT.format(name="new", parallel=new, states=states))

    def run(self, *words: object, code: int = 0) -> subprocess.CompletedProcess[str]:
        """A command that must end with `code`."""
        done = subprocess.run([str(self.shunt), *map(str, words)], capture_output=True, text=True, timeout=300, check=False)
        if done.returncode != code:
            raise AssertionError(f"{' '.join(map(str, words))}: exit {done.returncode}: {done.stdout} {done.stderr}")
        return done

    def plan(self, name: str, *words: str) -> dict[str, Any]:
        """The figures of a plan, which is verified."""
        path = self.folder / name
        done = self.run("plan", *self.layouts, "-o", path, "--json", *self.words, *words)
        self.run("verify", path, *self.layouts)
        return dict(json.loads(done.stdout))


def move(name: str, build: Path) -> str:
    """Exact is as fast as the others or faster, says what it proved, and does so again."""
    with tempfile.TemporaryDirectory() as folder:
        rig = Rig(build, Path(folder), name)
        auto, greedy = (rig.plan(f"{method}.plan", "--method", method) for method in ("auto", "greedy"))
        exact = rig.plan("exact.plan", "--method", "exact")
        rig.plan("again.plan", "--method", "exact", "--threads", "1")
        if (rig.folder / "exact.plan").read_bytes() != (rig.folder / "again.plan").read_bytes():
            raise AssertionError("two plans of one move differ")
        if exact["time"]["predicted"] > auto["time"]["predicted"] * (1 + 1e-9):
            raise AssertionError(f"exact {exact['time']} after auto {auto['time']}")
        if exact["memory"]["peak"] > exact["memory"]["cap"] or exact["memory"]["staging"] > staging_of(rig.words):
            raise AssertionError(f"memory {exact['memory']}")
        schedule = exact["schedule"]
        if not schedule["solver"].startswith("GLPK") or not schedule["solver_status"]:
            raise AssertionError(f"schedule {schedule}")
        if (schedule["method"] == "exact") != (schedule["solver_status"] == "optimal"):
            raise AssertionError(f"schedule {schedule}")
        times = (entry["time"]["predicted"] for entry in (greedy, auto, exact))
        return f"{schedule['method']} ({schedule['solver_status']}); greedy, auto, exact: " + ", ".join(
            f"{1e3 * seconds:.3f}" for seconds in times) + " ms"


def staging_of(words: tuple[str, ...]) -> int:
    """Bytes of --staging."""
    return int(words[words.index("--staging") + 1].split()[0]) if "--staging" in words else 1 << 62


def refusals(build: Path) -> str:
    """A limit in seconds is for the exact method alone."""
    with tempfile.TemporaryDirectory() as folder:
        rig = Rig(build, Path(folder), "pipeline")
        for method in ("auto", "greedy"):
            done = rig.run("plan", *rig.layouts, "-o", rig.folder / "p.plan", "--method", method, "--time-limit", "1",
                           code=2)
            if "expected --method exact with it" not in done.stderr or (rig.folder / "p.plan").exists():
                raise AssertionError(done.stderr)
        rig.plan("p.plan", "--method", "exact", "--time-limit", "20")
    return ""


def has_solver(build: Path) -> bool:
    """Whether the compiler is built with one; a build without says so."""
    with tempfile.TemporaryDirectory() as folder:
        rig = Rig(build, Path(folder), "pipeline")
        done = subprocess.run([rig.shunt, "plan", *rig.layouts, "-o", rig.folder / "p.plan", "--method", "exact"],
                              capture_output=True, text=True, check=False)
    if done.returncode and "not supported: --method exact: built without GLPK" not in done.stderr:
        raise AssertionError(done.stderr)
    return not done.returncode


def main() -> int:
    """TAP."""
    build, failed = Path(sys.argv[1]), 0
    if not has_solver(build):
        print("1..0 # SKIP built without a solver")
        return 0
    cases: list[tuple[str, Callable[[], str]]] = [(name, lambda name=name: move(name, build)) for name in MOVES]
    cases.append(("refusals", lambda: refusals(build)))
    print(f"1..{len(cases)}")
    for number, (name, run) in enumerate(cases, 1):
        try:
            remark = run()
            print(f"ok {number} - {name}" + (f" # {remark}" if remark else ""))
        except AssertionError as problem:
            failed += 1
            print(f"not ok {number} - {name}\n# {problem}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
