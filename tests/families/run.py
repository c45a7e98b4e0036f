#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""All layout families against an independent set of layout rules. Prints TAP.

The programs are taken from $SHUNT_BIN_DIR, or build/ of this source tree. Needs numpy. The same
seed makes the same cases, whatever --jobs says.
"""

from __future__ import annotations

import argparse
import os
import sys
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

import cells  # noqa: F401  (adds the folder of the shared modules to the path)
import programs
import tap
import test_beside
import test_cases
import test_matrix
import test_mutants
import test_random
import test_states


def options() -> argparse.Namespace:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", type=int, default=500, help="random moves (500)")
    parser.add_argument("--seed", type=int, default=1, help="seed of the random moves (1)")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="groups at a time (one per core)")
    parser.add_argument("--only", default="", metavar="TEXT", help="run the groups whose name contains TEXT")
    return parser.parse_args()


def report(groups: list[tap.Group], jobs: int) -> int:
    """Run all groups and print TAP: a remark's first line with the result, the others as comments."""
    failed = 0
    print(f"TAP version 13\n1..{len(groups)}", flush=True)
    with ProcessPoolExecutor(jobs) as pool:
        for number, (group, result) in enumerate(zip(groups, pool.map(tap.run_group, groups)), 1):
            failed += result.status == "failed"
            if result.status != "failed":
                first, *rest = result.text.splitlines() or [""]
                print("\n".join([tap.line(number, group.name, tap.Result(result.status, first)), *rest]), flush=True)
            else:
                print(tap.line(number, group.name, result), flush=True)
    return 1 if failed else 0


def main() -> int:
    """Run the groups."""
    args = options()
    missing = [name for name in ("shunt", "shunt-exec") if not programs.binary(name).exists()]
    if missing:
        print(f"not built: {', '.join(str(programs.binary(name)) for name in missing)}", file=sys.stderr)
        return 3
    groups = test_cases.groups() + test_beside.groups() + test_states.groups() + test_matrix.groups()
    groups += test_mutants.groups()
    groups += test_random.groups(args.seed, args.cases)
    return report([group for group in groups if args.only in group.name], args.jobs)


if __name__ == "__main__":
    sys.exit(main())
