# SPDX-License-Identifier: Apache-2.0
"""Runs `shunt` and `shunt-exec` and reads what they print."""

from __future__ import annotations

import json
import os
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
TIMEOUT_SECONDS = 120


class OracleError(AssertionError):
    """A program did not do what the oracle says is right."""


@dataclass
class Outcome:
    """What one run of a program left behind."""

    command: list[str]
    code: int
    out: str
    err: str

    def text(self) -> str:
        """Command, exit code and both streams, for a failure's report."""
        return f"$ {' '.join(self.command)}\nexit {self.code}\n{self.out[-3000:]}{self.err[-3000:]}"


def binary(name: str) -> Path:
    """Path of a program in the build folder, $SHUNT_BIN_DIR or build/."""
    build = Path(os.environ.get("SHUNT_BIN_DIR") or ROOT / "build")
    room = "executor" if name == "shunt-exec" else "planner"
    return (build if build.is_absolute() else Path.cwd() / build) / room / name


def run(name: str, *arguments: object) -> Outcome:
    """Run a program to its end, whatever its exit code."""
    command = [str(binary(name))] + [str(argument) for argument in arguments]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_SECONDS, check=False)
    except subprocess.TimeoutExpired as error:
        raise OracleError(f"$ {' '.join(command)}\nno end after {TIMEOUT_SECONDS} s") from error
    return Outcome(command, done.returncode, done.stdout, done.stderr)


def succeed(name: str, *arguments: object) -> Outcome:
    """Run a program that must exit 0."""
    outcome = run(name, *arguments)
    if outcome.code != 0:
        raise OracleError(outcome.text())
    return outcome


def refused(name: str, *arguments: object, code: int = 1) -> str:
    """Run a program that must refuse with `code`; returns what it said on stderr."""
    outcome = run(name, *arguments)
    if outcome.code != code:
        raise OracleError(f"expected exit {code}\n{outcome.text()}")
    if not outcome.err.strip():
        raise OracleError(f"refused without a message\n{outcome.text()}")
    return outcome.err


def plan(from_path: Path, to_path: Path, out: Path, *options: object) -> Outcome:
    """`shunt plan`, which must succeed."""
    return succeed("shunt", "plan", from_path, to_path, "-o", out, *options)


def inspect(path: Path) -> dict[str, Any]:
    """`shunt inspect --json`."""
    return json.loads(succeed("shunt", "inspect", path, "--json").out)


def lines(path: Path, what: str) -> list[dict[str, Any]]:
    """JSON lines of `shunt inspect --ops` or `--buffers`."""
    return [json.loads(line) for line in succeed("shunt", "inspect", path, what).out.splitlines() if line.strip()]
