#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Independent oracle for the compiler and the executor. Prints TAP.

The programs are taken from $SHUNT_BIN_DIR, or build/ of this source tree. Needs the packages of
requirements.txt. The same seed makes the same cases, whatever --jobs says.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from pathlib import Path

from hypothesis.configuration import set_hypothesis_home_dir

sys.path.insert(0, str(Path(__file__).resolve().parent))

import programs
import tap
import test_layout
import test_map
import test_named
import test_random
import test_refusals


def options() -> argparse.Namespace:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", type=int, default=200, help="random moves (200)")
    parser.add_argument("--seed", type=int, default=1, help="seed of the random moves (1)")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="groups at a time (one per core)")
    parser.add_argument("--only", default="", metavar="TEXT", help="run the groups whose name contains TEXT")
    parser.add_argument("--shrink", action="store_true", help="look for a smaller case when a random move fails")
    return parser.parse_args()


def main() -> int:
    """Run the groups."""
    args = options()
    missing = [name for name in ("shunt", "shunt-exec") if not programs.binary(name).exists()]
    if missing:
        print(f"not built: {', '.join(str(programs.binary(name)) for name in missing)}", file=sys.stderr)
        return 3
    set_hypothesis_home_dir(Path(tempfile.gettempdir()) / "shunt-hypothesis")
    groups = test_layout.groups(args.seed) + test_map.groups(args.seed) + test_named.groups() + test_refusals.groups()
    groups += test_random.groups(args.seed, args.cases, args.shrink)
    return tap.report([group for group in groups if args.only in group.name], args.jobs)


if __name__ == "__main__":
    sys.exit(main())
