# SPDX-License-Identifier: Apache-2.0
"""Tables of Megatron-Core's distributed optimizer: where tensors lie in its buffers.

Every rank builds its modules, wraps each pipeline chunk in DistributedDataParallel and asks
DistributedOptimizer for its ranges, all by the package's own code. A table keeps the places
(start of the tensor in its bucket, elements of the bucket) and the shard that each rank owns;
that equal cuts of these buckets are the ranges of every rank is checked here.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from megatron.core import parallel_state as ps
from megatron.core.distributed import DistributedDataParallel, DistributedDataParallelConfig
from megatron.core.optimizer.distrib_optimizer import DistributedOptimizer
from megatron.core.transformer import TransformerConfig

import documents
from fake_world import as_rank, torch
from from_megatron import DIGITS, start_groups

Entry = dict[str, Any]
Place = tuple[int, int]
UNUSED = "unused"  # a parameter that takes room in the buffers and that no code reads


@dataclass
class Chunk:
    """One pipeline chunk of one rank: its module and the global names of its parameters."""

    module: torch.nn.Module
    names: dict[str, str]  # name in the module -> global name


# ---- what one rank owns -------------------------------------------------------------------


def wrap(entry: Entry, config: TransformerConfig, module: torch.nn.Module, chunk: int) -> DistributedDataParallel:
    """The wrapper that owns the buffers, as the trainer makes it for a chunk."""
    shard = entry["layout"]["shard"]
    ddp = DistributedDataParallelConfig(
        use_distributed_optimizer=True,
        grad_reduce_in_fp32=True,
        overlap_grad_reduce="bucket" in shard,
        bucket_size=shard.get("bucket"),
        num_distributed_optimizer_instances=shard.get("instances", 1),
        pad_buckets_for_high_nccl_busbw=shard.get("pad_high_bandwidth", False),
    )
    return DistributedDataParallel(config, ddp, module, disable_bucketing=chunk > 0)


def check_ranges(buffer: Any, places: dict[torch.nn.Parameter, Place]) -> None:
    """The optimizer's ranges are the equal cuts of the buckets."""
    group = buffer.data_parallel_group
    found = {}
    for bucket in next(iter(DistributedOptimizer._build_gbuf_range_map(buffer).values())):
        for param, ranges in bucket["param_map"].items():
            found[param] = (ranges["param"].start, ranges["param"].end)
    for param, (start, bucket) in places.items():
        size = bucket // group.size()
        low = max(0, group.rank() * size - start)
        high = min(param.numel(), (group.rank() + 1) * size - start)
        if found.get(param) != ((low, high) if low < high else None):
            raise AssertionError("ranges of the optimizer are no equal cuts")


def buffer_places(buffer: Any) -> dict[torch.nn.Parameter, Place]:
    """Start in the bucket and elements of the bucket."""
    places = {}
    for param, (start, _, bucket) in buffer.param_index_map.items():
        begin, end = buffer.bucket_indices[bucket]
        places[param] = (start - begin, end - begin)
    check_ranges(buffer, places)
    return places


def chunk_places(ddp: DistributedDataParallel, chunk: Chunk) -> dict[str, Place]:
    """Places by global name."""
    by_param = {param: chunk.names[name] for name, param in chunk.module.named_parameters()}
    result = {}
    for buffer in ddp.buffers + ddp.expert_parallel_buffers:
        result |= {by_param[param]: place for param, place in buffer_places(buffer).items()}
    result.pop(UNUSED, None)
    return result


def rank_facts(entry: Entry, config: TransformerConfig, chunks: list[Chunk]) -> dict[str, Any]:
    """Places on this rank, and its shard of the dense and the expert buffers."""
    places: dict[str, Place] = {}
    for number, chunk in enumerate(chunks):
        places |= chunk_places(wrap(entry, config, chunk.module, number), chunk)
    dense = ps.get_data_parallel_group(with_context_parallel=True, partial_data_parallel=True)
    expert = ps.get_expert_data_parallel_group(partial_expert_data_parallel=True)
    return {
        "stage": ps.get_pipeline_model_parallel_rank(),
        "places": places,
        "dense": dense.rank(),
        "expert": expert.rank(),
        "shards": [dense.size(), expert.size()],
    }


def want(entry: Entry, build: Any) -> dict[str, Any]:
    """Facts of all ranks: places by stage, shards by rank."""
    world = documents.world(entry)
    stages: list[dict[str, Place]] = [{} for _ in range(documents.size(entry, "pp"))]
    facts = []
    for rank in range(world):
        with as_rank(rank, world):
            try:
                start_groups(entry)
                facts.append(rank_facts(entry, *build(entry)))
            finally:
                ps.destroy_model_parallel()
        for name, place in facts[-1]["places"].items():
            if stages[facts[-1]["stage"]].setdefault(name, place) != place:
                raise AssertionError(f"{name} lies unlike on the ranks of a stage")
    return {
        "places": [" ".join(f"{name}={start}/{bucket}" for name, (start, bucket) in stage.items()) for stage in stages],
        "shards": facts[0]["shards"],
        "dense": "".join(DIGITS[fact["dense"]] for fact in facts),
        "expert": "".join(DIGITS[fact["expert"]] for fact in facts),
    }


# ---- modules of random families -------------------------------------------------------------


def local_shape(entry: Entry, shape: list[int], keys: dict[str, Any], expert: bool) -> list[int]:
    """Shape on one rank."""
    rule = keys.get("cut")
    if rule is None:
        return shape
    parts = documents.size(entry, "etp" if expert else "tp")
    rows = shape[rule["dim"]]
    if rule.get("pad"):
        unit = entry["layout"]["vocab"]["divisible_by"] * parts
        rows = -(-rows // unit) * unit
    return [rows // parts if d == rule["dim"] else extent for d, extent in enumerate(shape)]


class Builder:
    """Modules of one rank from an entry's families, registered in document order."""

    def __init__(self, entry: Entry) -> None:
        self.entry = entry
        self.ep = documents.size(entry, "ep")
        self.tied_apart = documents.size(entry, "pp") > 1

    def add(self, chunk: Chunk, family: list[Any], layer: int, expert: int, shared: bool = False) -> None:
        """Register one parameter."""
        name, shape, *rest = family
        keys = rest[0] if rest else {}
        local = local_shape(self.entry, shape, keys, "{e}" in name)
        dtype = torch.float32 if keys.get("dtype") == "fp32" else torch.bfloat16
        param = torch.nn.Parameter(torch.zeros(local, dtype=dtype))
        if "{e}" in name and self.ep > 1:
            param.allreduce = False
        if shared:
            param.shared_embedding = True
        inner = f"p{len(chunk.names)}"
        chunk.module.register_parameter(inner, param)
        chunk.names[inner] = name.replace("{i}", str(layer)).replace("{e}", str(expert))

    def add_layer(self, chunk: Chunk, families: list[list[Any]], layer: int) -> None:
        """Families of one layer; experts of a module side by side."""
        local = self.entry.get("experts", 1) // self.ep
        ep = ps.get_expert_model_parallel_rank()
        modules: list[list[list[Any]]] = []
        for family in families:
            same = modules and "{e}" in family[0] and module_of(modules[-1][0]) == module_of(family)
            if same:
                modules[-1].append(family)
            else:
                modules.append([family])
        for members in modules:
            for e in range(local if "{e}" in members[0][0] else 1):
                for family in members:
                    self.add(chunk, family, layer, ep * local + e)

    def chunk(self, layers: range, first: bool, last: bool) -> Chunk:
        """One chunk: families in order, a run of per-layer families layer by layer."""
        result = Chunk(torch.nn.Module(), {})
        run: list[list[Any]] = []
        tail: list[list[Any]] = []
        for family in [*self.entry["tensors"], None]:
            if family is not None and "{i}" in family[0]:
                run.append(family)
                continue
            for layer in layers if run else ():
                self.add_layer(result, run, layer)
            run = []
            if family is not None:
                tail += self.single(result, family, first, last)
        for family in tail:
            self.add(result, family, 0, 0, shared=True)
        return result

    def single(self, chunk: Chunk, family: list[Any], first: bool, last: bool) -> list[list[Any]]:
        """A family without layers; a tied one has its copy at the end of the last chunk."""
        keys = family[2]
        tied = "tied" in keys and self.tied_apart
        here = {"first": first, "last": last, "all": True}[keys["stage"]]
        if here:
            self.add(chunk, family, 0, 0, shared=tied)
        return [family] if tied and last and not first else []


def module_of(family: list[Any]) -> str:
    """Name up to the last dot, for experts; else unlike all others."""
    return str(family[0]).rpartition(".")[0] if "{e}" in family[0] else ""


def build_random(entry: Entry) -> tuple[TransformerConfig, list[Chunk]]:
    """Chunks of the current rank."""
    pp, vpp = documents.size(entry, "pp"), documents.size(entry, "vpp")
    config = TransformerConfig(num_layers=entry["layers"], hidden_size=8, num_attention_heads=8)
    each = entry["layers"] // (pp * vpp)
    builder = Builder(entry)
    chunks = []
    for v in range(vpp):
        s = v * pp + ps.get_pipeline_model_parallel_rank()
        chunks.append(builder.chunk(range(s * each, (s + 1) * each), s == 0, s == pp * vpp - 1))
    return config, chunks


# ---- random entries ---------------------------------------------------------------------------


def random_family(pick: random.Random, name: str, unit: int) -> list[Any]:
    """A tensor of one to three dimensions, cut or not; extents that are cut are multiples of `unit`."""
    ndim = pick.choice((1, 2, 2, 2, 3))
    shape = [pick.randrange(1, 50 if ndim == 2 else 12) for _ in range(ndim)]
    if ndim == 1:
        shape = [pick.choice((pick.randrange(1, 70), pick.randrange(100, 900)))]
    if pick.random() < 0.35:
        return [name, shape]
    dim = pick.choice((0, 0, min(1, ndim - 1)))
    segments = [unit * pick.randrange(1, 6) for _ in range(pick.choice((1, 2, 3)) if dim == 0 else 1)]
    shape[dim] = sum(segments)
    rule: dict[str, Any] = {"dim": dim}
    if len(segments) > 1:
        rule["segments"] = segments
    return [name, shape, {"cut": rule}]


def random_parallel(pick: random.Random, most: int, experts: bool) -> dict[str, int]:
    """Sizes whose product stays small."""
    while True:
        sizes = {"tp": pick.choice((1, 2, 3)), "cp": pick.choice((1, 1, 2)), "dp": pick.choice((1, 2, 3, 4, 6, 8, 12)),
                 "pp": pick.choice((1, 1, 2, 4)), "ep": 1}  # fmt: skip
        world = sizes["tp"] * sizes["cp"] * sizes["dp"] * sizes["pp"]
        inner = world // sizes["pp"]
        if world > most or sizes["dp"] * sizes["cp"] == 1:
            continue
        if experts:
            sizes["ep"] = pick.choice([n for n in (1, 2, 3, 4) if inner % n == 0])
        fitting = [n for n in (1, 2, 3) if inner // sizes["ep"] % n == 0]
        if sizes["ep"] > 1:
            sizes["etp"] = pick.choice(fitting)
        elif sizes["tp"] not in fitting:
            continue
        if sizes["pp"] > 1 and pick.random() < 0.4:
            sizes["vpp"] = 2
        return {axis: n for axis, n in sizes.items() if n > 1 or axis == "etp"}


def random_shard(pick: random.Random, parallel: dict[str, int]) -> dict[str, Any]:
    """Options of the distributed optimizer."""
    shard: dict[str, Any] = {"rule": "megatron"}
    if pick.random() < 0.6:
        shard["bucket"] = pick.choice((1, 100, 300, 500, 1000, 2500))
    if pick.random() < 0.08:
        shard["pad_high_bandwidth"] = True
    dense = parallel.get("dp", 1) * parallel.get("cp", 1)
    inner = dense * parallel.get("tp", 1)
    expert = inner // (parallel.get("ep", 1) * parallel.get("etp", parallel.get("tp", 1)))
    both = [n for n in (2, 3) if dense % n == 0 and expert % n == 0]
    if both and pick.random() < 0.3:
        shard["instances"] = pick.choice(both)
    return shard


def random_tensors(pick: random.Random, parallel: dict[str, int], experts: bool) -> list[list[Any]]:
    """Embedding, a few families per layer, norm and head."""
    tp, etp = parallel.get("tp", 1), parallel.get("etp", parallel.get("tp", 1))
    vocab = {"stage": "first", "cut": {"dim": 0, "pad": "vocab"}}
    tied = pick.random() < 0.5
    tensors: list[list[Any]] = [
        ["emb", [pick.randrange(3, 60), pick.randrange(2, 12)], vocab | ({"tied": "last"} if tied else {})]
    ]
    if pick.random() < 0.4:
        tensors.append(["pos", [pick.randrange(2, 30), 4], {"stage": "first"}])
    if pick.random() < 0.15 and parallel.get("pp", 1) == 1:
        tensors.append(["extra", [pick.randrange(2, 30), 4], {"stage": "all"}])
    tensors += [random_family(pick, f"L{{i}}.{letter}", tp) for letter in "abcd"[: pick.randrange(1, 5)]]
    if experts:
        style = pick.choice(("x.{e}.", "x.", "flat"))
        names = {"x.{e}.": ["L{i}.x.{e}.u", "L{i}.x.{e}.d"], "x.": ["L{i}.x.u{e}", "L{i}.x.d{e}"],
                 "flat": ["L{i}.u.w{e}", "L{i}.d.w{e}"]}[style]  # fmt: skip
        tensors += [random_family(pick, name, etp) for name in names]
    tensors.append(["norm", [pick.randrange(1, 20)], {"stage": "last"}])
    if not tied:
        tensors.append(["head", tensors[0][1], {"stage": "last", "cut": {"dim": 0, "pad": "vocab"}}])
    return tensors


def random_entry(pick: random.Random) -> Entry:
    """Model and layout."""
    experts = pick.random() < 0.4
    parallel = random_parallel(pick, 24, experts)
    chunks = parallel.get("pp", 1) * parallel.get("vpp", 1)
    entry: Entry = {"layers": chunks * pick.choice((1, 1, 2)) if chunks < 8 else chunks}
    if experts:
        entry["experts"] = parallel.get("ep", 1) * pick.choice((1, 2))
    entry["tensors"] = random_tensors(pick, parallel, experts)
    entry["layout"] = {"parallel": parallel, "vocab": {"divisible_by": pick.choice((1, 2, 8))},
                       "shard": random_shard(pick, parallel)}  # fmt: skip
    return entry


def exact_entry(bucket: int, dp: int) -> Entry:
    """Tensors that fill a bucket to its last element."""
    sizes = {"a": 128, "b": 64, "c": 192, "d": 320}
    tensors: list[list[Any]] = [[f"L{{i}}.{letter}", [elements]] for letter, elements in sizes.items()]
    shard = {"rule": "megatron", "bucket": bucket}
    return {
        "layers": 2,
        "tensors": tensors,
        "layout": {"parallel": {"dp": dp}, "vocab": {"divisible_by": 1}, "shard": shard},
    }


def buffers(pick: random.Random, total: int) -> Iterator[Entry]:
    """Tensors that fill their buckets, and random families under random layouts."""
    exact = [exact_entry(bucket, dp) for bucket, dp in ((320, 4), (512, 3), (704, 8))]
    for entry in [*exact, *(random_entry(pick) for _ in range(total - len(exact)))]:
        entry["want"] = want(entry, build_random)
        yield entry
