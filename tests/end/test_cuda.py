#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compiled plans on CUDA devices, all of a plan on one: the double of the CUDA Runtime stands where the GPU would.

Every move runs on the host first. On the device the bytes must be right, every figure the same, and the device's own
count of its memory the plan's, however late the jobs of its streams start. Then the same over NCCL, of which there is a
double too, with a process for each device.

usage: test_cuda.py BUILD_DIR DOUBLES_DIR [nccl]   (TAP on stdout)
"""
from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

MODEL = """\
kind: model
name: full
layers: 8
heads: 8
tensors:
  - {name: "layer.{i}.up.weight", shape: [264, 96], cut: {dim: 0}}
  - {name: "layer.{i}.down.weight", shape: [96, 264], cut: {dim: 1}}
  - {name: "layer.{i}.norm.weight", shape: [97]}
"""
CLUSTER = """\
kind: cluster
name: four nodes
devices_per_node: 2
nodes: 4
device: {memory: 16 GiB}
links: {intra_node: 3 GB/s, inter_node: 3 GB/s}
copy: 6 GB/s
costs: {round: 50 us, message: 5 us}
"""
LAYOUT = """\
kind: layout
name: {name}
model: model.yaml
cluster: cluster.yaml
parallel: {{{parallel}}}
{more}"""
ADAM = "{param: bf16, master: fp32, exp_avg: fp32, exp_avg_sq: fp32}"
OFFLOADED = ("{param: bf16, master: {dtype: fp32, tier: host}, exp_avg: {dtype: fp32, tier: host}, "
             "exp_avg_sq: {dtype: fp32, tier: host}}")
FROM_MASTERS = "{param: from-master, master: fp32, exp_avg: fp32, exp_avg_sq: fp32}"
FIGURES = ("moved", "wire", "copied", "filled", "peak_bytes", "plan_peak_bytes", "checked", "wrong", "never_written")

# name: parallel of the old side, its states, of the new side, its states, options of the plan
MOVES = {
    "tensor and pipeline": ("tp: 4, pp: 2, dp: 1", ADAM, "tp: 2, pp: 4, dp: 1", ADAM, ()),
    "shrink": ("tp: 2, pp: 2, dp: 2", ADAM, "tp: 4, pp: 1, dp: 1", ADAM, ()),
    "grow": ("tp: 1, pp: 2, dp: 1", ADAM, "tp: 2, pp: 4, dp: 1", ADAM, ()),
    "weights cast from masters": ("tp: 4, pp: 2, dp: 1", ADAM, "tp: 2, pp: 4, dp: 1", FROM_MASTERS, ()),
    "device to host": ("tp: 4, pp: 2, dp: 1", ADAM, "tp: 2, pp: 4, dp: 1", OFFLOADED, ()),
    "host to device": ("tp: 2, pp: 4, dp: 1", OFFLOADED, "tp: 4, pp: 2, dp: 1", ADAM, ()),
    "host to host": ("tp: 2, pp: 4, dp: 1", OFFLOADED, "tp: 4, pp: 2, dp: 1", OFFLOADED, ()),
    "small staging, many rounds": ("tp: 4, pp: 2, dp: 1", ADAM, "tp: 2, pp: 4, dp: 1", ADAM, ("--staging", "64 KiB")),
    "shares of an optimizer": ("tp: 2, pp: 2, dp: 2", ADAM, "tp: 1, pp: 2, dp: 4", ADAM, ()),
}


class Rig:
    def __init__(self, build: Path, doubles: Path, folder: Path) -> None:
        self.shunt, self.executor = build / "planner" / "shunt", build / "executor" / "shunt-exec"
        self.doubles, self.folder = doubles, folder
        self.has_nccl = sys.argv[3:] == ["nccl"]
        (folder / "model.yaml").write_text(MODEL)
        (folder / "cluster.yaml").write_text(CLUSTER)

    def run(self, *words: object, code: int = 0, env: dict[str, str] | None = None) -> str:
        done = subprocess.run([str(word) for word in words], capture_output=True, text=True, timeout=300, check=False,
                              env={**os.environ, **(env or {})})
        if done.returncode != code:
            raise AssertionError(f"{' '.join(map(str, words))}: exit {done.returncode}: {done.stdout} {done.stderr}")
        return done.stdout

    def plan(self, name: str, move: tuple[str, str, str, str, tuple[str, ...]]) -> Path:
        layouts = []
        for side, parallel, states in (("old", *move[0:2]), ("new", *move[2:4])):
            layouts.append(self.folder / f"{side}.yaml")
            layouts[-1].write_text(LAYOUT.format(name=side, parallel=parallel, more=f"state: {states}\n"))
        path = self.folder / f"{name.split(',')[0].replace(' ', '-')}.plan"
        self.run(self.shunt, "plan", *layouts, "-o", path, *move[4])
        return path

    def execute(self, plans: list[Path], device: str, *options: object, env: dict[str, str] | None = None) -> Any:
        return json.loads(self.run(self.executor, *plans, "--transport", "loopback", "--device", device, "--json",
                                   *options, env=env))

    def over_nccl(self, plans: list[Path], devices: int, *options: object, jitter: int) -> tuple[Any, list[Any]]:
        """The report, and what the doubles have counted in each process; their connections take no memory here."""
        stats = self.folder / "stats"
        stats.unlink(missing_ok=True)
        report = self.run(self.executor, *plans, "--transport", "nccl", "--launch", devices, "--json", *options, env={
            "LD_LIBRARY_PATH": str(self.doubles), "SHUNT_DOUBLE_STATS": str(stats), "SHUNT_DOUBLE_JITTER": str(jitter),
            "SHUNT_DOUBLE_DEVICES": "8", "SHUNT_DOUBLE_CONNECTION": "0"})
        counted = [json.loads(line) for line in stats.read_text().splitlines()]
        return json.loads(report), sorted(counted, key=lambda process: process["rank"])

    def on_cuda(self, plans: list[Path], *options: object, jitter: int) -> tuple[Any, dict[str, int]]:
        """The report, and what the double has counted."""
        stats = self.folder / "stats"
        stats.unlink(missing_ok=True)
        report = self.execute(plans, "cuda", *options, env={
            "LD_LIBRARY_PATH": str(self.doubles), "SHUNT_DOUBLE_STATS": str(stats), "SHUNT_DOUBLE_JITTER": str(jitter)})
        return report, json.loads(stats.read_text())


def check_over_nccl(rig: Rig, plan: Path, host: Any) -> None:
    """One process per device: the figures of the host, and on each device the plan's memory."""
    report, counted = rig.over_nccl([plan], len(host["devices"]), "--fill", 7, "--check", jitter=3)
    nccl = report["plans"][0]
    for figure in FIGURES:
        assert nccl[figure] == host[figure], (figure, nccl[figure], host[figure])
    for a, b, process in zip(nccl["devices"], host["devices"], counted, strict=True):
        assert all(a[f] == b[f] for f in ("moved_sent", "wire_received", "copied", "peak_bytes")), (a, b)
        assert process["peak"] == a["plan_peak_bytes"] + a["table_bytes"] and process["left"] == 0, (process, a)


def check_move(rig: Rig, name: str) -> str:
    plan = rig.plan(name, MOVES[name])
    host = rig.execute([plan], "host", "--fill", 7, "--check")["plans"][0]
    for jitter in (1, 2):
        report, stats = rig.on_cuda([plan], "--fill", 7, "--check", jitter=jitter)
        cuda = report["plans"][0]
        for figure in FIGURES:
            assert cuda[figure] == host[figure], (figure, cuda[figure], host[figure])
        for a, b in zip(cuda["devices"], host["devices"]):
            assert all(a[f] == b[f] for f in ("moved_sent", "wire_received", "copied", "peak_bytes")), (a, b)
            assert a["table_bytes"] > 0 == b["table_bytes"], (a, b)
        allowed = sum(d["plan_peak_bytes"] + d["table_bytes"] for d in cuda["devices"])
        assert stats["peak"] == allowed, (stats, allowed)  # all devices have their peaks in the same round here
        assert stats["left"] == 0, stats
        launches = 2 * len(cuda["devices"]) * cuda["rounds"]
        assert 0 < stats["kernels"] <= launches, (stats, launches)
    if rig.has_nccl:
        check_over_nccl(rig, plan, host)
    return f"{cuda['rounds']} rounds, {stats['kernels']} launches, peak {stats['peak']} B"


def check_spilled(rig: Rig) -> str:
    """Old buffers that wait in pinned host memory, under the least cap."""
    layouts = [rig.folder / "still.yaml", rig.folder / "turned.yaml"]
    for layout, turn in zip(layouts, (0, 2)):
        devices = [(d + turn) % 8 for d in range(8)]
        layout.write_text(LAYOUT.format(name=layout.stem, parallel="tp: 2, pp: 4, dp: 1",
                                        more=f"devices: {devices}\n"))
    plan = rig.folder / "spilled.plan"
    said = subprocess.run([rig.shunt, "plan", *layouts, "-o", plan, "--cap", "2000 B"], capture_output=True, text=True,
                          check=False).stderr
    cap = int(said.rsplit("or ", 1)[1].split(" B")[0])
    rig.run(rig.shunt, "plan", *layouts, "-o", plan, "--cap", f"{cap} B", "--spill", "host")
    report, stats = rig.on_cuda([plan], "--fill", 3, "--check", jitter=4)
    devices = report["plans"][0]["devices"]
    assert max(d["host_peak_bytes"] for d in devices) > 0, devices
    assert all(d["peak_bytes"] <= cap for d in devices), devices
    assert stats["peak"] <= 8 * cap + sum(d["table_bytes"] for d in devices) and stats["left"] == 0, stats
    return f"cap {cap} B"


def check_stored(rig: Rig) -> str:
    """A chain from files to files: what is stored is the same, byte for byte."""
    there = rig.plan("tensor and pipeline", MOVES["tensor and pipeline"])
    back = rig.plan("back", ("tp: 2, pp: 4, dp: 1", ADAM, "tp: 4, pp: 2, dp: 1", ADAM, ()))
    folders = [rig.folder / name for name in ("first", "host", "cuda")]
    rig.execute([back], "host", "--fill", 5, "--store", folders[0])
    rig.execute([there, back], "host", "--load", folders[0], "--store", folders[1])
    rig.on_cuda([there, back], "--load", folders[0], "--store", folders[2], jitter=5)
    names = sorted(path.name for path in folders[0].glob("rank-*"))
    assert len(names) == 8, names
    if rig.has_nccl:
        folders.append(rig.folder / "nccl")
        rig.over_nccl([there, back], 8, "--load", folders[0], "--store", folders[3], jitter=6)
    for name in names:
        first, *others = ((folder / name).read_bytes() for folder in folders)
        assert all(other == first for other in others), name
    return f"{len(names)} files"


def main() -> int:
    build, doubles, failed, number = Path(sys.argv[1]), Path(sys.argv[2]), 0, 0
    checks = [(name, lambda rig, name=name: check_move(rig, name)) for name in MOVES]
    checks += [("spilled", check_spilled), ("stored", check_stored)]
    for number, (name, check) in enumerate(checks, 1):
        with tempfile.TemporaryDirectory() as folder:
            try:
                note = check(Rig(build, doubles, Path(folder)))
                print(f"ok {number} - {name}: {note}", flush=True)
            except (AssertionError, KeyError, ValueError, IndexError, subprocess.TimeoutExpired) as problem:
                failed += 1
                print("# " + repr(problem).replace("\n", "\n# "))
                print(f"not ok {number} - {name}")
    print(f"1..{number}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
