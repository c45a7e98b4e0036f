# SPDX-License-Identifier: Apache-2.0
"""Where every element lies, for each rank of a layout, worked out in numpy.

A second implementation of the layout rules, made from their written description and not from
the planner. Documents are plain dictionaries with the keys of the YAML documents. The result is one
array for each (rank, state, tensor): the element numbers of the global tensor in the order in which
the rank's memory has them, and PAD where there is padding.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from math import lcm, prod
from typing import Any

import numpy as np

PAD = -1
AXES = ("tp", "cp", "ep", "dp", "pp")
WEIGHT_STATES = ("param", "grad", "master", "exp_avg", "exp_avg_sq", "momentum")
MADE = {"from-master": "bf16", "from-param": "fp32"}  # what a move makes, and its dtype
Document = dict[str, Any]
Key = tuple[str, str]  # (state, global tensor name)


@dataclass(frozen=True)
class Local:
    """What one rank holds of one tensor and state."""

    dtype: str
    shape: tuple[int, ...]  # of the global tensor
    index: np.ndarray  # local array of element numbers, PAD in pads
    tier: str = "device"


Side = list[dict[Key, Local]]  # by rank


@dataclass(frozen=True)
class Chunk:
    """What one chunk of the pipeline has; chunk k is on stage k mod pp."""

    layers: tuple[int, ...]
    embedding: bool
    mtp: bool
    loss: bool


@dataclass(frozen=True)
class Instance:
    """One global tensor on a rank."""

    name: str
    tensor: Document
    chunk: int
    layer: int | None
    expert: bool
    shared: bool  # an embedding that several stages keep equal
    used: bool = True  # False: takes room in a flat buffer, and is no state


@dataclass(frozen=True)
class Place:
    """A tensor in a flat group: the group's bucket that it lies in, and where it starts."""

    begin: int
    end: int
    start: int


@dataclass(frozen=True)
class Spot:
    """Coordinates of a rank in both grids."""

    dense: dict[str, int]
    expert: dict[str, int]


# ---- ranks ---------------------------------------------------------------------


def sizes(layout: Document) -> dict[str, int]:
    """Degrees of the dense grid."""
    parallel = layout.get("parallel", {})
    return {axis: parallel.get(axis, 1) for axis in ("tp", "cp", "dp", "pp")} | {"ep": 1}


def expert_sizes(layout: Document) -> dict[str, int]:
    """Degrees of the expert grid over the same ranks."""
    parallel, dense = layout.get("parallel", {}), sizes(layout)
    etp, ep, pp = parallel.get("etp", dense["tp"]), parallel.get("ep", 1), dense["pp"]
    return {"tp": etp, "cp": 1, "ep": ep, "dp": prod(dense.values()) // (etp * ep * pp), "pp": pp}


def order_of(layout: Document) -> list[str]:
    """All axes, the fastest first; those that the document leaves out have size 1 and come last."""
    named = layout.get("order", "-".join(AXES)).split("-")
    return named + [axis for axis in AXES if axis not in named]


def coordinates(rank: int, order: list[str], size: dict[str, int]) -> dict[str, int]:
    """Mixed radix digits."""
    at = {}
    for axis in order:
        rank, at[axis] = divmod(rank, size[axis])
    return at


def world(layout: Document) -> int:
    """Number of ranks."""
    if "holdings" in layout:
        return int(layout["ranks"])
    return prod(layout["mesh"]["shape"]) if "mesh" in layout else prod(sizes(layout).values())


def device_of(layout: Document, rank: int) -> int:
    """Device that a rank runs on; `devices` as a list."""
    return int(layout["devices"][rank]) if "devices" in layout else rank


def data_index(layout: Document, spot: Spot, expert: bool) -> int:
    """Number of a rank in its data-parallel group, whose members ascend by rank."""
    if expert:
        return spot.expert["dp"]
    size, order = sizes(layout), order_of(layout)
    slow, fast = ("dp", "cp") if order.index("cp") < order.index("dp") else ("cp", "dp")
    return spot.dense[fast] + size[fast] * spot.dense[slow]


def shard_count(layout: Document, expert: bool) -> int:
    """Size of a shard group: the data-parallel group without its complete copies."""
    size = sizes(layout)
    group = expert_sizes(layout)["dp"] if expert else size["dp"] * size["cp"]
    return group // layout.get("shard", {}).get("instances", 1)


# ---- pipeline ------------------------------------------------------------------


def expand(text: str) -> list[str]:
    """Segments of a layout string."""
    text = text.replace(",", "")
    text = re.sub(r"\(([^()]+)\)\*(\d+)", lambda m: m[1] * int(m[2]), text)
    text = re.sub(r"([^*()\d])\*(\d+)", lambda m: m[1] * int(m[2]), text)
    return text.split("|")


def counted_chunks(total: int, pp: int, vpp: int, embedding: bool, loss: bool) -> list[int]:
    """Layers of each chunk where the embedding, the loss, takes a layer's place; evenly without."""
    each = [(total + embedding + loss) // (pp * vpp)] * (pp * vpp)
    each[0] -= embedding
    each[-1] -= loss
    return each


def uneven_ranges(total: int, pp: int, vpp: int, first: int | None, last: int | None) -> list[range]:
    """Layers of each chunk where the first and the last stage have numbers of their own."""
    head, tail = first or 0, last or 0
    middle = total - head - tail
    stages = pp - (first is not None) - (last is not None)
    block = head // vpp + middle // vpp + tail // vpp
    ranges = []
    for chunk in range(pp * vpp):
        v, p = divmod(chunk, pp)
        q = p if first is None else p - 1
        share = middle // vpp // stages if stages else 0
        count = share
        if p == 0 and first is not None:
            count = head // vpp
        elif p == pp - 1 and last is not None:
            count = tail // vpp
        offset = v * block + (0 if p == 0 else head // vpp + q * share)
        ranges.append(range(offset, offset + count))
    return ranges


def chunk_layers(model: Document, layout: Document) -> list[list[int]]:
    """Global layers of each chunk, for all forms but the layout string."""
    pipeline = layout.get("pipeline", {})
    pp, vpp, total = sizes(layout)["pp"], layout.get("parallel", {}).get("vpp", 1), model["layers"]
    if "first" in pipeline or "last" in pipeline:
        return [list(r) for r in uneven_ranges(total, pp, vpp, pipeline.get("first"), pipeline.get("last"))]
    counts = counted_chunks(
        total, pp, vpp, pipeline.get("count_embedding", False), pipeline.get("count_loss", False)
    )
    ends = np.cumsum(counts).tolist()
    return [list(range(end - count, end)) for count, end in zip(counts, ends)]


def chunks(model: Document, layout: Document) -> list[Chunk]:
    """The pipeline's chunks in the order in which a sample passes them."""
    text = layout.get("pipeline", {}).get("layout")
    has_mtp = any(tensor.get("stage") == "mtp" for tensor in model["tensors"])
    if text is None:
        spread = chunk_layers(model, layout)
        end = len(spread) - 1
        return [Chunk(tuple(l), k == 0, has_mtp and k == end, k == end) for k, l in enumerate(spread)]
    result, done = [], 0
    for segment in expand(text):
        count = segment.count("t")
        layers = tuple(range(done, done + count))
        result.append(Chunk(layers, "E" in segment, "m" in segment, "L" in segment))
        done += count
    return result


# ---- tensors of a rank ---------------------------------------------------------


def numbers(value: Any, layers: int) -> set[int]:
    """Layers that a `layers` key names."""
    if value is None:
        return set(range(layers))
    if isinstance(value, dict):
        return set(range(value.get("from", 0), value.get("to", layers)))
    if isinstance(value, list):
        return set(value)
    result: set[int] = set()
    for part in str(value).split(","):
        low, _, high = part.partition("-")
        result |= set(range(int(low), int(high or low) + 1))
    return result


def tied(tensor: Document) -> set[str]:
    """Stages that keep a copy."""
    value = tensor.get("tied", [])
    return {value} if isinstance(value, str) else set(value)


def on_chunk(model: Document, tensor: Document, line: list[Chunk], k: int, pp: int) -> bool:
    """Whether chunk k has a tensor that belongs to no layer."""
    chunk, stage = line[k], tensor["stage"]
    if stage == "first":
        copy = ("last" in tied(tensor) and chunk.loss) or ("mtp" in tied(tensor) and chunk.mtp)
        return chunk.embedding or (copy and k % pp != 0)
    if stage == "final":
        has_mtp = any(other.mtp for other in line)
        return model["layers"] - 1 in chunk.layers if has_mtp else k == len(line) - 1
    return {"last": chunk.loss, "mtp": chunk.mtp, "all": True}[stage]


def blocks(model: Document, how: str) -> list[list[Document]]:
    """Tensors in registration order: all of a layer's together, others by module."""
    result: list[list[Document]] = []
    for tensor in model["tensors"]:
        if result and "{i}" in tensor["name"] and "{i}" in result[-1][0]["name"]:
            result[-1].append(tensor)
        elif result and "{i}" not in tensor["name"] and len(modules([result[-1][0], tensor], how)) == 1:
            result[-1].append(tensor)
        else:
            result.append([tensor])
    return result


def module_name(name: str, how: str) -> str:
    """What is repeated expert by expert: a module with weight and bias, a whole expert, or a weight alone."""
    if how == "sequential":
        return name.partition("{e}")[0]
    return name.rpartition(".")[0] if how == "grouped" else name


def modules(block: list[Document], how: str) -> list[list[Document]]:
    """Neighbours of a layer that are parts of one expert module, such as weight and bias."""
    result: list[list[Document]] = []
    for tensor in block:
        module = module_name(tensor["name"], how)
        last = result[-1][0]["name"] if result else ""
        grouped = "{e}" in tensor["name"] and "{e}" in last and module_name(last, how) == module
        if grouped:
            result[-1].append(tensor)
        else:
            result.append([tensor])
    return result


def layer_instances(
    model: Document, block: list[Document], layer: int, k: int, held: range, how: str
) -> list[Instance]:
    """Tensors of one layer in registration order."""
    result = []
    for module in modules(block, how):
        expert = "{e}" in module[0]["name"]
        for e in held if expert else [0]:
            for tensor in module:
                if layer in numbers(tensor.get("layers"), model["layers"]):
                    name = tensor["name"].replace("{i}", str(layer)).replace("{e}", str(e))
                    result.append(Instance(name, tensor, k, layer, expert, False))
    return result


def single_instances(block: list[Document], k: int, pp: int, held: range) -> list[Instance]:
    """Tensors of one module that belongs to no layer."""
    expert, shared = "{e}" in block[0]["name"], pp > 1 and bool(tied(block[0]))
    names = [(tensor["name"].replace("{e}", str(e)), tensor) for e in (held if expert else [0]) for tensor in block]
    return [Instance(name, tensor, k, None, expert, shared) for name, tensor in names]


def is_head(tensor: Document, chunk: Chunk, rule: str) -> bool:
    """Whether a chunk's copy of a tied embedding is an output layer: DeepSpeed's are modules that come first."""
    embedding = chunk.embedding or ("mtp" in tied(tensor) and chunk.mtp)
    return "last" in tied(tensor) and chunk.loss and not embedding and rule not in ("zero1", "zero2")


def unused_heads(model: Document, line: list[Chunk], k: int, pp: int) -> list[Instance]:
    """Megatron builds the output layer of the last chunk even if the prediction block has brought the embedding."""
    if pp == 1 or not (line[k].loss and line[k].mtp):
        return []
    both = [tensor for tensor in model["tensors"] if tied(tensor) == {"last", "mtp"}]
    return [Instance(f"unused {tensor['name']}", tensor, k, None, False, False, used=False) for tensor in both]


def chunk_instances(
    model: Document, line: list[Chunk], k: int, pp: int, held: range, shard: Document
) -> list[Instance]:
    """Tensors of one chunk in registration order; the last stage's copy of a tied embedding is the head."""
    rule, how = shard.get("rule", "none"), shard.get("experts", "grouped")
    result: list[Instance] = []
    heads: list[Instance] = []
    for block in blocks(model, how):
        if "{i}" in block[0]["name"]:
            for layer in line[k].layers:
                result += layer_instances(model, block, layer, k, held, how)
        elif on_chunk(model, block[0], line, k, pp):
            head = is_head(block[0], line[k], rule)
            (heads if head else result).extend(single_instances(block, k, pp, held))
    return result + heads + (unused_heads(model, line, k, pp) if rule == "megatron" else [])


def rank_instances(model: Document, layout: Document, spot: Spot) -> list[Instance]:
    """All tensors of a rank, each once."""
    line, pp = chunks(model, layout), sizes(layout)["pp"]
    share = model.get("experts", 0) // expert_sizes(layout)["ep"]
    held = range(spot.expert["ep"] * share, (spot.expert["ep"] + 1) * share)
    result: dict[str, Instance] = {}
    for k in range(spot.dense["pp"], len(line), pp):
        for instance in chunk_instances(model, line, k, pp, held, layout.get("shard", {})):
            result.setdefault(instance.name, instance)
    return list(result.values())


def dtype_of(word: str) -> str:
    """The dtype that a layout's word for a state means."""
    return MADE.get(word, word)


def states_of(tensor: Document, layout: Document) -> list[tuple[str, str]]:
    """(state, dtype) of a tensor."""
    if tensor.get("kind") == "buffer":
        return [("buffer", tensor["dtype"])]
    states = {"param": "bf16"} | {s: kept(layout, s)["dtype"] for s in layout["state"]}
    return [(s, tensor.get("dtype", dtype_of(d)) if s == "param" else dtype_of(d)) for s, d in states.items()]


def kept(layout: Document, state: str) -> Document:
    """How a state is kept: a dtype stands for a mapping that says no more."""
    value = layout.get("state", {}).get(state, {})
    return {"dtype": value} if isinstance(value, str) else value


# ---- tensor parallelism --------------------------------------------------------


def padded_rows(layout: Document, rows: int) -> int:
    """Rows of a vocabulary tensor after padding."""
    vocab = layout.get("vocab", {})
    if "padded" in vocab:
        return int(vocab["padded"])
    unit = vocab.get("divisible_by", 128) * sizes(layout)["tp"]
    return -(-rows // unit) * unit


def element_numbers(shape: list[int]) -> np.ndarray:
    """Global element numbers of a tensor."""
    return np.arange(prod(shape), dtype=np.int64).reshape(shape)


def stored(tensor: Document, layout: Document, index: np.ndarray) -> np.ndarray:
    """The local array as it lies in memory."""
    for entry in layout.get("storage", []):
        if entry["tensor"] == tensor["name"]:
            return np.ascontiguousarray(np.transpose(index, entry["dims"]))
    return index


def head_blocks(cut: Document, extent: int, kv: int) -> list[tuple[str, int]]:
    """What each block of head_dim rows is: (q, gate, k or v, number of the head), in the order of the rows."""
    total = extent // cut["head_dim"]
    if cut["heads"] == "kv":
        return [(f"kv{part}", head) for part in range(total // kv) for head in range(kv)]
    if cut["heads"] == "q-k-v":
        return [("q", h) for h in range(total - 2 * kv)] + [(part, h) for part in "kv" for h in range(kv)]
    share = total // kv - 2 if cut["heads"] == "qkv" else (total // kv - 2) // 2
    blocks = []
    for group in range(kv):
        mine = range(group * share, (group + 1) * share)
        blocks += [("q", h) for h in mine] + [("gate", h) for h in mine if cut["heads"] == "qgkv"]
        blocks += [("k", group), ("v", group)]
    return blocks


def replicated_heads(index: np.ndarray, cut: Document, kv: int, count: int, at: int) -> np.ndarray:
    """Rows of one of `count` ranks, more than key/value heads: its query heads, and the head that serves them."""
    blocks = head_blocks(cut, index.shape[cut["dim"]], kv)
    queries = 1 + max((h for part, h in blocks if part == "q"), default=count - 1)
    mine = range(at * queries // count, (at + 1) * queries // count)
    serving = {h * kv // queries for h in mine}
    assert len(serving) == 1, "the query heads of a rank belong to one group"
    wanted = [block for block in blocks if block[1] in (mine if block[0] in ("q", "gate") else serving)]
    size = cut["head_dim"]
    starts = [blocks.index(block) * size for block in wanted]
    return np.concatenate([np.take(index, range(s, s + size), axis=cut["dim"]) for s in starts], axis=cut["dim"])


def tensor_cut(model: Document, tensor: Document, layout: Document, spot: Spot, expert: bool) -> np.ndarray:
    """The tensor-parallel local array."""
    index, cut = element_numbers(tensor["shape"]), tensor.get("cut")
    if cut is None:
        return index
    if cut.get("pad") == "vocab":
        extra = padded_rows(layout, index.shape[0]) - index.shape[0]
        index = np.concatenate([index, np.full((extra, *index.shape[1:]), PAD, np.int64)])
    count = (expert_sizes(layout) if expert else sizes(layout))["tp"]
    at = (spot.expert if expert else spot.dense)["tp"]
    dim = cut["dim"]
    kv = model.get("kv_heads", model.get("heads", 0))
    if layout.get("attention", {}).get("kv") == "replicate" and "heads" in cut and count > kv:
        return replicated_heads(index, cut, kv, count, at)
    segments = cut.get("segments") or [index.shape[dim]]
    parts = np.split(index, np.cumsum(segments)[:-1], axis=dim)
    return np.concatenate([np.split(part, count, axis=dim)[at] for part in parts], axis=dim)


# ---- data parallelism ----------------------------------------------------------


def round_up(value: int, unit: int) -> int:
    """Next multiple."""
    return -(-value // unit) * unit


def megatron_places(items: list[tuple[str, int, bool]], shards: int, bucket: int, high: bool) -> dict[str, Place]:
    """Places of (name, elements, shared) in registration order, in a buffer that is laid out in reverse."""
    unit = lcm(shards, 128, 2**16 if high else 1)
    places: dict[str, Place] = {}
    inside: list[tuple[str, int]] = []
    x = b = 0

    def close(end: int) -> int:
        end = round_up(end, unit)
        for name, start in inside:
            places[name] = Place(b, end, start)
        inside.clear()
        return end

    for name, elements, shared in reversed(items):
        x = round_up(x, 64)
        if shared and inside:
            b = x = close(x)
        inside.append((name, x))
        x += elements
        if (bucket and x - b >= bucket) or shared:
            b = x = close(x)
    if inside:
        close(x)
    return places


def packed_places(items: list[tuple[str, int, bool]], align: int, unit: int) -> dict[str, Place]:
    """Places one behind the other in one bucket."""
    starts, x = {}, 0
    for name, elements, _ in items:
        starts[name] = x = round_up(x, align)
        x += elements
    return {name: Place(0, round_up(x, unit), start) for name, start in starts.items()}


def expert_buffer(layout: Document) -> bool:
    """Whether Megatron keeps experts in a buffer of their own; up to core_v0.18 only ep decides."""
    size = expert_sizes(layout)
    old = layout.get("shard", {}).get("expert_buffer") == "ep"
    return size["ep"] > 1 or (not old and size["tp"] != sizes(layout)["tp"])


def expert_group(layout: Document, expert: bool) -> bool:
    """Whether a tensor is sharded over the ranks that share experts, not over those that share dense tensors."""
    return expert and (expert_buffer(layout) or expert_sizes(layout)["tp"] == sizes(layout)["tp"])


def group_key(instance: Instance, layout: Document, dtype: str) -> tuple[object, ...]:
    """What tells flat groups apart under the layout's rule."""
    rule = layout["shard"]["rule"]
    if rule == "megatron":
        return (instance.chunk, dtype, instance.expert and expert_buffer(layout))
    if rule == "fsdp1":
        return (instance.layer, instance.expert and expert_buffer(layout))
    return (instance.expert and expert_buffer(layout),)


def registered(model: Document, layout: Document) -> Document:
    """The model with its tensors in registration order, which `shard.order` may change."""
    order = layout.get("shard", {}).get("order")
    if order is None:
        return model
    weights = sorted((t for t in model["tensors"] if t["name"] in order), key=lambda t: order.index(t["name"]))
    return model | {"tensors": weights + [t for t in model["tensors"] if t["name"] not in order]}


def itemsize(dtype: str) -> int:
    """Bytes of one element."""
    digits = re.search(r"(?:bf|fp|[iu])(\d+)", dtype)
    assert digits
    return int(digits[1]) // 8


def flat_places(found: list[Instance], layout: Document, local: dict[str, int]) -> dict[str, Place]:
    """Places of a rank's weights in their flat groups."""
    groups: dict[tuple[object, ...], list[Instance]] = {}
    for instance in found:
        if instance.tensor.get("kind") == "buffer":
            continue
        dtype = dict(states_of(instance.tensor, layout))["param"]
        groups.setdefault(group_key(instance, layout, dtype), []).append(instance)
    places: dict[str, Place] = {}
    for members in groups.values():
        places |= group_places(members, layout, local)
    return places


def stacks_of(members: list[Instance]) -> list[list[Instance]]:
    """Experts of one weight of a layer, which stand side by side, and all other tensors alone."""
    result: list[list[Instance]] = []
    for member in members:
        last = result[-1][-1] if result else None
        if member.expert and last and last.tensor is member.tensor and last.layer == member.layer:
            result[-1].append(member)
        else:
            result.append([member])
    return result


def stacked_places(members: list[Instance], layout: Document, local: dict[str, int]) -> dict[str, Place]:
    """Places in one flat group where the experts of a weight are one tensor, one behind the other."""
    stacks = stacks_of(members)
    sizes_of = {stack[0].name: sum(local[member.name] for member in stack) for stack in stacks}
    plain = layout | {"shard": layout["shard"] | {"experts": "grouped"}}
    places = group_places([stack[0] for stack in stacks], plain, sizes_of)
    result = {}
    for stack in stacks:
        whole, done = places[stack[0].name], 0
        for member in stack:
            result[member.name] = Place(whole.begin, whole.end, whole.start + done)
            done += local[member.name]
    return result


def group_places(members: list[Instance], layout: Document, local: dict[str, int]) -> dict[str, Place]:
    """Places in one flat group."""
    shard = layout["shard"]
    if shard.get("experts") == "stacked":
        return stacked_places(members, layout, local)
    items = [(member.name, local[member.name], member.shared) for member in members]
    shards = shard_count(layout, expert_group(layout, members[0].expert))
    if shard["rule"] == "megatron":
        bucket = shard.get("bucket", 0) if members[0].chunk == 0 else 0
        return megatron_places(items, shards, bucket, shard.get("pad_high_bandwidth", False))
    if shard["rule"] == "fsdp1":
        dtype = dict(states_of(members[0].tensor, layout))["param"]
        align = 16 // itemsize(dtype) if shard.get("use_orig_params", True) else 1
        return packed_places(items, align, shards)
    return packed_places(items, 1, 2 * shards)


def flat_range(base: np.ndarray, place: Place, shards: int, s: int) -> np.ndarray | None:
    """The part of a flattened tensor that lies in shard s of its bucket; None if there is none."""
    size = (place.end - place.begin) // shards
    low = place.begin + s * size - place.start
    part = base.reshape(-1)[max(0, low) : max(0, low + size)]
    return part if part.size else None


def row_chunk(base: np.ndarray, dim: int, count: int, at: int) -> np.ndarray:
    """Chunk of rounded-up size; the last ones may be short or empty."""
    step = -(-base.shape[dim] // count)
    index = [slice(None)] * base.ndim
    index[dim] = slice(at * step, (at + 1) * step)
    return base[tuple(index)]


def flat_chunk(base: np.ndarray, count: int, at: int) -> np.ndarray:
    """Chunk of rounded-up size of the flattened tensor, padded to that size."""
    step = -(-base.size // count)
    part = base.reshape(-1)[at * step : (at + 1) * step]
    return np.concatenate([part, np.full(step - part.size, PAD, np.int64)])


def is_sharded(rule: str, state: str) -> bool:
    """Whether the rule cuts this state."""
    if rule == "none" or state not in WEIGHT_STATES:
        return False
    return rule in ("zero3", "fsdp2", "fsdp1") or state != "param"


def sharded(base: np.ndarray, layout: Document, expert: bool, spot: Spot, place: Place | None) -> np.ndarray | None:
    """The data-parallel part of a local array."""
    expert = expert_group(layout, expert)
    count = shard_count(layout, expert)
    s = data_index(layout, spot, expert) % count
    rule = layout["shard"]["rule"]
    if rule == "fsdp2":
        return row_chunk(base, 0, count, s)
    if rule == "zero3":
        return flat_chunk(base, count, s)
    assert place is not None
    return flat_range(base, place, count, s)


def scalars(model: Document) -> dict[Key, Local]:
    """Small values, whole everywhere."""
    result = {}
    for scalar in model.get("scalars", []):
        count = scalar.get("count", 1)
        result["scalar", scalar["name"]] = Local(scalar["dtype"], (count,), np.arange(count))
    return result


def rank_map(model: Document, layout: Document, rank: int) -> dict[Key, Local]:
    """One rank of a layout made of degrees of parallelism."""
    order = order_of(layout)
    spot = Spot(coordinates(rank, order, sizes(layout)), coordinates(rank, order, expert_sizes(layout)))
    found = rank_instances(registered(model, layout), layout, spot)
    base = {i.name: stored(i.tensor, layout, tensor_cut(model, i.tensor, layout, spot, i.expert)) for i in found}
    rule = layout.get("shard", {}).get("rule", "none")
    places: dict[str, Place] = {}
    if rule in ("megatron", "zero1", "zero2", "fsdp1"):
        places = flat_places(found, layout, {name: index.size for name, index in base.items()})
    result = scalars(model)
    for i in filter(lambda instance: instance.used, found):
        for state, dtype in states_of(i.tensor, layout):
            index: np.ndarray | None = base[i.name]
            if is_sharded(rule, state):
                index = sharded(base[i.name], layout, i.expert, spot, places.get(i.name))
            if index is not None:
                result[state, i.name] = Local(dtype, tuple(i.tensor["shape"]), index)
    return result


# ---- placements on a mesh ------------------------------------------------------


def parse_placement(text: str) -> tuple[str, int, int]:
    """(kind, dimension, parts before the cut) of a placement."""
    pattern = r"\s*(Replicate|Shard|_StridedShard)\s*(?:\(\s*(?:dim\s*=\s*)?(\d*)\s*(?:,.*?(\d+)\s*)?\))?\s*"
    match = re.fullmatch(pattern, text)
    assert match, text
    return match[1], int(match[2] or 0), int(match[3] or 1)


def mesh_cut(index: np.ndarray, shape: list[int], at: list[int], placements: list[str]) -> np.ndarray:
    """Local array under placements: an axis cuts behind the later ones that make its number of parts."""
    parsed = [parse_placement(text) for text in placements]
    steps: list[int] = []
    for axis in reversed(range(len(parsed))):
        kind, dim, parts = parsed[axis]
        if kind == "Replicate":
            continue
        front = next(n for n in range(len(steps) + 1) if prod_of(shape, parsed, steps[:n], dim) == parts)
        steps.insert(front, axis)
    result = index
    for axis in steps:
        result = row_chunk(result, parsed[axis][1], shape[axis], at[axis])
    if all(n % prod_of(shape, parsed, steps, d) == 0 for d, n in enumerate(index.shape)):
        assert np.array_equal(result, strided_cut(index, shape, at, parsed)), placements
    return result


def prod_of(shape: list[int], parsed: list[tuple[str, int, int]], axes: list[int], dim: int) -> int:
    """Parts into which some axes cut a dimension."""
    return prod(shape[axis] for axis in axes if parsed[axis][1] == dim)


def strided_cut(
    index: np.ndarray, shape: list[int], at: list[int], parsed: list[tuple[str, int, int]]
) -> np.ndarray:
    """The framework's own definition, for sizes that divide: from left to right, an axis cuts each of k equal
    blocks of what is left, and a rank gets its part of every block."""
    for axis, (kind, dim, parts) in enumerate(parsed):
        if kind == "Replicate":
            continue
        blocks = np.split(index, parts, axis=dim)
        index = np.concatenate([np.split(block, shape[axis], axis=dim)[at[axis]] for block in blocks], axis=dim)
    return index


def placements_of(layout: Document, pattern: str, state: str) -> list[str]:
    """The rule for a state of a tensor: its own, else the general one."""
    for wanted in (pattern, None):
        for rule in layout["placements"]:
            if rule.get("tensor") == wanted and state in rule.get("states", WEIGHT_STATES):
                return list(rule["placements"])
    raise KeyError(pattern)


def all_instances(model: Document) -> list[Instance]:
    """Every tensor of the model, as one rank would hold them."""
    none = Spot(dict.fromkeys(AXES, 0), dict.fromkeys(AXES, 0))
    return rank_instances(model, {"state": {}}, none)


def mesh_map(model: Document, layout: Document, rank: int) -> dict[Key, Local]:
    """One rank of a layout made of placements."""
    shape = layout["mesh"]["shape"]
    at = [int(n) for n in np.unravel_index(rank, shape)]
    result = scalars(model)
    for i in all_instances(model):
        for state, dtype in states_of(i.tensor, layout):
            index = element_numbers(i.tensor["shape"])
            if state != "buffer":
                index = mesh_cut(index, shape, at, placements_of(layout, i.tensor["name"], state))
            result[state, i.name] = Local(dtype, tuple(i.tensor["shape"]), index)
    return result


# ---- holdings ------------------------------------------------------------------


def parse_box(text: str) -> tuple[list[tuple[int, int]], int, list[int] | None]:
    """(ranges, offset, strides) of a written box."""
    text, _, strides = text.partition("/")
    text, _, offset = text.partition("@")
    ranges = [(int(low), int(high)) for low, high in (part.split(":") for part in text.split(","))]
    return ranges, int(offset or 0), [int(s) for s in strides.split(",")] if strides.strip() else None


def row_major(shape: list[int]) -> list[int]:
    """Strides of a dense array."""
    return [prod(shape[d + 1 :]) for d in range(len(shape))]


def holding_index(whole: np.ndarray, holding: Document) -> np.ndarray:
    """Local array of one entry."""
    local = np.full(prod(holding["shape"]), PAD, np.int64)
    for text in holding.get("boxes", []):
        ranges, offset, strides = parse_box(text)
        box = whole[tuple(slice(low, high) for low, high in ranges)]
        if strides is None:
            same = len(holding["shape"]) == box.ndim
            strides = row_major(holding["shape"] if same else list(box.shape))
        where = np.full(box.shape, offset, np.int64)
        for d, stride in enumerate(strides):
            where += np.arange(box.shape[d]).reshape([-1 if k == d else 1 for k in range(box.ndim)]) * stride
        local[where] = box
    return local.reshape(holding["shape"])


def ranks_of(value: Any) -> set[int]:
    """Ranks that an entry names."""
    return set(value) if isinstance(value, list) else numbers(value, 0)


def holdings_map(model: Document, layout: Document, rank: int) -> dict[Key, Local]:
    """One rank of a layout that is written box by box; beside.py adds entries that are no tensors and no scalars."""
    dtypes = {(s, i.name): (d, i.tensor["shape"]) for i in all_instances(model) for s, d in states_of(i.tensor, layout)}
    dtypes |= {key: (value.dtype, list(value.shape)) for key, value in scalars(model).items()}
    result = {}
    for holding in layout["holdings"]:
        if rank not in ranks_of(holding["ranks"]):
            continue
        for state in holding["states"]:
            if state in ("scalar", "blob") and (state, holding["tensor"]) not in dtypes:
                continue
            dtype, shape = dtypes[state, holding["tensor"]]
            index = holding_index(element_numbers(shape), holding)
            result[state, holding["tensor"]] = Local(dtype, tuple(shape), index)
    return result


def side_map(model: Document, layout: Document) -> Side:
    """All ranks of a layout of any form."""
    one = holdings_map if "holdings" in layout else mesh_map if "mesh" in layout else rank_map
    side = [one(model, layout, rank) for rank in range(world(layout))]
    for arrays, scales in zip(side, scale_maps(layout, side)):
        arrays |= scales
        for key, local in arrays.items():
            arrays[key] = replace(local, tier=kept(layout, key[0]).get("tier", "device"))
    return side


# ---- scales of narrow states -----------------------------------------------------


def shard_of(local: Local) -> tuple[int, ...]:
    """The elements that a rank owns of a tensor, in order."""
    return tuple(sorted(local.index[local.index != PAD].tolist()))


def shards(side: Side, key: Key) -> list[tuple[int, ...]]:
    """Distinct shards of a state of a tensor, in the order of their first elements."""
    return sorted({shard_of(arrays[key]) for arrays in side if key in arrays} - {()})


def is_scaled(layout: Document, state: str) -> bool:
    """Whether each shard of a state has a scale."""
    return kept(layout, state).get("scale") == "per-shard"


def scale_maps(layout: Document, side: Side) -> list[dict[Key, Local]]:
    """By rank: one number for each shard of a scaled state."""
    found: dict[Key, list[tuple[int, ...]]] = {}
    result: list[dict[Key, Local]] = []
    for arrays in side:
        scales = {}
        for (state, name), local in arrays.items():
            if not is_scaled(layout, state) or not shard_of(local):
                continue
            if (state, name) not in found:
                found[state, name] = shards(side, (state, name))
            numbered = found[state, name]
            number = np.array([numbered.index(shard_of(local))])
            scales[state, f"{name}/scale"] = Local("fp32", (len(numbered),), number)
        result.append(scales)
    return result


def keeps_cut(old: Side, new: Side, layout: Document) -> bool:
    """Whether all scaled states have the same shards on both sides."""
    keys = {key for arrays in (*old, *new) for key in arrays if is_scaled(layout, key[0])}
    return all(shards(old, key) == shards(new, key) for key in keys)


# ---- current copies --------------------------------------------------------------


def owner_state(side: Side, name: str) -> str | None:
    """The optimizer state that is not spread as the weight is; None if all are."""
    for state in ("master", "exp_avg", "exp_avg_sq", "momentum"):
        pairs = [(arrays.get(("param", name)), arrays.get((state, name))) for arrays in side]
        if not any(shard for _, shard in pairs):
            continue
        if any(w and (s is None or not np.array_equal(w.index, s.index)) for w, s in pairs):
            return state
    return None


def current_side(layout: Document, side: Side) -> Side:
    """What of an old side may be read: of weights only what the rank's own shard of the optimizer covers."""
    if layout.get("current") != "owner":
        return side
    names = {name for arrays in side for state, name in arrays if state == "param"}
    owners = {name: owner_state(side, name) for name in names}
    result = []
    for arrays in side:
        narrow = dict(arrays)
        for (state, name), local in arrays.items():
            owner = owners[name] if state == "param" else None
            if owner is not None:
                mine = arrays[owner, name].index if (owner, name) in arrays else np.empty(0, np.int64)
                index = np.where(np.isin(local.index, mine), local.index, PAD)
                narrow[state, name] = replace(local, index=index)
        result.append(narrow)
    return result
