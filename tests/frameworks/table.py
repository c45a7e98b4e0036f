# SPDX-License-Identifier: Apache-2.0
"""Table files: a head with the versions, then one entry a line. Standard library only."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).resolve().parent / "tables"
COMMAND = "tests/frameworks/regenerate"


def write(name: str, about: str, versions: dict[str, str], entries: list[dict[str, Any]]) -> Path:
    """Write one table."""
    head = json.dumps({"about": about, "versions": versions, "command": f"{COMMAND} {name}"})
    lines = ",\n".join(json.dumps(entry, separators=(",", ":")) for entry in entries)
    path = FOLDER / f"{name}.json"
    path.write_text(f'{head[:-1]}, "entries": [\n{lines}\n]}}\n')
    return path


def read(name: str) -> dict[str, Any]:
    """Read one table."""
    with open(FOLDER / f"{name}.json", encoding="utf-8") as file:
        result: dict[str, Any] = json.load(file)
    return result
