#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Holds the layouts that `shunt layout` prints against the tables of the frameworks.

usage: SHUNT_BIN=build/planner/shunt test_tables.py [TABLE...]

Each entry of a table becomes a model and a layout document; every rank's map is compared. The
report is TAP, one line an entry; a failure prints both documents. Standard library only.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property
from pathlib import Path
from typing import Any

import documents
import table
from documents import Entry
from runs import PAD, Run, box_runs, count, cut, merge, shunt_runs, slice_runs

DIGITS = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ-_"
TIMEOUT_SECONDS = 60


class Difference(Exception):
    """Shunt and a table do not agree."""


# ---- Shunt --------------------------------------------------------------------------------


class Shunt:
    """The layout of one entry, as Shunt prints it."""

    def __init__(self, folder: Path, entry: Entry) -> None:
        self.path = documents.write(folder, entry)

    def run(self, *options: str) -> subprocess.CompletedProcess[str]:
        """`shunt layout` on the entry's documents."""
        command = [os.environ["SHUNT_BIN"], "layout", str(self.path), *options]
        return subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_SECONDS, check=False)

    def json(self, *options: str) -> dict[str, Any]:
        """The printed object."""
        done = self.run(*options, "--json")
        if done.returncode != 0:
            raise Difference(f"shunt exits {done.returncode}: {done.stderr.strip()}")
        result: dict[str, Any] = json.loads(done.stdout)
        return result

    @cached_property
    def ranks(self) -> list[dict[str, Any]]:
        """The maps of all ranks; `held` finds a buffer by state and tensor."""
        ranks: list[dict[str, Any]] = self.json("--all-ranks")["ranks"]
        for printed in ranks:
            printed["held"] = {(item["state"], item["tensor"]): item for item in printed["tensors"]}
        return ranks

    def expect_refusal(self) -> None:
        """The documents must be refused with a message."""
        done = self.run()
        if done.returncode != 1 or not done.stderr:
            raise Difference(f"shunt exits {done.returncode}, expected a refusal: {done.stderr.strip()}")


def equal(what: str, found: object, wanted: object) -> None:
    """Raise unless both are the same."""
    if found != wanted:
        raise Difference(f"{what}: shunt says {found}, the framework {wanted}")


def equal_sets(what: str, found: set[str], wanted: set[str]) -> None:
    """Raise unless both sets are the same; names what is over and what is missing."""
    if found != wanted:
        raise Difference(
            f"{what}: shunt has beyond the framework {sorted(found - wanted)}, lacks {sorted(wanted - found)}"
        )


def names_held(printed: dict[str, Any], state: str) -> set[str]:
    """Tensors whose state a rank holds."""
    return {tensor for held, tensor in printed["held"] if held == state}


# ---- grids ----------------------------------------------------------------------------------


def grid_documents(entry: Entry) -> Entry:
    """A dense tensor and experts whose rows name the place on each grid."""
    size = {axis: documents.size(entry, axis) for axis in ("tp", "cp", "dp", "pp", "ep", "etp")}
    edp = documents.world(entry) // (size["etp"] * size["ep"] * size["pp"])
    dense = size["tp"] * size["cp"] * size["dp"]
    return entry | {
        "layers": size["pp"],
        "experts": 2 * size["ep"],
        "tensors": [
            ["L{i}.dense", [dense, 2], {"cut": {"dim": 0}}],
            ["L{i}.x{e}.w", [size["etp"] * edp, 2], {"cut": {"dim": 0}}],
        ],
        "layout": entry["layout"] | {"shard": {"rule": "fsdp2"}},
        "edp": edp,
    }


def check_grid_rank(entry: Entry, printed: dict[str, Any], at: dict[str, int]) -> None:
    """Coordinates, and the rows and experts that follow from them."""
    what = f"rank {printed['rank']}"
    equal(f"{what}: coordinates", printed["at"], {axis: at[axis] for axis in ("tp", "cp", "ep", "dp", "pp")})
    shards = documents.size(entry, "cp") * documents.size(entry, "dp")
    rows = {f"L{at['pp']}.dense": at["tp"] * shards + at["dpcp"]}
    for e in (2 * at["ep"], 2 * at["ep"] + 1):
        rows[f"L{at['pp']}.x{e}.w"] = at["etp"] * entry["edp"] + at["edp"]
    equal_sets(f"{what}: tensors", names_held(printed, "param"), set(rows))
    for name, row in rows.items():
        equal(f"{what}: {name}", printed["held"]["param", name]["boxes"], [[[row, row + 1], [0, 2]]])


def check_grid(entry: Entry, folder: Path) -> None:
    """All ranks, or a refusal."""
    entry = grid_documents(entry)
    shunt = Shunt(folder, entry)
    if "refused" in entry:
        return shunt.expect_refusal()
    for rank in range(documents.world(entry)):
        at = {axis: DIGITS.index(digits[rank]) for axis, digits in entry["want"].items()}
        check_grid_rank(entry, shunt.ranks[rank], at)
    return None


# ---- pipelines --------------------------------------------------------------------------------


def pipeline_documents(entry: Entry) -> Entry:
    """A tensor per layer and one for each module that has a place of its own."""
    embedding: dict[str, Any] = {"stage": "first"}
    tensors: list[Any] = [
        ["E", [2], embedding],
        ["L{i}", [2]],
        ["F", [2], {"stage": "final"}],
        ["L", [2], {"stage": "last"}],
    ]
    if entry.get("mtp"):
        embedding["tied"] = "mtp"  # the block has a copy of the embedding unless it stands beside it
        tensors.append(["m", [2], {"stage": "mtp"}])
    return entry | {"tensors": tensors}


def check_pipeline(entry: Entry, folder: Path) -> None:
    """Layers of all chunks, and what each stage has, or a refusal."""
    shunt = Shunt(folder, pipeline_documents(entry))
    if "refused" in entry:
        return shunt.expect_refusal()
    stages = documents.size(entry, "pp")
    bounds = [at for (at, _), _ in entry["want"]] + [entry["layers"]]
    equal("chunk_layers", shunt.json()["chunk_layers"], bounds)
    for stage in range(stages):
        wanted = set()
        for (at, layers), letters in entry["want"][stage::stages]:
            wanted |= {f"L{i}" for i in range(at, at + layers)} | set(letters) | ({"E"} if "m" in letters else set())
        equal_sets(f"stage {stage}", names_held(shunt.ranks[stage], "param"), wanted)
    return None


# ---- vocabularies --------------------------------------------------------------------------------


def check_vocabulary(entry: Entry, folder: Path) -> None:
    """Rows and pads of all slices."""
    rows = entry["rows"]
    tensors = [["V", [rows, 1], {"stage": "all", "cut": {"dim": 0, "pad": "vocab"}}]]
    shunt = Shunt(folder, entry | {"tensors": tensors})
    for rank, (low, high) in enumerate(entry["want"][1]):
        item = shunt.ranks[rank]["held"]["param", "V"]
        held = merge([(low, max(0, min(high, rows) - low)), (PAD, high - max(low, min(high, rows)))])
        equal(f"rank {rank}", (item["local_shape"], shunt_runs(item)), ([high - low, 1], held))


# ---- what lies in buffers -------------------------------------------------------------------------


def tensor_parts(entry: Entry, name: str, rank: int) -> list[Run]:
    """A tensor on its tensor-parallel rank, in memory order. Both tp and etp vary fastest in these tables."""
    pattern, shape, keys = documents.family_of(entry, name)
    parts = documents.size(entry, "etp" if "{e}" in pattern else "tp")
    return slice_runs(shape, keys, rank % parts, parts, entry["layout"].get("vocab", {}))


def check_flat(what: str, item: dict[str, Any] | None, wanted: list[Run]) -> None:
    """A one-dimensional buffer, or none where nothing is owned."""
    if not wanted:
        if item is not None:
            raise Difference(f"{what}: shunt has {item['local_shape']}, the framework nothing")
        return
    if item is None:
        raise Difference(f"{what}: shunt has nothing, the framework {wanted}")
    equal(f"{what}: elements", item["local_shape"], [count(wanted)])
    equal(f"{what}: contents (start, length)", shunt_runs(item), wanted)


def check_whole(what: str, item: dict[str, Any], wanted: list[Run]) -> None:
    """A buffer in the local tensor's own shape."""
    elements = 1
    for extent in item["local_shape"]:
        elements *= extent
    equal(f"{what}: elements", elements, count(wanted))
    equal(f"{what}: contents (start, length)", shunt_runs(item), wanted)


def read_places(text: str) -> dict[str, tuple[int, int]]:
    """`name=start/bucket ...`"""
    places = {}
    for word in text.split():
        name, _, place = word.partition("=")
        start, _, bucket = place.partition("/")
        places[name] = (int(start), int(bucket))
    return places


def check_buffer_rank(entry: Entry, printed: dict[str, Any], names: dict[str, tuple[int, int]]) -> None:
    """Weights whole, moments by the owner's part of each bucket."""
    rank, want = printed["rank"], entry["want"]
    equal_sets(f"rank {rank}: weights", names_held(printed, "param"), set(names))
    for name, (start, bucket) in names.items():
        parts = tensor_parts(entry, name, rank)
        expert = own_buffer(entry, name)
        size = bucket // want["shards"][expert]
        shard = DIGITS.index(want["expert" if expert else "dense"][rank])
        owned = cut(parts, max(0, shard * size - start), max(0, (shard + 1) * size - start))
        check_flat(f"rank {rank}: exp_avg of {name}", printed["held"].get(("exp_avg", name)), owned)
        check_whole(f"rank {rank}: {name}", printed["held"]["param", name], parts)


def own_buffer(entry: Entry, name: str) -> bool:
    """Whether a tensor lies in the experts' buffers."""
    return "{e}" in documents.family_of(entry, name)[0] and documents.size(entry, "ep") > 1


def held_experts(entry: Entry, rank: int, names: dict[str, tuple[int, int]]) -> dict[str, tuple[int, int]]:
    """Without the experts of other ranks."""
    ep, etp = documents.size(entry, "ep"), documents.size(entry, "etp")
    first = rank // etp % ep * (entry.get("experts", 1) // ep)
    mine = range(first, first + entry.get("experts", 1) // ep)
    result = {}
    for name, place in names.items():
        pattern = documents.family_of(entry, name)[0]
        if "{e}" not in pattern or documents.names_of(entry, pattern)[name][1] in mine:
            result[name] = place
    return result


def check_buffers(entry: Entry, folder: Path) -> None:
    """Flat buffers: all ranks."""
    shunt = Shunt(folder, entry)
    stages = [read_places(text) for text in entry["want"]["places"]]
    for rank in range(documents.world(entry)):
        printed = shunt.ranks[rank]
        names = held_experts(entry, rank, stages[printed["at"]["pp"]])
        check_buffer_rank(entry, printed, names)
        equal_sets(f"rank {rank}: moments", names_held(printed, "exp_avg") - set(names), set())


# ---- rows, flat parameters, ZeRO -------------------------------------------------------------------


def read_box(text: str) -> list[list[int]]:
    """`0-3,0-4`"""
    return [[int(end) for end in side.split("-")] for side in text.split(",")]


def check_rows(entry: Entry, folder: Path) -> None:
    """Boxes of all ranks, in weights and in moments; or a refusal."""
    shunt = Shunt(folder, entry)
    if "refused" in entry:
        return shunt.expect_refusal()
    equal("ranks", shunt.json()["ranks"], len(entry["want"]))
    for rank, text in enumerate(entry["want"]):
        held = shunt.ranks[rank]["held"]
        for (name, shape, *_), box in zip(entry["tensors"], map(read_box, text.split()), strict=True):
            for state in documents.STATE:
                item = held[state, name]
                what = f"rank {rank}: {state} of {name}"
                equal(f"{what}: local shape", item["local_shape"], [high - low for low, high in box])
                equal(f"{what}: contents (start, length)", shunt_runs(item), merge(box_runs(shape, box)))
    return None


def read_ranges(text: str) -> dict[str, tuple[int, int, int]]:
    """`name=begin-end/length ...`; without a length the range fills its buffer."""
    result = {}
    for word in text.split():
        name, _, span = word.partition("=")
        if name != "pad":
            ends, _, length = span.partition("/")
            begin, end = map(int, ends.split("-"))
            result[name] = (begin, end, int(length or end - begin))
    return result


def check_ranges(entry: Entry, folder: Path) -> None:
    """Flat ranges of all ranks. Pads behind a whole group belong to no tensor, and Shunt keeps none."""
    shunt = Shunt(folder, entry)
    rule = entry["layout"]["shard"]["rule"]
    equal("ranks", shunt.json()["ranks"], len(entry["want"]))
    states = ("exp_avg",) if rule in ("zero1", "zero2") else tuple(documents.STATE)
    for rank, text in enumerate(entry["want"]):
        printed, ranges = shunt.ranks[rank], read_ranges(text)
        for state in states:
            equal_sets(f"rank {rank}: {state}", names_held(printed, state), set(ranges))
            for name, (begin, end, length) in ranges.items():
                wanted = cut(tensor_parts(entry, name, rank), begin, end)
                wanted = merge([*wanted, (PAD, length - (end - begin))])
                check_flat(f"rank {rank}: {state} of {name}", printed["held"][state, name], wanted)


# ---- report -----------------------------------------------------------------------------------------

CHECKS: dict[str, Callable[[Entry, Path], None]] = {
    "grids": check_grid,
    "pipelines": check_pipeline,
    "vocabularies": check_vocabulary,
    "buffers": check_buffers,
    "models": check_buffers,
    "ties": check_buffers,
    "experts": check_buffers,
    "rows": check_rows,
    "flats": check_ranges,
    "shards": check_ranges,
}


def failure(folder: Path, text: str) -> str:
    """Why an entry fails, with the documents that show it."""
    lines = text.splitlines()
    for path in sorted(folder.glob("*.yaml")):
        lines.append(f"{path.name}: {path.read_text()}")
    return "\n".join(f"# {line}" for line in lines)


def run_entry(job: tuple[str, Entry]) -> str | None:
    """Check one entry; returns the text of a failure."""
    name, entry = job
    with tempfile.TemporaryDirectory(prefix="shunt-frameworks-") as folder:
        try:
            CHECKS[name](entry, Path(folder))
        except Difference as difference:
            return failure(Path(folder), str(difference))
        except Exception:  # a fault of the test is a failure of its entry, not the end of the run
            return failure(Path(folder), traceback.format_exc())
    return None


def main() -> int:
    """Run all entries of the named tables, or of all."""
    if "SHUNT_BIN" not in os.environ:
        print("test_tables.py: SHUNT_BIN is not set, expected the path of `shunt`", file=sys.stderr)
        return 2
    jobs = [(name, entry) for name in sys.argv[1:] or CHECKS for entry in table.read(name)["entries"]]
    print(f"TAP version 13\n1..{len(jobs)}", flush=True)
    failed = 0
    with ThreadPoolExecutor(2) as pool:
        for number, ((name, entry), text) in enumerate(zip(jobs, pool.map(run_entry, jobs), strict=True), 1):
            label = json.dumps(entry["layout"]["parallel"], separators=(",", ":")).strip("{}").replace('"', "")
            print(f"{'ok' if text is None else 'not ok'} {number} - {name}: {label}", flush=True)
            if text is not None:
                failed += 1
                print(text, flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
