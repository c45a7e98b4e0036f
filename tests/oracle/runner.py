# SPDX-License-Identifier: Apache-2.0
"""What the programs run.py of oracle/ and families/ share: command line, missing programs, report."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable

import programs
import tap


def parser(about: str | None, cases: int) -> argparse.ArgumentParser:
    """The options that both have."""
    made = argparse.ArgumentParser(description=about, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("--cases", type=int, default=cases, help=f"random moves ({cases})")
    made.add_argument("--seed", type=int, default=1, help="seed of the random moves (1)")
    made.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="groups at a time (one per core)")
    made.add_argument("--only", default="", metavar="TEXT", help="run the groups whose name contains TEXT")
    return made


def run(args: argparse.Namespace, make_groups: Callable[[argparse.Namespace], list[tap.Group]]) -> int:
    """Run the groups that were asked for; returns the exit code."""
    missing = [name for name in ("shunt", "shunt-exec") if not programs.binary(name).exists()]
    if missing:
        print(f"not built: {', '.join(str(programs.binary(name)) for name in missing)}", file=sys.stderr)
        return 3
    return tap.report([group for group in make_groups(args) if args.only in group.name], args.jobs)
