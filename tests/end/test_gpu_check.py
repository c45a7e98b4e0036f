#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""tools/gpu-check from end to end, over tiny plans and the double of CUDA: what it says, and what it finds.

usage: test_gpu_check.py BUILD_DIR SOURCE_DIR   (TAP on stdout)
"""
from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

BUILD, SOURCE = Path(sys.argv[1]), Path(sys.argv[2])
MOVES = ["dense", "moe", "hybrid", "zero", "cast", "shrink"]


def run(*words: object, code: int = 0) -> subprocess.CompletedProcess[str]:
    clean = {key: value for key, value in os.environ.items() if key != "LD_LIBRARY_PATH"}  # the harness may name doubles
    tool = [sys.executable, "-B", str(SOURCE / "tools" / "gpu-check")]
    done = subprocess.run([*tool, *map(str, words)], capture_output=True, text=True, timeout=600, check=False,
                          env={**clean, "SHUNT_BIN_DIR": str(BUILD)})
    assert done.returncode == code, f"{words}: exit {done.returncode}, not {code}: {done.stdout}{done.stderr}"
    return done


def check(folder: Path, plans: Path, code: int = 0) -> tuple[dict[str, Any], subprocess.CompletedProcess[str]]:
    out = folder / "report.json"
    done = run("--plans", plans, "--double", "--buffer", "256KiB", "--tries", 1, "--json", out, "--seconds", 500, code=code)
    return json.loads(out.read_text()), done


def everything_is_run_and_right(folder: Path) -> None:
    report, done = check(folder, folder / "plans")
    assert report["of_the_double"] and "OF THE DOUBLE" in done.stdout, done.stdout
    assert report["faults"] == [], report["faults"]
    assert [move["name"] for move in report["moves"]] == MOVES, report["moves"]
    for move in report["moves"]:
        assert move["check"]["checked"] > move["check"]["wrong"] == 0, move
        assert move["time"]["moved"] + move["time"]["copied"] > 0 and move["time"]["pack_seconds"] > 0, move
        assert move["time"]["peak"]["within"] is True, move
        assert f"{move['name']:>8} " in done.stdout, done.stdout
    rates = report["bandwidth"]
    assert rates["copy"] > 0 and all(row["pack"] > 0 and row["unpack"] > 0 for row in rates["rows"]), rates
    assert len(rates["rows"]) == 9 and min(rates[kind] for kind in ("narrow", "widen", "zero")) > 0, rates
    nccl = report["nccl"]
    assert nccl.get("skipped", "").startswith("not supported: ") or set(nccl) == {"2 ranks", "4 ranks"}, nccl


def faults_are_named(folder: Path) -> None:
    """One plan is cut short: that move fails by name, and the other one runs."""
    plans = folder / "spoilt"
    shutil.copytree(folder / "plans", plans)
    listed = json.loads((plans / "moves.json").read_text())["moves"]
    some = [move for move in listed if move["name"] in ("hybrid", "cast", "pair")]
    (plans / "moves.json").write_text(json.dumps({"moves": some}))
    whole = (plans / "cast" / "there.plan").read_bytes()
    (plans / "cast" / "there.plan").write_bytes(whole[:len(whole) // 2])
    report, done = check(folder, plans, code=1)
    assert any(fault.startswith("cast check: ") for fault in report["faults"]), report["faults"]
    assert all(fault.startswith("cast ") for fault in report["faults"]), report["faults"]
    assert "gpu-check: cast check: " in done.stderr, done.stderr
    assert report["moves"][0]["name"] == "hybrid" and report["moves"][0]["check"]["wrong"] == 0, report["moves"]


def folders_without_plans(folder: Path) -> None:
    done = run("--plans", folder / "nowhere", "--double", code=2)
    assert "no moves.json there" in done.stderr and "Traceback" not in done.stderr, done.stderr


def machines_without_a_gpu(folder: Path) -> None:
    """The real runtime is not there, or finds no driver."""
    done = run("--plans", folder / "plans", "--buffer", "256KiB", "--tries", 1, code=3)
    assert "gpu-check: bandwidth: " in done.stderr, done.stderr


def main() -> int:
    failed = 0
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        run("--prepare", folder / "plans", "--size", "1MiB")
        cases = [everything_is_run_and_right, faults_are_named, folders_without_plans]
        if not Path("/dev/nvidiactl").exists():
            cases.append(machines_without_a_gpu)
        for number, case in enumerate(cases, 1):
            try:
                case(folder)
            except AssertionError as error:
                failed += 1
                print("\n".join("# " + line for line in str(error).splitlines()))
                print("not ", end="")
            print(f"ok {number} - {case.__name__}")
        print(f"1..{len(cases)}")
    return 1 if failed else 0


sys.exit(main())
