# SPDX-License-Identifier: Apache-2.0
"""Runs the programs and measures them: seconds, processor seconds, memory."""

from __future__ import annotations

import hashlib
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
LAYOUTS = ROOT / "plans" / "layouts"
TIME = "/usr/bin/time"
REFUSED = 1  # exit code of shunt and shunt-exec


class Refused(Exception):
    """A program refused its input; the text is what it said."""


@dataclass(frozen=True)
class Run:
    """What one run of a program took and printed."""

    seconds: float
    cpu_seconds: float
    peak_bytes: int
    out: str


def note(text: str) -> None:
    """Progress, on stderr."""
    print(text, file=sys.stderr, flush=True)


def program(room: str, name: str) -> str:
    """A program of the build folder, $SHUNT_BIN_DIR or build/."""
    path = Path(os.environ.get("SHUNT_BIN_DIR") or ROOT / "build") / room / name
    if not path.exists():
        sys.exit(f"{path}: not built")
    return str(path)


def shunt() -> str:
    """The compiler."""
    return program("planner", "shunt")


def digest(path: str) -> str:
    """SHA-256 of a file, which tells programs apart."""
    return hashlib.sha256(Path(path).read_bytes()).hexdigest()


def timed(*command: object) -> Run:
    """Run a command to its end; raises Refused where it refuses.

    The kernel counts the memory of the process that starts a program towards its peak, so a small
    starter, time(1), is used where there is one; without it the peak is at least this script's own.
    """
    words = [str(word) for word in command]
    with tempfile.NamedTemporaryFile() as peak, tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        starter = [TIME, "-q", "-o", peak.name, "-f", "%M"] if os.path.exists(TIME) else []
        start = time.perf_counter()
        process = subprocess.Popen([*starter, *words], stdout=out, stderr=err)
        _, status, usage = os.wait4(process.pid, 0)
        seconds = time.perf_counter() - start
        process.returncode = os.waitstatus_to_exitcode(status)
        out.seek(0)
        err.seek(0)
        if process.returncode != 0:
            fail(words, process.returncode, err.read().decode())
        kibibytes = int(peak.read().split()[-1]) if starter else usage.ru_maxrss
        return Run(seconds, usage.ru_utime + usage.ru_stime, kibibytes * 1024, out.read().decode())


def fail(words: list[str], code: int, said: str) -> None:
    """End with what the program said; a refusal may be of interest to the caller."""
    if code == REFUSED:
        raise Refused(said.strip())
    sys.exit(f"exit {code}: {' '.join(words)}\n{said}")


def median(runs: int, *command: object) -> Run:
    """Medians of seconds, and the largest peak, of some runs."""
    results = [timed(*command) for _ in range(runs)]
    return Run(
        statistics.median(r.seconds for r in results),
        statistics.median(r.cpu_seconds for r in results),
        max(r.peak_bytes for r in results),
        results[-1].out,
    )


def inspect(plan: Path) -> dict[str, Any]:
    """The figures of a plan."""
    return json.loads(timed(shunt(), "inspect", plan, "--json").out)


def layout_figures(layout: object) -> dict[str, Any]:
    """What `shunt layout` says of a layout."""
    return json.loads(timed(shunt(), "layout", layout, "--json").out)
