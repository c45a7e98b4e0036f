# SPDX-License-Identifier: Apache-2.0
"""State beside the tensors, by its written rules: what a move copies, and what each rank holds of it.

A second implementation, from plans/README.md. An entry is a dictionary with the keys of the model document.
"""

from __future__ import annotations

from math import prod

import numpy as np

import rules
from rules import Document, Key, Local, Side

SLOWEST_FIRST = ("pp", "dp", "cp", "ep", "etp", "tp")
DATA_PARALLEL = ("dp", "dp_replicate", "dp_shard", "fsdp")
ALWAYS = ("iteration", "optimizer.step", "lr_scheduler.samples", "data.consumed_samples")
MORE = ("data.consumed_valid_samples", "data.skipped_samples")
STREAMS = {"rng.python": 8192, "rng.numpy": 4096, "rng.torch": 5056, "rng.cuda": 16, "rng.data_parallel": 16}


def stream(name: str, size: int, *per: str) -> Document:
    """A random stream."""
    return {"name": name, "bytes": size, "policy": "copy-if-same", "per": list(per), "otherwise": "reseed"}


def megatron(experts: bool, fp16: bool) -> list[Document]:
    """What `include: megatron-state` and `megatron-state-fp16` stand for."""
    result: list[Document] = [{"name": name, "dtype": "i64"} for name in ALWAYS + MORE]
    result.append({"name": "floating_point_operations", "dtype": "fp64"})
    parts = ["dense"] + ["expert"] * experts
    result += [{"name": f"loss_scale.{part}", "dtype": "fp32", "count": 3} for part in parts if fp16]
    result += [stream(name, size, "pp") for name, size in STREAMS.items()]
    result.append(stream("rng.model_parallel", 16, "pp", "tp"))
    derived = ["data.position", "data.microbatches"]
    if experts:
        result.append(stream("rng.expert_parallel", 16, "pp", "ep", "etp"))
        derived.append("moe.token_counts")
    result += [{"name": name, "policy": "recompute"} for name in derived]
    return result + [{"name": name, "policy": "leave"} for name in ("data.loader", "rerun_state_machine")]


def entries(model: Document) -> list[Document]:
    """All entries of a model; one of its own stands in place of an included one."""
    own = [*model.get("scalars", []), *model.get("other_state", []), *model.get("param_groups", [])]
    names = {entry["name"] for entry in own}
    wanted = model.get("include")
    included = megatron("experts" in model, wanted == "megatron-state-fp16") if wanted else []
    return own + [entry for entry in included if entry["name"] not in names]


def mesh_axes(layout: Document) -> list[tuple[str, int]]:
    """(key, size) of each axis of a mesh; a key that no entry knows for an axis of another name."""
    return [
        ("dp" if name in DATA_PARALLEL else name, size)
        for name, size in zip(layout["mesh"]["names"], layout["mesh"]["shape"])
    ]


def size_of(layout: Document, key: str) -> int | None:
    """Size of an axis; None where the layout does not say it."""
    if "holdings" in layout:
        size = layout.get("axes", {}).get(key)
        return None if size is None else int(size)
    if "mesh" in layout:
        axes = mesh_axes(layout)
        if any(name not in SLOWEST_FIRST for name, _ in axes):
            return None
        found = [size for name, size in axes if name == key]
        return prod(found) if found or key in ("tp", "cp", "dp", "pp") else None
    if key in ("ep", "etp"):
        return rules.expert_sizes(layout)["tp" if key == "etp" else "ep"]
    return rules.sizes(layout)[key]


def place_of(layout: Document, key: str, rank: int) -> int:
    """Where a rank is along an axis."""
    if "mesh" in layout:
        at = np.unravel_index(rank, layout["mesh"]["shape"])
        place = 0
        for (name, size), index in zip(mesh_axes(layout), at):
            if name == key:
                place = place * size + int(index)
        return place
    order = rules.order_of(layout)
    if key in ("ep", "etp"):
        return rules.coordinates(rank, order, rules.expert_sizes(layout))["tp" if key == "etp" else "ep"]
    return rules.coordinates(rank, order, rules.sizes(layout))[key]


def action(entry: Document, old: Document, new: Document) -> str:
    """What becomes of an entry in a move."""
    policy = entry.get("policy", "copy")
    if policy in ("copy", "recompute", "leave"):
        return {"copy": "copied", "recompute": "recomputed", "leave": "left"}[policy]
    for key in entry["per"]:
        if size_of(old, key) is None or size_of(old, key) != size_of(new, key):
            otherwise = entry.get("otherwise", "leave")
            return {"leave": "left", "reseed": "reseeded", "recompute": "recomputed", "refuse": "refused"}[otherwise]
    return "copied"


def actions(model: Document, old: Document, new: Document) -> dict[str, str]:
    """By name, in the order of the plan's statement but for what is included."""
    return {entry["name"]: action(entry, old, new) for entry in entries(model)}


def key_of(entry: Document) -> Key:
    """State and name."""
    return ("blob" if "bytes" in entry else "scalar", entry["name"])


def shape_of(entry: Document, layout: Document) -> tuple[int, ...]:
    """Whole shape: one row for each place on the axes of `per`, if there is one."""
    count = entry.get("bytes", entry.get("count", 1))
    if "per" not in entry:
        return (count,)
    return (prod(size_of(layout, key) or 0 for key in entry["per"]), count)


def local(entry: Document, layout: Document, rank: int) -> Local | None:
    """What a rank holds of an entry that is copied: all of it, or its row; None if the boxes say nothing."""
    dtype, shape = "u8" if "bytes" in entry else entry["dtype"], shape_of(entry, layout)
    whole = rules.element_numbers(list(shape))
    if "holdings" in layout:
        found = [h for h in layout["holdings"] if h["tensor"] == entry["name"] and rank in rules.ranks_of(h["ranks"])]
        return Local(dtype, shape, rules.holding_index(whole, found[0])) if found else None
    if "per" not in entry:
        return Local(dtype, shape, whole)
    row = 0
    for key in SLOWEST_FIRST:
        if key in entry["per"]:
            row = row * (size_of(layout, key) or 0) + place_of(layout, key, rank)
    return Local(dtype, shape, whole[row : row + 1])


def add(maps: tuple[Side, Side], model: Document, old: Document, new: Document) -> dict[str, str]:
    """Add what a move copies to both sides; returns the actions."""
    found = actions(model, old, new)
    copied = [entry for entry in entries(model) if found[entry["name"]] == "copied"]
    for side, layout in zip(maps, (old, new)):
        for rank, arrays in enumerate(side):
            for entry in copied:
                held = local(entry, layout, rank)
                if held is not None:
                    arrays[key_of(entry)] = held
    return found
