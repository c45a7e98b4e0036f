# SPDX-License-Identifier: Apache-2.0
"""Tables of DeepSpeed: what its ZeRO optimizers own on each rank.

Parameters hold numbers that name them and their elements; the optimizer's own fp32 shards are
read and say which elements they hold.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import deepspeed
from deepspeed.utils import groups

from fake_world import torch
from from_torch import all_ranks

Entry = dict[str, Any]
STEP = 4096  # numbers of one parameter; exact in fp32 and more than a parameter has


KEPT = {name: value for name, value in vars(groups).items() if value is None or value == {}}


def forget_groups() -> None:
    """DeepSpeed keeps its groups for the life of a process; another rank needs new ones."""
    for name, value in KEPT.items():
        setattr(groups, name, value if value is None else {})
    deepspeed.comm.comm.cdb = None


def module_of(entry: Entry) -> torch.nn.Module:
    """Parameters in document order; element k of parameter p is STEP * (p + 1) + k."""
    module = torch.nn.Module()
    for number, (_, shape, *_) in enumerate(entry["tensors"]):
        values = torch.arange(torch.Size(shape).numel(), dtype=torch.float32) + STEP * (number + 1)
        module.register_parameter(f"p{number}", torch.nn.Parameter(values.reshape(shape)))
    return module


def optimizer_of(entry: Entry, module: torch.nn.Module) -> Any:
    """DeepSpeed's optimizer on the current rank."""
    forget_groups()
    stage = int(entry["layout"]["shard"]["rule"][-1])
    config = {
        "train_micro_batch_size_per_gpu": 1,
        "zero_optimization": {"stage": stage},
        "zero_allow_untested_optimizer": True,
    }
    inner = torch.optim.AdamW(module.parameters(), lr=1e-3)
    return deepspeed.initialize(model=module, optimizer=inner, config=config, dist_init_required=False)[1]


def ranges(entry: Entry, shard: torch.Tensor) -> tuple[dict[str, str], int]:
    """Ranges of the parameters in a flat shard, and the zeros behind them."""
    result: dict[str, str] = {}
    values = [int(value) for value in shard.detach().flatten()]
    held = [value for value in values if value >= STEP]
    if held != sorted(held) or values[: len(held)] != held:
        raise AssertionError("a shard is not in order")
    for number, (name, *_) in enumerate(entry["tensors"]):
        mine = [value - STEP * (number + 1) for value in held if value // STEP == number + 1]
        if mine:
            if mine != list(range(mine[0], mine[-1] + 1)):
                raise AssertionError(f"{name} is held in pieces")
            result[name] = f"{mine[0]}-{mine[-1] + 1}"
    return result, len(values) - len(held)


def group_shard(entry: Entry) -> str:
    """ZeRO-1 and 2: `name=begin-end ... pad=n`"""
    optimizer = optimizer_of(entry, module_of(entry))
    found, pad = ranges(entry, optimizer.single_partition_of_fp32_groups[0])
    return " ".join(f"{name}={span}" for name, span in found.items()) + f" pad={pad}"


def tensor_shards(entry: Entry) -> str:
    """ZeRO-3: `name=begin-end/length ...`; what lies behind the end is not defined."""
    module = module_of(entry)
    optimizer_of(entry, module)
    words = []
    for number, ((name, *_), param) in enumerate(zip(entry["tensors"], module.parameters(), strict=True)):
        length = param.ds_tensor.numel()
        if length != param.partition_numel():
            raise AssertionError(f"{name}: {length} elements, partition of {param.partition_numel()}")
        low = min(torch.distributed.get_rank() * length, param.ds_numel)
        high = min(low + length, param.ds_numel)
        expected = torch.arange(low, high, dtype=torch.float32) + STEP * (number + 1)
        if not torch.equal(param.ds_tensor.detach()[: high - low].float(), expected):
            raise AssertionError(f"{name}: other elements than [{low}, {high})")
        words.append(f"{name}={low}-{high}/{length}")
    return " ".join(words)


def random_entry(pick: random.Random, rule: str) -> Entry:
    """A few tensors in one group."""
    tensors: list[list[Any]] = []
    for number in range(pick.randrange(2, 6)):
        shape = [pick.randrange(1, 12) for _ in range(pick.choice((1, 2, 2, 3)))]
        tensors.append([f"t{number}", shape, {"stage": pick.choice(("first", "last", "last"))}])
    parallel = {"dp": pick.choice((2, 3, 4, 5, 8))}
    return {"tensors": tensors, "layout": {"parallel": parallel, "shard": {"rule": rule}}}


def shards(pick: random.Random, total: int) -> Iterator[Entry]:
    """Shards of all ranks, a third by each stage."""
    # 57 elements: a size that two padding rules once cut unlike
    fixed = [{"tensors": [["t", [57], {"stage": "all"}]], "layout": {"parallel": {"dp": n}, "shard": {"rule": rule}}}
             for rule in ("zero2", "zero3") for n in (2, 3)]  # fmt: skip
    randoms = [random_entry(pick, ("zero1", "zero2", "zero3")[k % 3]) for k in range(total - len(fixed))]
    for entry in fixed + randoms:
        ask = tensor_shards if entry["layout"]["shard"]["rule"] == "zero3" else group_shard
        yield entry | {"want": all_ranks(entry, lambda entry=entry, ask=ask: ask(entry))}
