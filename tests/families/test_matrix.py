# SPDX-License-Identifier: Apache-2.0
"""Twelve families of layouts, each as the old and as the new side of a move, on three small models.

One letter for each cell: r replayed in numpy, x run by the executor; capitals are failures: P plan
refused, V verify, B the printed boxes, R replay, X executor.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import cells
import families
import toys
from cells import BadCell, OracleError
from rules import Document
from tap import Group


def prepare(folder: Path, model: str) -> list[tuple[tuple[Path, Document], tuple[Path, Document]]]:
    """Write both members of each family; returns (path, layout by the rules) of the old and the new one."""
    cells.write_model(folder, toys.MODELS[model]())
    result = []
    for number, family in enumerate(families.FAMILIES):
        old, new = family(model)
        paths = [cells.write(folder / f"{number}-{side}.yaml", l) for side, l in (("old", old), ("new", new))]
        if number == families.HOLDINGS:
            paths[1] = cells.explicit(paths[1], folder / f"{number}-explicit.yaml")
        result.append(((paths[0], old), (paths[1], new)))
    return result


def one_cell(folder: Path, model: Document, old: tuple[Path, Document], new: tuple[Path, Document], how: str) -> str:
    """Letter of one cell, and the reason when it is a capital."""
    try:
        sides = cells.sides_of(model, old[1], new[1])
        return cells.check_move((old[0], new[0]), sides, folder / "cell.plan", how)
    except BadCell as error:
        return f"{error.letter}{error}"
    except OracleError as error:
        return f"P{error}"


def rows(model: str, numbers: tuple[int, ...]) -> tuple[list[str], list[str]]:
    """Some rows of a model's matrix, and the failures in them."""
    lines, failures = [], []
    with tempfile.TemporaryDirectory(prefix="shunt-families-") as name:
        sides = prepare(Path(name), model)
        for a in numbers:
            letters = ""
            for b in range(len(sides)):
                how = "execute" if (a + b) % 3 == 2 else "replay"
                cell = one_cell(Path(name), toys.MODELS[model](), sides[a][0], sides[b][1], how)
                letters += cell[0]
                if cell[0].isupper():
                    failures.append(f"{families.NAMES[a]} -> {families.NAMES[b]}: {cell}")
            lines.append(f"{letters}  {a + 1:2} {families.NAMES[a]}")
    return lines, failures


def matrix(model: str, numbers: tuple[int, ...]) -> str:
    """Check some rows; the remark holds their letters."""
    lines, failures = rows(model, numbers)
    text = "".join(f"\n# {line}" for line in lines)
    if failures:
        raise OracleError(text.lstrip("\n# ") + "\n" + "\n".join(failures[:12]) + f"\n{len(failures)} cells failed")
    return f"{len(lines) * len(families.FAMILIES)} cells" + text


def groups() -> list[Group]:
    """One group for each model."""
    everything = tuple(range(len(families.FAMILIES)))
    return [Group(f"matrix of 12 x 12 families, {model}", matrix, (model, everything)) for model in toys.MODELS]
