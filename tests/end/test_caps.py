#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The cap is a law: plans under random caps verify, and what the executor measures stays under what they say.

usage: test_caps.py BUILD_DIR SOURCE_DIR [CAPS]   (TAP on stdout; caps per move, 5 by default)
"""
from __future__ import annotations

import json
import random
import subprocess
import sys
import tempfile
from pathlib import Path

MOVES = (("gpt2-tp4-pp2", "gpt2-tp2-pp4"), ("gpt2-tp2-pp2-dp2", "gpt2-tp4-pp2"))


def run(*words: object) -> str:
    """Output of a command that must succeed."""
    done = subprocess.run([str(word) for word in words], capture_output=True, text=True, timeout=300, check=False)
    if done.returncode != 0:
        raise AssertionError(f"{' '.join(map(str, words))}: exit {done.returncode}: {done.stderr[-2000:]}")
    return done.stdout


def check_move(build: Path, layouts: list[Path], plan: Path, count: int) -> str:
    """Plan, verify and run one move under the least cap and random ones up to twice that."""
    shunt, executor = build / "planner" / "shunt", build / "executor" / "shunt-exec"
    least = json.loads(run(shunt, "plan", *layouts, "-o", plan, "--json"))["memory"]["least_cap"]
    draw = random.Random(least)
    caps = [least] + [draw.randint(least, 2 * least) for _ in range(count - 1)]
    for cap in caps:
        memory = json.loads(run(shunt, "plan", *layouts, "-o", plan, "--cap", f"{cap} B", "--json"))["memory"]
        run(shunt, "verify", plan, *layouts)
        report = json.loads(run(executor, plan, "--launch", 8, "--fill", 1, "--check", "--json"))
        for result in report["plans"]:
            for device in result["devices"]:
                measured, planned = device["peak_bytes"], device["plan_peak_bytes"]
                assert measured <= planned <= memory["peak"] <= cap, (cap, memory, device)
    return f"{len(caps)} caps from {least} B"


def main() -> int:
    build, source = Path(sys.argv[1]), Path(sys.argv[2])
    count = int(sys.argv[3]) if len(sys.argv) > 3 else 5
    failed = 0
    for number, pair in enumerate(MOVES, 1):
        layouts = [source / "plans" / "layouts" / f"{name}.yaml" for name in pair]
        with tempfile.TemporaryDirectory() as folder:
            try:
                note = check_move(build, layouts, Path(folder) / "p.plan", count)
                print(f"ok {number} - {pair[0]} to {pair[1]}: {note}")
            except (AssertionError, KeyError, subprocess.TimeoutExpired) as problem:
                failed += 1
                print("# " + repr(problem).replace("\n", "\n# "))
                print(f"not ok {number} - {pair[0]} to {pair[1]}")
    print(f"1..{len(MOVES)}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
