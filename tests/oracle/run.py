#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Independent oracle for the compiler and the executor. Prints TAP.

The programs are taken from $SHUNT_BIN_DIR, or build/ of this source tree. Needs the packages of
requirements.txt. The same seed makes the same cases, whatever --jobs says.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

from hypothesis.configuration import set_hypothesis_home_dir

sys.path.insert(0, str(Path(__file__).resolve().parent))

import runner
import tap
import test_layout
import test_map
import test_named
import test_random
import test_refusals


def make_groups(args: argparse.Namespace) -> list[tap.Group]:
    """All groups, in the order of the report."""
    set_hypothesis_home_dir(Path(tempfile.gettempdir()) / "shunt-hypothesis")
    groups = test_layout.groups(args.seed) + test_map.groups(args.seed) + test_named.groups() + test_refusals.groups()
    return groups + test_random.groups(args.seed, args.cases, args.shrink)


def main() -> int:
    """Run the groups."""
    parser = runner.parser(__doc__, 200)
    parser.add_argument("--shrink", action="store_true", help="look for a smaller case when a random move fails")
    return runner.run(parser.parse_args(), make_groups)


if __name__ == "__main__":
    sys.exit(main())
