#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""All layout families against an independent set of layout rules. Prints TAP.

The programs are taken from $SHUNT_BIN_DIR, or build/ of this source tree. Needs numpy. The same
seed makes the same cases, whatever --jobs says.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

import cells  # noqa: F401  (adds the folder of the shared modules to the path)
import runner
import tap
import test_beside
import test_cases
import test_matrix
import test_mutants
import test_random
import test_states
import test_wire


def make_groups(args: argparse.Namespace) -> list[tap.Group]:
    """All groups, in the order of the report."""
    groups = test_cases.groups() + test_beside.groups() + test_states.groups() + test_matrix.groups()
    groups += test_mutants.groups() + test_wire.groups()
    return groups + test_random.groups(args.seed, args.cases)


def main() -> int:
    """Run the groups."""
    return runner.run(runner.parser(__doc__, 500).parse_args(), make_groups)


if __name__ == "__main__":
    sys.exit(main())
