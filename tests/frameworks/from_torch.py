# SPDX-License-Identifier: Apache-2.0
"""Tables of PyTorch: fully_shard (FSDP2), DTensor, FullyShardedDataParallel (FSDP1).

Tensors hold the indices of their elements, so that what a rank has is read from its memory.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from typing import Any

from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.fsdp import FullyShardedDataParallel, ShardingStrategy, fully_shard
from torch.distributed.tensor import DTensor, Replicate, Shard, distribute_tensor
from torch.distributed.tensor._utils import _compute_local_shape_and_global_offset

import documents
from fake_world import as_rank, dist, torch

Entry = dict[str, Any]
Box = list[list[int]]

# ---- rows: FSDP2, with or without tensor parallelism and replicas --------------------------


def numbered(shape: list[int]) -> torch.Tensor:
    """A tensor of its own indices."""
    total = 1
    for extent in shape:
        total *= extent
    return torch.arange(total, dtype=torch.float32).reshape(shape)


def mesh_of(entry: Entry) -> DeviceMesh:
    """Replicas, shards, tensor-parallel ranks, the last fastest."""
    replicas = entry["layout"]["shard"].get("instances", 1)
    tp = documents.size(entry, "tp")
    shards = documents.world(entry) // (replicas * tp)
    return init_device_mesh("cpu", (replicas, shards, tp), mesh_dim_names=("replicate", "shard", "tp"))


def sharded_module(entry: Entry, mesh: DeviceMesh) -> torch.nn.Module:
    """Parameters cut over tp, then over the shards."""
    module = torch.nn.Module()
    tp = documents.size(entry, "tp")
    for number, (_, shape, *rest) in enumerate(entry["tensors"]):
        whole = numbered(shape)
        rule = rest[0].get("cut")
        if tp > 1:
            place = Replicate() if rule is None else Shard(rule["dim"])
            whole = distribute_tensor(whole, mesh["tp"], [place], src_data_rank=None)
        module.register_parameter(f"p{number}", torch.nn.Parameter(whole))
    replicas = mesh.size(0) > 1
    return fully_shard(module, mesh=mesh["replicate", "shard"] if replicas else mesh["shard"])


def box_of(values: torch.Tensor, shape: list[int]) -> Box:
    """The box that a local tensor covers, which it must cover in full and in order."""
    if values.numel() == 0:
        return [[0, 0] if extent == 0 else [0, extent] for extent in values.shape]
    index = values.flatten().to(torch.int64)
    low = torch.unravel_index(index[0], shape)
    high = torch.unravel_index(index[-1], shape)
    box = [[int(a), int(b) + 1] for a, b in zip(low, high, strict=True)]
    part = numbered(shape)[tuple(slice(*side) for side in box)]
    if part.shape != values.shape or not torch.equal(part, values):
        raise AssertionError("a local tensor is no box")
    return box


def coordinate(entry: Entry, mesh: DeviceMesh) -> list[int]:
    """Place of the current rank on a mesh; a mesh that another rank made may know that rank's place only."""
    tp = documents.size(entry, "tp")
    shards = documents.world(entry) // tp // entry["layout"]["shard"].get("instances", 1)
    rank = dist.get_rank()
    at = {"tp": rank % tp, "shard": rank // tp % shards, "replicate": rank // tp // shards}
    return [at[name] for name in mesh.mesh_dim_names or ()]


def local_box(entry: Entry, param: DTensor, shape: list[int]) -> Box:
    """Box of a local tensor; its shape and corner must be what DTensor computes for its placement."""
    local = param.to_local().detach()
    box = box_of(local, shape)
    mesh = param.device_mesh
    size, corner = _compute_local_shape_and_global_offset(
        param.shape, mesh.shape, coordinate(entry, mesh), param.placements
    )
    if tuple(size) != tuple(local.shape) or (local.numel() and list(corner) != [low for low, _ in box]):
        raise AssertionError(f"DTensor computes {tuple(size)} at {tuple(corner)}, the local tensor is {box}")
    return box


def row_boxes(entry: Entry) -> list[Box]:
    """Boxes of the current rank, one for each tensor."""
    module = sharded_module(entry, mesh_of(entry))
    return [
        local_box(entry, param, shape)
        for param, (_, shape, *_) in zip(module.parameters(), entry["tensors"], strict=True)
    ]


def box_text(boxes: list[Box]) -> str:
    """`0-3,0-4 5-7`: dimensions with commas, tensors with spaces."""
    return " ".join(",".join(f"{low}-{high}" for low, high in box) for box in boxes)


def random_rows(pick: random.Random) -> Entry:
    """Tensors of uneven, small and even extents; tp always divides what it cuts."""
    tp, shards, replicas = pick.choice((1, 1, 2, 3)), pick.choice((2, 3, 4, 5, 8)), pick.choice((1, 1, 1, 2))
    shard = {"rule": "fsdp2"} | ({"instances": replicas} if replicas > 1 else {})
    tensors: list[list[Any]] = []
    for number in range(pick.randrange(2, 6)):
        shape = [pick.choice((1, 2, 3, 5, 6, 7, 8, 9, 10, 16, 17)) for _ in range(pick.choice((1, 2, 2, 3)))]
        keys: dict[str, Any] = {"stage": "all"}
        dim = pick.randrange(len(shape))
        if tp > 1 and pick.random() < 0.7:
            shape[dim] *= tp
            keys["cut"] = {"dim": dim}
        tensors.append([f"t{number}", shape, keys])
    parallel = {axis: n for axis, n in {"tp": tp, "dp": shards * replicas}.items() if n > 1}
    return {"tensors": tensors, "layout": {"parallel": parallel, "shard": shard}}


def rows(pick: random.Random, total: int) -> Iterator[Entry]:
    """Boxes of all ranks under fully_shard."""
    fixed = [
        {"tensors": [["six", [6], {"stage": "all"}], ["three", [3, 5], {"stage": "all"}]],
         "layout": {"parallel": {"dp": n}, "shard": {"rule": "fsdp2"}}} for n in (3, 4, 8)
    ]  # fmt: skip
    for entry in [*fixed, *(random_rows(pick) for _ in range(total - len(fixed)))]:
        yield entry | {"want": all_ranks(entry, lambda entry=entry: box_text(row_boxes(entry)))}


def all_ranks(entry: Entry, ask: Callable[[], Any]) -> list[Any]:
    """An answer from every rank."""
    world = documents.world(entry)
    answers = []
    for rank in range(world):
        with as_rank(rank, world):
            answers.append(ask())
    return answers


# ---- uneven tensor parallelism ----------------------------------------------------------------


def uneven_indices(rows_: int, tp: int, shards: int) -> str:
    """Indices that the current rank holds of a vector cut over tp, then over the shards."""
    mesh = init_device_mesh("cpu", (shards, tp), mesh_dim_names=("shard", "tp"))
    module = torch.nn.Module()
    whole = distribute_tensor(numbered([rows_]), mesh["tp"], [Shard(0)], src_data_rank=None)
    module.register_parameter("p", torch.nn.Parameter(whole))
    fully_shard(module, mesh=mesh["shard"])
    return ",".join(str(int(value)) for value in module.p.to_local().detach())


def uneven(total: int) -> Iterator[Entry]:
    """Vectors that tp does not divide: DTensor cuts them unevenly."""
    cases = [(n, tp, shards) for tp in (2, 3, 4) for shards in (2, 3) for n in (3, 5, 7, 9, 10) if n % tp]
    for n, tp, shards in cases[:total]:
        entry = {"tensors": [["t", [n], {"stage": "all", "cut": {"dim": 0}}]],
                 "layout": {"parallel": {"tp": tp, "dp": shards}, "shard": {"rule": "fsdp2"}}}  # fmt: skip
        held = all_ranks(entry, lambda n=n, tp=tp, shards=shards: uneven_indices(n, tp, shards))
        yield entry | {"refused": "tp divides no cut dimension", "torch": held}


# ---- flat parameters: FSDP1 ----------------------------------------------------------------------


class Bag(torch.nn.Module):
    """A module of parameters and of inner modules."""

    def __init__(self) -> None:
        super().__init__()
        self.names: dict[str, str] = {}

    def add(self, name: str, shape: list[int], dtype: torch.dtype) -> None:
        """Register a parameter under a plain name."""
        inner = f"p{len(self.names)}"
        self.register_parameter(inner, torch.nn.Parameter(torch.zeros(shape, dtype=dtype)))
        self.names[inner] = name


def flat_groups(entry: Entry) -> tuple[dist.ProcessGroup, dist.ProcessGroup] | None:
    """Shard and replica group of the current rank; none without replicas."""
    replicas = entry["layout"]["shard"].get("instances", 1)
    if replicas == 1:
        return None
    mesh = init_device_mesh("cpu", (replicas, documents.world(entry) // replicas), mesh_dim_names=("r", "s"))
    return mesh.get_group("s"), mesh.get_group("r")


def wrapped(entry: Entry) -> tuple[FullyShardedDataParallel, list[tuple[Bag, FullyShardedDataParallel]]]:
    """A root with one wrapped module per layer; also all modules with their wrappers."""
    dtype = {"fp32": torch.float32, "bf16": torch.bfloat16}[entry["layout"]["state"]["param"]]
    groups = flat_groups(entry)
    options = {
        "device_id": torch.device("cpu"),
        "use_orig_params": entry["layout"]["shard"].get("use_orig_params", True),
        "process_group": groups or dist.group.WORLD,
        "sharding_strategy": ShardingStrategy.HYBRID_SHARD if groups else ShardingStrategy.FULL_SHARD,
    }
    root = Bag()
    units = []
    for layer in range(entry["layers"]):
        bag = Bag()
        for name, shape, *_ in entry["tensors"]:
            if "{i}" in name:
                bag.add(name.replace("{i}", str(layer)), shape, dtype)
        units.append((bag, FullyShardedDataParallel(bag, **options)))
        root.add_module(f"layer{layer}", units[-1][1])
    for name, shape, *_ in entry["tensors"]:
        if "{i}" not in name:
            root.add(name, shape, dtype)
    units.append((root, FullyShardedDataParallel(root, **options)))
    return units[-1][1], units


def unit_ranges(bag: Bag, unit: FullyShardedDataParallel) -> dict[str, str]:
    """Range of each parameter of a unit that the current rank holds, and where it lies in the shard."""
    flat = unit._handle.flat_param
    result = {}
    for info, shard in zip(flat._param_infos, flat._shard_param_infos, strict=True):
        name = bag.names[info.param_name]
        if shard.in_shard:
            begin, end = shard.intra_param_start_idx, shard.intra_param_end_idx + 1
            if end - begin != shard.numel_in_shard:
                raise AssertionError(f"{name}: {shard}")
            result[name] = f"{begin}-{end}"
    return result


def flat_ranges(entry: Entry) -> str:
    """All ranges of the current rank: `name=begin-end ...`"""
    result: dict[str, str] = {}
    for bag, unit in wrapped(entry)[1]:
        result |= unit_ranges(bag, unit)
    return " ".join(f"{name}={span}" for name, span in result.items())


def random_shape(pick: random.Random) -> list[int]:
    """One to three small extents."""
    return [pick.randrange(1, 14) for _ in range(pick.choice((1, 2, 2, 3)))]


def random_flat(pick: random.Random) -> Entry:
    """A few tensors per layer and around them."""
    shards, replicas = pick.choice((2, 3, 4, 5, 8)), pick.choice((1, 1, 1, 2))
    shard: dict[str, Any] = {"rule": "fsdp1"} | ({"instances": replicas} if replicas > 1 else {})
    if pick.random() < 0.5:
        shard["use_orig_params"] = pick.random() < 0.3
    tensors: list[list[Any]] = [["emb", random_shape(pick), {"stage": pick.choice(("first", "first", "all"))}]]
    tensors += [[f"L{{i}}.{letter}", random_shape(pick)] for letter in "abcd"[: pick.randrange(1, 5)]]
    tensors += [[name, random_shape(pick), {"stage": "last"}] for name in ("norm", "head")[: pick.randrange(0, 3)]]
    state = {"param": pick.choice(("bf16", "fp32")), "exp_avg": "fp32"}
    return {"layers": pick.choice((1, 2, 3)), "tensors": tensors,
            "layout": {"parallel": {"dp": shards * replicas}, "shard": shard, "state": state}}  # fmt: skip


def flats(pick: random.Random, total: int) -> Iterator[Entry]:
    """Ranges of all ranks under FSDP1."""
    for _ in range(total):
        entry = random_flat(pick)
        yield entry | {"want": all_ranks(entry, lambda entry=entry: flat_ranges(entry))}
