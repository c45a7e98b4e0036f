#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Where every device is full, old buffers wait in host memory: all stages move to the next node, in place.

usage: test_spill.py BUILD_DIR   (TAP on stdout)
"""
from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

MODEL = """\
kind: model
name: full
layers: 8
heads: 4
tensors:
  - {name: "layer.{i}.up.weight", shape: [256, 64], cut: {dim: 0}}
  - {name: "layer.{i}.down.weight", shape: [64, 256], cut: {dim: 1}}
  - {name: "layer.{i}.norm.weight", shape: [64]}
"""
CLUSTER = """\
kind: cluster
name: four nodes
devices_per_node: 2
nodes: 4
device: {memory: 16 GiB, reserve: 1000 B, transport_buffers: 24 B}
links: {intra_node: 3 GB/s, inter_node: 3 GB/s}
copy: 6 GB/s
costs: {round: 50 us, message: 5 us}
"""
LAYOUT = """\
kind: layout
name: {name}
model: model.yaml
cluster: cluster.yaml
parallel: {{tp: 2, pp: 4, dp: 1}}
devices: {devices}
{states}"""
FIXED = 1024
# What the new side says of its states: all as they are; or weights made from masters, which are read twice.
STATES = {"rotation": "", "rotation with weights from masters":
          "state: {param: from-master, master: fp32, exp_avg: fp32, exp_avg_sq: fp32}\n"}


class Rig:
    """Documents of one move, and the programs."""

    def __init__(self, build: Path, folder: Path, states: str) -> None:
        self.shunt, self.executor = build / "planner" / "shunt", build / "executor" / "shunt-exec"
        self.plan = folder / "p.plan"
        (folder / "model.yaml").write_text(MODEL)
        (folder / "cluster.yaml").write_text(CLUSTER)
        self.layouts = [folder / "still.yaml", folder / "turned.yaml"]
        self.layouts[0].write_text(LAYOUT.format(name="still", devices=list(range(8)), states=""))
        turned = [(d + 2) % 8 for d in range(8)]
        self.layouts[1].write_text(LAYOUT.format(name="turned", devices=turned, states=states))

    def run(self, *words: object, code: int = 0) -> subprocess.CompletedProcess[str]:
        """A command that must end with `code`."""
        done = subprocess.run([str(word) for word in words], capture_output=True, text=True, timeout=300, check=False)
        if done.returncode != code:
            raise AssertionError(f"{' '.join(map(str, words))}: exit {done.returncode}: {done.stdout} {done.stderr}")
        return done

    def make(self, *options: object) -> dict[str, Any]:
        """Plan and verify; the report."""
        report = json.loads(self.run(self.shunt, "plan", *self.layouts, "-o", self.plan, "--json", *options).stdout)
        self.run(self.shunt, "verify", self.plan, *self.layouts)
        return report

    def refuse(self, cap: int, *options: object) -> str:
        """What is said of a cap that is too small."""
        return self.run(self.shunt, "plan", *self.layouts, "-o", self.plan, "--cap", f"{cap} B", *options, code=1).stderr

    def execute(self, cap: int) -> None:
        """The executor's bytes are right, and its memory is what the plan says."""
        report = json.loads(self.run(self.executor, self.plan, "--launch", 8, "--fill", 7, "--check", "--json").stdout)
        figures = json.loads(self.run(self.shunt, "inspect", self.plan, "--json").stdout)
        devices = report["plans"][0]["devices"]
        for device in devices:
            assert (device["wrong"], device["never_written"]) == (0, 0), device
            assert device["peak_bytes"] + FIXED == device["plan_peak_bytes"] <= cap, device
        assert max(device["host_peak_bytes"] for device in devices) == figures["memory"]["host_peak"], devices


def least_caps(rig: Rig) -> tuple[int, int]:
    """The least cap, and the one with spilling, as a refusal says them."""
    found = re.search(r"least cap that would do is (\d+) B, or (\d+) B with --spill host$", rig.refuse(2000).strip())
    assert found, rig.refuse(2000)
    return int(found[1]), int(found[2])


def check_spilled(rig: Rig, cap: int, least: int) -> str:
    """A cap below the least one without spilling."""
    assert "least cap that would do is" in rig.refuse(cap)
    report = rig.make("--cap", f"{cap} B", "--spill", "host")
    memory, spilled = report["memory"], report["spilled"]
    assert memory["peak"] <= cap and memory["least_cap"] == least, (cap, memory)
    assert 0 < report["bytes"]["parked"] <= spilled["bytes"] and spilled["most"] == memory["host_peak"], report
    assert report["format_version"] == "1.3" and report["bytes"]["moved"] == report["bytes"]["needed_remote"], report
    page = rig.run(rig.shunt, "inspect", rig.plan).stdout
    assert re.search(rf"^  spilled    {spilled['buffers']} old buffers of {spilled['devices']} devices, ", page, re.M), page
    rig.execute(cap)
    return f"{spilled['bytes']} B at {cap}, {report['schedule']['rounds']} rounds"


def check_move(rig: Rig) -> str:
    """98 % full, as full as can be, and not at all."""
    full = rig.make("--cap", "1 GiB")["memory"]["from_max"] + FIXED
    plain, least = least_caps(rig)
    assert full < least < plain and least < full / 0.98, (full, least, plain)
    notes = [check_spilled(rig, cap, least) for cap in (least, (least + plain) // 2, plain - 1)]
    said = rig.refuse(least - 1, "--spill", "host")
    assert f"the least cap that would do is {least} B" in said and "--spill" not in said, said
    before = rig.make("--cap", f"{plain} B")
    after = rig.make("--cap", f"{plain} B", "--spill", "host")
    assert before["plan_id"] == after["plan_id"] and after["spilled"]["bytes"] == 0, "a cap that is met needs no spilling"
    return "; ".join(notes)


def check_twice(rig: Rig) -> str:
    """The same bytes again."""
    cap = sum(least_caps(rig)) // 2
    first, second = (rig.make("--cap", f"{cap} B", "--spill", "host")["plan_id"] for _ in range(2))
    assert first == second, (first, second)
    return ""


def check_ladder(rig: Rig) -> str:
    """A step of a ladder may spill; its plan is made again when that changes."""
    folder, cap = rig.plan.parent, sum(least_caps(rig)) // 2
    step = f"{{name: turn, from: still.yaml, to: turned.yaml, cap: {cap} B"
    outcomes = []
    for spill, code in (("", 1), (", spill: host", 0), (", spill: host", 0), (", spill: none", 1)):
        (folder / "ladder.yaml").write_text(f"kind: ladder\nname: turns\nsteps:\n  - {step}{spill}}}\n")
        done = rig.run(rig.shunt, "precompile", folder / "ladder.yaml", "-o", folder / "plans", "--json", code=code)
        outcomes.append(json.loads(done.stdout)["steps"][0]["result"])
    assert outcomes == ["failed", "made", "kept", "failed"], outcomes
    return ", ".join(outcomes)


def main() -> int:
    build, failed, number = Path(sys.argv[1]), 0, 0
    checks: list[tuple[str, str, Callable[[Rig], str]]] = [(name, name, check_move) for name in STATES]
    checks += [("twice", "rotation", check_twice), ("ladder", "rotation", check_ladder)]
    for number, (name, states, check) in enumerate(checks, 1):
        with tempfile.TemporaryDirectory() as folder:
            try:
                note = check(Rig(build, Path(folder), STATES[states]))
                print(f"ok {number} - {name} {note}".rstrip())
            except (AssertionError, KeyError, subprocess.TimeoutExpired) as problem:
                failed += 1
                print("# " + repr(problem).replace("\n", "\n# "))
                print(f"not ok {number} - {name}")
    print(f"1..{number}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
