#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Plans of plans/golden/ are made again and compared byte for byte.

A build without a solver finds other least caps, which plans carry: with --no-solver, nothing is compared.

usage: test_golden.py BUILD_DIR [--update | --no-solver]   (TAP on stdout)
"""
from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

GOLDEN = Path(__file__).resolve().parents[2] / "plans" / "golden"
PAIRS = (("dense-tp2-pp2", "dense-tp4-dp2"), ("dense-tp4-dp2", "dense-zero3"), ("moe-ep2", "moe-ep4"),
         ("dense-tp2-pp2", "dense-made"))


def problem_with(shunt: Path, pair: tuple[str, str], update: bool) -> str | None:
    """What is wrong with one golden plan; None if nothing."""
    golden = GOLDEN / f"{pair[0]}--{pair[1]}.plan"
    layouts = [str(GOLDEN / f"{name}.yaml") for name in pair]
    with tempfile.TemporaryDirectory() as folder:
        made = golden if update else Path(folder) / "made.plan"
        done = subprocess.run([str(shunt), "plan", *layouts, "-o", str(made)], capture_output=True, text=True,
                              timeout=60, check=False)
        if done.returncode != 0:
            return done.stderr
        verified = subprocess.run([str(shunt), "verify", str(golden), *layouts], capture_output=True, text=True,
                                  timeout=60, check=False)
        if verified.returncode != 0:
            return f"the golden plan does not verify: {verified.stderr}"
        return None if made.read_bytes() == golden.read_bytes() else f"another plan than {golden.name}"


def main() -> int:
    shunt = Path(sys.argv[1]) / "planner" / "shunt"
    failed = 0
    if "--no-solver" in sys.argv[2:]:
        print("1..0 # SKIP built without GLPK, which finds lower least caps")
        return 0
    for number, pair in enumerate(PAIRS, 1):
        problem = problem_with(shunt, pair, "--update" in sys.argv[2:])
        if problem is not None:
            failed += 1
            print("# " + problem.strip().replace("\n", "\n# "))
        print(f"{'ok' if problem is None else 'not ok'} {number} - {pair[0]} to {pair[1]}")
    print(f"1..{len(PAIRS)}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
