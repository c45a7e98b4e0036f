# SPDX-License-Identifier: Apache-2.0
"""Figures of megatron-core's refit planner for one move of weights; runs in a virtual environment that has it.

The planner runs unchanged. Parameters and process groups are stubs: a parameter says its shape and how it is cut, a
group its ranks, and what other ranks would send is made here, before the clock runs. The planner works for all
ranks at once on rank 0; its time is that of rank 0 without the exchange of metadata and plans.

usage: refit_peer.py TASK.json     one JSON object on stdout
"""

from __future__ import annotations

import json
import sys
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

warnings.simplefilter("ignore")
WIDTH = 2  # bytes of a weight
NOT_HERE = 3

try:
    import torch
    import torch.distributed as dist
    from megatron.core.resharding import planner, utils
except ImportError as problem:
    print(problem, file=sys.stderr)
    sys.exit(NOT_HERE)


# ---- stubs ------------------------------------------------------------------------------


class Parameter:
    """What the planner asks of a parameter."""

    def __init__(self, shape: tuple[int, ...], cut: dict[str, Any]) -> None:
        self.shape, self.dtype = shape, torch.bfloat16
        for name, value in cut.items():
            setattr(self, name, value)

    def element_size(self) -> int:
        """Bytes of an element."""
        return WIDTH


class Model:
    """What the planner asks of a model: parameters by local name, layers that know their global number, groups."""

    def __init__(self, parameters: dict[str, Parameter], layers: list[int], groups: SimpleNamespace) -> None:
        self.parameters, self.layers, self.pg_collection = parameters, layers, groups

    def named_parameters(self, recurse: bool = True) -> Iterator[tuple[str, Parameter]]:
        """All parameters."""
        return iter(self.parameters.items())

    def named_modules(self) -> Iterator[tuple[str, SimpleNamespace]]:
        """The layers; Megatron numbers them from one."""
        for local, number in enumerate(self.layers):
            yield f"decoder.layers.{local}", SimpleNamespace(layer_number=number + 1)


def groups_of(grid: dict[str, Any], rank: int) -> tuple[SimpleNamespace, int, int, int]:
    """Groups of a rank, and its places along tp, pp and ep. Ranks lie along tp, dp, pp; experts along ep, then dp."""
    tp, dp, pp, ep = grid["tp"], grid["dp"], grid["pp"], grid["ep"]
    per_stage = tp * dp
    stage, inside = divmod(rank, per_stage)
    base, block = stage * per_stage, inside // ep * ep
    return (
        SimpleNamespace(
            tp=[base + inside // tp * tp + t for t in range(tp)],
            dp=[base + inside % tp + d * tp for d in range(dp)],
            pp=[inside + s * per_stage for s in range(pp)],
            ep=[base + block + e for e in range(ep)],
            expt_tp=[rank],
        ),
        inside % tp,
        stage,
        inside % ep,
    )


def local_shape(tensor: dict[str, Any], tp: int) -> tuple[int, ...]:
    """A rank's shape of a tensor that is cut over tp."""
    shape = list(tensor["shape"])
    if tensor["dim"] is not None:
        shape[tensor["dim"]] //= tp
    return tuple(shape)


def parameters_of(task: dict[str, Any], grid: dict[str, Any], stage: int, layers: list[int]) -> dict[str, Parameter]:
    """Parameters of a rank by local name."""
    found: dict[str, Parameter] = {}
    for tensor in task["tensors"]:
        expert = "{e}" in tensor["name"]
        cut: dict[str, Any] = {"allreduce": not (expert and grid["ep"] > 1)}
        if tensor["dim"] is not None:
            cut |= {"tensor_model_parallel": True, "partition_dim": tensor["dim"]}
            cut["partition_stride"] = tensor["segments"]
        shape = local_shape(tensor, 1 if expert else grid["tp"])
        if tensor["stage"] != "layer":
            if stage == (0 if tensor["stage"] == "first" else grid["pp"] - 1):
                found[tensor["name"]] = Parameter(shape, cut)
            continue
        for local in range(len(layers)):
            name = tensor["name"].replace("layer.{i}", f"decoder.layers.{local}")
            if not expert:
                found[name] = Parameter(shape, cut)
            for k in range(task["experts"] // grid["ep"] if expert else 0):
                found[name.replace("expert.{e}", "experts").replace(".weight", f".weight{k}")] = Parameter(shape, cut)
    return found


def model_of(task: dict[str, Any], grid: dict[str, Any], rank: int) -> Model:
    """The model of a rank; one without parameters where the grid has no such rank."""
    groups, _, stage, _ = groups_of(grid, rank)
    if rank >= grid["tp"] * grid["dp"] * grid["pp"]:
        return Model({}, [], groups)
    layers = [number for number, at in enumerate(grid["layers"]) if at == stage]
    return Model(parameters_of(task, grid, stage, layers), layers, groups)


# ---- planning -----------------------------------------------------------------------------


def metadata_of(task: dict[str, Any], model: Model, rank: int) -> list[Any]:
    """What a rank sends to all others, by the package's own code."""
    prefixes = utils._build_layer_module_prefix_map(model)
    return [
        utils.extract_param_metadata(p, name, rank, model.pg_collection, task["experts"] or None, prefixes)
        for name, p in model.named_parameters()
    ]


def plan(task: dict[str, Any]) -> tuple[list[Any], list[Any], dict[str, float]]:
    """Plans of all ranks, the parameters of both sides, rank by rank, seconds."""
    ranks = task["ranks"]
    models = [[model_of(task, grid, rank) for rank in range(ranks)] for grid in task["grids"]]
    dist.get_rank = lambda *_: 0  # type: ignore[assignment]
    dist.get_world_size = lambda *_: ranks  # type: ignore[assignment]
    dist.get_process_group_ranks = lambda group: group  # type: ignore[assignment]
    gathered = [[metadata_of(task, model, rank) for rank, model in enumerate(side)] for side in models]
    turn = iter(gathered)

    def gather(out: list[Any], mine: list[Any]) -> None:
        out[:] = next(turn)
        if len(mine) != len(out[0]):
            raise RuntimeError("rank 0 has other parameters than it had")

    kept: list[Any] = []
    dist.all_gather_object = gather  # type: ignore[assignment]
    dist.broadcast_object_list = lambda plans, src: kept.extend(plans)  # type: ignore[assignment]
    start, busy = time.perf_counter(), time.process_time()
    planner.build_centralized_reshard_plan(models[0][0], models[1][0], task["experts"] or None)
    seconds = {"plan_seconds": time.perf_counter() - start, "plan_cpu_seconds": time.process_time() - busy}
    return kept, [[m.parameters for m in side] for side in models], seconds


# ---- figures ------------------------------------------------------------------------------


def size_of(op: Any, shape: tuple[int, ...]) -> tuple[int, bool]:
    """Bytes of an operation's slice, and whether it lies in one piece."""
    extents = [len(range(*piece.indices(extent))) for piece, extent in zip(op.my_slice, shape)]
    total = WIDTH
    for extent in extents:
        total *= extent
    whole_behind = all(e == s for e, s in zip(extents[1:], shape[1:]))
    return total, whole_behind


def figures(task: dict[str, Any], plans: list[Any], sides: list[Any]) -> dict[str, int]:
    """Figures of the worst rank and of all.

    Staging is what the package's executor allocates before it runs: a buffer for each receive, and a copy of each sent
    slice that does not lie in one piece.
    """
    max_send = max_receive = inter_node = staging = operations = local = written = 0
    for rank, ops in enumerate(plans):
        sent = received = staged = 0
        for op in ops.send_ops:
            size, flat = size_of(op, sides[0][rank][op.param_name].shape)
            staged += 0 if flat else size
            if op.peer_rank != rank:
                sent += size
                inter_node += size if op.peer_rank // task["node"] != rank // task["node"] else 0
        for op in ops.recv_ops:
            size, _ = size_of(op, sides[1][rank][op.param_name].shape)
            staged += size
            written += size
            received += size if op.peer_rank != rank else 0
            local += size if op.peer_rank == rank else 0
        max_send, max_receive, staging = max(max_send, sent), max(max_receive, received), max(staging, staged)
        operations += len(ops.send_ops) + len(ops.recv_ops)
    return {"max_send": max_send, "max_receive": max_receive, "inter_node": inter_node, "staging": staging,
            "operations": operations, "local": local, "written": written}


def main() -> int:
    """Command line."""
    task = json.loads(Path(sys.argv[1]).read_text())
    plans, sides, seconds = plan(task)
    print(json.dumps(seconds | figures(task, plans, sides)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
