# SPDX-License-Identifier: Apache-2.0
"""Groups of checks, run in a pool of processes and reported in TAP, always in the same order."""

from __future__ import annotations

import traceback
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass


class Skip(Exception):
    """Raised by a check that cannot run here; its text says why."""


@dataclass(frozen=True)
class Group:
    """One line of the report. `check` returns a remark for the line, or raises."""

    name: str
    check: Callable[..., str | None]
    arguments: tuple[object, ...] = ()


@dataclass(frozen=True)
class Result:
    """How a group went."""

    status: str  # passed, failed, skipped
    text: str


def run_group(group: Group) -> Result:
    """Run one group; never raises."""
    try:
        return Result("passed", group.check(*group.arguments) or "")
    except Skip as skip:
        return Result("skipped", str(skip))
    except AssertionError as error:
        return Result("failed", str(error))
    except Exception:  # a fault of the test itself is a failure of the group, not of the run
        return Result("failed", traceback.format_exc())


def report(groups: list[Group], jobs: int) -> int:
    """Run all groups and print TAP; returns the exit code."""
    failed = 0
    print(f"TAP version 13\n1..{len(groups)}", flush=True)
    with ProcessPoolExecutor(jobs) as pool:
        for number, (group, result) in enumerate(zip(groups, pool.map(run_group, groups)), 1):
            print(text_of(number, group.name, result), flush=True)
            failed += result.status == "failed"
    return 1 if failed else 0


def text_of(number: int, name: str, result: Result) -> str:
    """TAP text of a result: a remark's first line with it, the others, comments, behind it."""
    if result.status == "failed":
        return line(number, name, result)
    first, *rest = result.text.splitlines() or [""]
    return "\n".join([line(number, name, Result(result.status, first)), *rest])


def line(number: int, name: str, result: Result) -> str:
    """TAP text of one result."""
    if result.status == "failed":
        detail = "\n".join(f"# {row}" for row in result.text.rstrip().splitlines())
        return f"not ok {number} - {name}\n{detail}"
    if result.status == "skipped":
        return f"ok {number} - {name} # SKIP {result.text}"
    return f"ok {number} - {name}" + (f" ({result.text})" if result.text else "")
