# SPDX-License-Identifier: Apache-2.0
"""The map of one layout as `shunt layout` prints it, and the documents against the published JSON schemas."""

from __future__ import annotations

import json
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

import jsonschema
import numpy as np
import yaml

import programs
from cases import Case, for_each
from layout import coordinates
from moves import Move
from programs import OracleError
from tap import Group
from values import Space


@cache
def validator(kind: str) -> Any:
    """Validator of one kind of document."""
    schema = json.loads((programs.ROOT / "schemas" / f"{kind}.schema.json").read_text())
    return jsonschema.validators.validator_for(schema)(schema)


def check_document(path: Path) -> None:
    """A document that the compiler reads must fit its schema."""
    document = yaml.safe_load(path.read_text())
    for error in validator(document["kind"]).iter_errors(document):
        raise OracleError(f"{path.name}: {error.json_path}: {error.message}")


def check_map(move: Move, side: int, rank: int) -> None:
    """What `shunt layout --rank` prints about one rank."""
    layout = move.layouts[side]
    found = json.loads(programs.succeed("shunt", "layout", move.paths[side], "--rank", rank, "--json").out)
    local = Space(move.model, layout).local(layout, rank, False)
    at = coordinates(layout, rank)
    want = (rank, layout.device_of(rank), sum(array.nbytes for _, array in local.values()))
    got = (found["rank"], found["device"], found["bytes"])
    if got != want or any(found["at"][axis] != at[axis] for axis in ("tp", "cp", "dp", "pp")):
        raise OracleError(f"{move.paths[side].name} rank {rank}: {got} at {found['at']}, want {want} at {at}")
    items = {(item["state"], item["tensor"]): item for item in found["tensors"]}
    if set(items) != set(local) or len(items) != len(found["tensors"]):
        raise OracleError(f"{move.paths[side].name} rank {rank}: entries {sorted(set(items) ^ set(local))}")
    indices = index_space(move, side).local(layout, rank, False)
    for key, (entry, array) in indices.items():
        check_item(items[key], entry.dtype, entry.shape, array)


def index_space(move: Move, side: int) -> Space:
    """A space whose contents are the elements' numbers, from 1 on; pads are 0."""
    space = Space(move.model, move.layouts[side])
    space.whole = {k: np.arange(1, w.size + 1).reshape(w.shape) for k, w in space.whole.items()}
    return space


def check_item(item: dict[str, Any], dtype: str, shape: tuple[int, ...], local: np.ndarray) -> None:
    """One array of a rank: shapes, boxes and pads."""
    numbers = np.arange(1, int(np.prod(shape)) + 1).reshape(shape)
    held = [numbers[tuple(slice(low, high) for low, high in box)].reshape(-1) for box in item["boxes"]]
    got = np.sort(np.concatenate(held)) if held else np.array([], int)
    pads = sum(int(np.prod([high - low for low, high in box])) for box in item["pads"])
    if (item["dtype"], tuple(item["shape"]), tuple(item["local_shape"])) != (dtype, shape, local.shape):
        raise OracleError(f"want {dtype} {local.shape} of {shape}: {item}")
    if not np.array_equal(got, np.sort(local[local > 0], axis=None)) or pads != int((local == 0).sum()):
        raise OracleError(f"boxes or pads: {item}")


def check_case(case: Case) -> None:
    """First and last rank of both layouts, and all documents."""
    with tempfile.TemporaryDirectory(prefix="shunt-oracle-") as name:
        move = Move(Path(name), case.model, case.layouts, case.cluster).write()
        try:
            for path in move.folder.glob("*.yaml"):
                check_document(path)
            for side, layout in enumerate(case.layouts):
                for rank in sorted({0, layout.world() - 1}):
                    check_map(move, side, rank)
        except OracleError as error:
            raise OracleError(f"{error}\n{move.described()}") from None


def random_maps(seed_value: int, count: int) -> str:
    """Maps and documents of random moves."""
    return f"{for_each(seed_value, count, check_case)} cases"


def plans_fit_schemas() -> str:
    """The documents that come with the project."""
    paths = sorted((programs.ROOT / "plans").glob("[mcl]*/*.yaml"))
    for path in paths:
        if yaml.safe_load(path.read_text()).get("kind") in ("model", "cluster", "layout"):
            check_document(path)
    return f"{len(paths)} documents"


def groups(seed_value: int) -> list[Group]:
    """Groups of this file."""
    return [
        Group("documents of plans/ fit the JSON schemas", plans_fit_schemas),
        Group("maps of random layouts", random_maps, (seed_value, 60)),
    ]
