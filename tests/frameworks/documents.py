# SPDX-License-Identifier: Apache-2.0
"""Entries of the tables as documents that `shunt` reads. Standard library only.

An entry's `tensors` are lists [name, shape, other keys of the model document]. JSON is YAML
too, so documents are written with `json`.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

Entry = dict[str, Any]
STATE = {"param": "bf16", "exp_avg": "fp32"}


def model_document(entry: Entry) -> dict[str, Any]:
    """The `kind: model` document of an entry."""
    document: dict[str, Any] = {"kind": "model", "name": "frameworks", "layers": entry.get("layers", 1)}
    if "experts" in entry:
        document["experts"] = entry["experts"]
    document["tensors"] = [
        {"name": name, "shape": shape, **(rest[0] if rest else {})} for name, shape, *rest in entry["tensors"]
    ]
    return document


def layout_document(entry: Entry) -> dict[str, Any]:
    """The `kind: layout` document of an entry."""
    document: dict[str, Any] = {"kind": "layout", "name": "frameworks", "model": "model.yaml", "state": STATE}
    return {**document, **entry["layout"]}


def write(folder: Path, entry: Entry) -> Path:
    """Write both documents; returns the layout's path."""
    (folder / "model.yaml").write_text(json.dumps(model_document(entry)))
    path = folder / "layout.yaml"
    path.write_text(json.dumps(layout_document(entry)))
    return path


def size(entry: Entry, axis: str) -> int:
    """Degree of one axis of an entry's layout."""
    parallel = entry["layout"]["parallel"]
    if axis == "etp":
        return int(parallel.get("etp", parallel.get("tp", 1)))
    return int(parallel.get(axis, 1))


def world(entry: Entry) -> int:
    """Number of ranks."""
    return size(entry, "tp") * size(entry, "cp") * size(entry, "dp") * size(entry, "pp")


def family_of(entry: Entry, name: str) -> tuple[str, list[int], dict[str, Any]]:
    """The family that a global tensor name belongs to: pattern, shape, other keys."""
    for pattern, shape, *rest in entry["tensors"]:
        if name in names_of(entry, pattern):
            return pattern, shape, rest[0] if rest else {}
    raise KeyError(name)


def names_of(entry: Entry, pattern: str) -> dict[str, tuple[int, int]]:
    """All global names of a family, with layer and expert."""
    layers = range(entry.get("layers", 1)) if "{i}" in pattern else range(1)
    experts = range(entry.get("experts", 1)) if "{e}" in pattern else range(1)
    return {pattern.replace("{i}", str(i)).replace("{e}", str(e)): (i, e) for i in layers for e in experts}
