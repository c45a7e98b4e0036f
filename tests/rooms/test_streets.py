#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The one-way streets between the rooms, proved with the build's own compile commands.

A source that includes a header of a room it may not see must not compile with the flags of its
own room; the same source with a header that it may see must (so that the test can fail). The
programs must not link what belongs to the other side. Inside a room folders stand in an order, and
a file includes its own folder and those before it.

usage: test_streets.py BUILD_DIR   (TAP on stdout)
"""
from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path

# room -> (a source that tells its flags, a header it may see, headers it may not see)
ROOMS = {
    "schemas": ("schemas/src/status.c", "shunt/plan.h",
                ["config/config.h", "space/box.h", "cli.h", "shunt/exec.h", "replay/engine.h"]),
    "planner": ("planner/compile.c", "space/box.h", ["shunt/exec.h", "replay/engine.h", "transport/transport.h"]),
    "executor": ("executor/replay/engine.c", "shunt/exec.h",
                 ["config/config.h", "space/box.h", "emit/file.h", "cli.h"]),
}

# room -> its folders, in the order in which they know each other
FOLDERS = {
    "executor": ["base", "device", "launch", "transport", "replay", "io", "cli"],
    "planner": ["solve", "config", "space", "routing", "place", "schedule", "emit", "cli"],
}

# program -> libraries it must not need
FORBIDDEN = {
    "planner/shunt": ["libucp", "libucs", "libuct", "libnccl", "libcudart"],
    "executor/shunt-exec": ["libyaml", "libglpk", "libcrypto"],
}

# what the executor may need: libc's own libraries, and those of a sanitizer; UCX, CUDA and NCCL are loaded on use
LEAN = ["executor/shunt-exec", "executor/libshunt-exec.so"]
LEAN_BYTES = 300 << 10  # of the library, without the program for GPUs that it carries
LEAN_NEEDS = re.compile(r"(libc|libm|libdl|libpthread|librt|ld-linux[-\w]*|lib(a|ub|t|l)san)\.so\.\d+")


def flags_of(build: Path, source: str) -> list[str] | None:
    """Compiler and flags of a source, without input, output and dependency files."""
    for entry in json.loads((build / "compile_commands.json").read_text()):
        if not entry["file"].endswith(source):
            continue
        words = shlex.split(entry["command"])
        kept, skip = [], False
        for word in words:
            if skip:
                skip = False
            elif word in ("-o", "-c", "-MF", "-MQ", "-MT"):
                skip = True
            elif word not in ("-MD", "-MMD"):
                kept.append(word)
        return kept
    return None


def compiles(build: Path, flags: list[str], header: str) -> bool:
    """Whether a source that includes only `header` compiles with these flags."""
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "street.c"
        source.write_text(f'#include "{header}"\nextern int street_end;\n')
        command = [*flags, "-fsyntax-only", str(source)]
        return subprocess.run(command, cwd=build, capture_output=True, check=False).returncode == 0


def needed(program: Path) -> list[str]:
    """Names of the shared libraries that a program or library asks for."""
    text = subprocess.run(["readelf", "-d", str(program)], capture_output=True, text=True, check=True).stdout
    return [line.split("[")[1].rstrip("]") for line in text.splitlines() if "(NEEDED)" in line]


def text_bytes(build: Path, library: Path) -> int | None:
    """What `size` counts as text, without the fat binary; None where the build is made to look for errors."""
    options = json.loads((build / "meson-info/intro-buildoptions.json").read_text())
    values = {option["name"]: option["value"] for option in options}
    if values.get("b_sanitize", "none") != "none" or values["optimization"] in ("0", "g"):
        return None
    text = subprocess.run(["size", str(library)], capture_output=True, text=True, check=True).stdout
    carried = build / "executor/device/kernel.fatbin"
    return int(text.splitlines()[1].split()[0]) - (carried.stat().st_size if carried.exists() else 0)


def check_lean(build: Path, results: list[tuple[bool | None, str]]) -> None:
    """The executor needs libc alone, and its library is small."""
    for program in LEAN:
        if not os.path.exists(build / program):
            results.append((None, f"{program}: not built here"))
            continue
        names = needed(build / program)
        foreign = [name for name in names if not LEAN_NEEDS.fullmatch(name)]
        results.append(("libc.so.6" in names and not foreign, f"{program} needs libc alone {' '.join(foreign)}".rstrip()))
    library = build / LEAN[-1]
    size = text_bytes(build, library) if library.exists() else None
    results.append((None if size is None else 100 << 10 < size < LEAN_BYTES, f"text of {LEAN[-1]}: {size} bytes"))


def includes_forward(order: list[str], folder: str, text: str) -> list[str]:
    """Headers of later folders that a file of `folder` includes."""
    later = order[order.index(folder) + 1:]
    found = re.findall(r'^#include "(\w+)/([^"]+)"', text, re.MULTILINE)
    return [f"{other}/{name}" for other, name in found if other in later]


def check_folders(results: list[tuple[bool | None, str]]) -> None:
    """No file of a room includes a folder behind its own."""
    root = Path(__file__).resolve().parents[2]
    for room, order in FOLDERS.items():
        sources = [path for folder in order for path in sorted((root / room / folder).glob("*.[ch]"))]
        wrong = [f"{path.relative_to(root)} includes {header}" for path in sources
                 for header in includes_forward(order, path.parent.name, path.read_text())]
        results.append((len(sources) > 10 and not wrong, f"{room}: {' <- '.join(order)} {'; '.join(wrong)}".rstrip()))
    sample = '#include "replay/engine.h"\n#include "base/clock.h"\n'
    results.append((includes_forward(FOLDERS["executor"], "device", sample) == ["replay/engine.h"],
                    "an include of a later folder is seen"))


def main() -> int:
    build = Path(sys.argv[1])
    results: list[tuple[bool | None, str]] = []
    for room, (source, own, foreign) in ROOMS.items():
        flags = flags_of(build, source)
        if flags is None:
            results.append((None, f"{room}: not built here"))
            continue
        results.append((compiles(build, flags, own), f"{room} may include {own}"))
        for header in foreign:
            results.append((not compiles(build, flags, header), f"{room} may not include {header}"))
    check_folders(results)
    for program, libraries in FORBIDDEN.items():
        if not os.path.exists(build / program):
            results.append((None, f"{program}: not built here"))
            continue
        names = needed(build / program)
        for library in libraries:
            results.append((not any(name.startswith(library) for name in names), f"{program} does not need {library}"))
    check_lean(build, results)
    for number, (ok, text) in enumerate(results, 1):
        print(f"{'not ok' if ok is False else 'ok'} {number} - {text}{' # SKIP' if ok is None else ''}")
    print(f"1..{len(results)}")
    return 1 if any(ok is False for ok, _ in results) else 0


if __name__ == "__main__":
    sys.exit(main())
