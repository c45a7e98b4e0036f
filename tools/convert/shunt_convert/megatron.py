# SPDX-License-Identifier: Apache-2.0
"""Megatron's options to a layout document. The rules are those of Megatron-LM's argument checks."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from math import prod

from . import megatron_args as arguments
from . import megatron_experts as experts
from . import model as models
from . import pipeline, yaml_out
from .errors import Usage, quoted
from .megatron_args import Options
from .model import Model, Tensor

DTYPES = {"float32": "fp32", "float16": "fp16", "bfloat16": "bf16", "half": "fp16", "float": "fp32", "uint8": "fp8"}
LEAST_BUCKET, BUCKET_PER_RANK = 40_000_000, 1_000_000


@dataclass(frozen=True)
class Grid:
    """Degrees of parallelism."""

    world: int
    tp: int
    cp: int
    ep: int
    etp: int
    pp: int
    vpp: int = 1

    def dp(self) -> int:
        return self.world // (self.tp * self.cp * self.pp)

    def expert_dp(self) -> int:
        return self.world // (self.etp * self.ep * self.pp)


# ---- sizes -----------------------------------------------------------------------------------


def grid(options: Options) -> Grid:
    """tp, cp, ep, etp, pp and the world, which they must divide."""
    names = ("tensor", "context", "expert", "pipeline")
    tp, cp, ep, pp = (
        options.size(f"{name}_{'' if name == 'context' else 'model_'}parallel_size") for name in names
    )
    etp = options.count("expert_tensor_parallel_size") or tp
    for name in ("tensor_model_parallel_size", "context_parallel_size", "expert_model_parallel_size",
                 "pipeline_model_parallel_size", "expert_tensor_parallel_size"):  # fmt: skip
        if options.count(name) == 0:
            options.refuse(options.shown(name), 0, "a whole number of at least 1")
    world = options.count("world_size")
    if world is None:
        raise Usage("shunt-convert megatron: found no --world, expected the number of ranks")
    options.finish()
    out = Grid(world, tp, cp, ep, etp, pp)
    check_grid(options, out)
    return out


def check_grid(options: Options, at: Grid) -> None:
    """Both grids, the dense and the expert one, lie over the same ranks."""
    shown = options.shown("world_size") if "world_size" in options.given else "--world"
    dense, expert = at.tp * at.cp * at.pp, at.etp * at.ep * at.pp
    if at.world == 0 or at.world % dense != 0:
        options.refuse(shown, at.world, f"a multiple of tp {at.tp} times cp {at.cp} times pp {at.pp}, which is {dense}")
    elif at.world % expert != 0:
        expected = f"a multiple of etp {at.etp} times ep {at.ep} times pp {at.pp}, which is {expert}"
        options.refuse(shown, at.world, expected)
    options.finish()
    for name, of in arguments.SAME_AS.items():
        given = options.given.get(name)
        size = at.tp if of == "tensor_model_parallel_size" else at.etp
        if given is not None and str(given.value) not in (str(size), "None"):
            options.refuse(given.shown, quoted(str(given.value)), f"{size}: {arguments.SLICED}")
    count = options.count("num_experts")
    if count and count % at.ep != 0:
        options.refuse(options.shown("num_experts"), count, f"a multiple of ep, which is {at.ep}")
    if options.flag("use_tp_pp_dp_mapping") and at.pp > 1 and (count or at.ep > 1) and at.dp() != at.expert_dp():
        expected = f"dp {at.dp()} to be expert dp {at.expert_dp()}, as experts ask for in this order"
        options.refuse(options.shown("use_tp_pp_dp_mapping"), "it", expected)


# ---- pipeline ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Split:
    """How layers are spread."""

    vpp: int = 1
    first: int | None = None
    last: int | None = None
    embedding: bool = False
    loss: bool = False
    layout: str | None = None

    def mapping(self) -> dict[str, object]:
        entries: dict[str, object] = {"first": self.first, "last": self.last, "layout": self.layout}
        entries |= {"count_embedding": self.embedding or None, "count_loss": self.loss or None}
        return {key: value for key, value in entries.items() if value is not None}


CHUNKS = ("num_layers_per_virtual_pipeline_stage", "num_virtual_stages_per_pipeline_rank",
          "virtual_pipeline_model_parallel_size", "pipeline_model_parallel_layout")  # fmt: skip
ENDS = ("decoder_first_pipeline_num_layers", "decoder_last_pipeline_num_layers")
COUNTED = ("account_for_embedding_in_pipeline_split", "account_for_loss_in_pipeline_split")


def present(options: Options, names: tuple[str, ...]) -> list[str]:
    """Options that are given, flags only if set."""
    return [n for n in names if n in options.given and options.given[n].value is not False]


def exclude(options: Options, some: list[str], others: list[str]) -> None:
    """Refuse each of `some` beside any of `others`."""
    for name in some:
        if others:
            options.refuse(options.shown(name), f"it beside `{options.shown(others[0])}`", "one or the other")


def split(options: Options, at: Grid, layers: int | None) -> Split:
    """The pipeline part of a layout."""
    chunks, ends, counted = present(options, CHUNKS), present(options, ENDS), present(options, COUNTED)
    pattern = options.text("hybrid_layer_pattern")
    layout = options.text("pipeline_model_parallel_layout")
    exclude(options, chunks[1:], same_degree(options, chunks))
    exclude(options, ends, counted)
    if layout is not None:
        exclude(options, ends + counted, ["pipeline_model_parallel_layout"])
    if pattern is not None:
        exclude(options, chunks + counted, ["hybrid_layer_pattern"])
        total, layout, _ = pipeline.hybrid(pattern)
        exclude(options, ends if layout is not None else [], ["hybrid_layer_pattern"])
        layers = total
    options.finish()
    if layout is not None:
        return in_full(options, at, layers, layout, "hybrid_layer_pattern" if pattern is not None else CHUNKS[3])
    first, last = (options.count(name) for name in ENDS)
    part = Split(1, first, last, *(options.flag(name) for name in COUNTED))
    return in_chunks(options, at, layers, part)


def same_degree(options: Options, chunks: list[str]) -> list[str]:
    """What stands against a second way to say vpp; Bridge's YAML may say both a layout and the degree it has."""
    if set(chunks) == {"virtual_pipeline_model_parallel_size", "pipeline_model_parallel_layout"}:
        return []
    return chunks[:1]


def in_full(options: Options, at: Grid, layers: int | None, layout: str, name: str) -> Split:
    """A layout text: every chunk by its letters."""
    text = pipeline.expand(layout)
    expected = "chunks of E, t, m and L between `|`" if text is None else pipeline.problems(text)
    shown = options.shown(name)
    if text is None or expected is not None:
        options.refuse(shown, quoted(layout), str(expected))
        return Split()
    chunks = text.count("|") + 1
    if chunks % at.pp != 0:
        options.refuse(shown, f"{chunks} chunks", f"a multiple of pp, which is {at.pp}")
    if layers is not None and text.count("t") != layers:
        options.refuse(shown, f"{text.count('t')} layers", f"{layers}")
    blocks = options.count("mtp_num_layers")
    if blocks is not None and text.count("m") != blocks:
        options.refuse(shown, f"{text.count('m')} prediction blocks", f"{blocks}, as mtp_num_layers says")
    degree = options.count("virtual_pipeline_model_parallel_size")
    if degree is not None and degree * at.pp != chunks:
        other = options.shown("virtual_pipeline_model_parallel_size")
        options.refuse(other, degree, f"{chunks // at.pp}, as {shown} has")
    return Split(vpp=max(chunks // at.pp, 1), layout=layout)


def in_chunks(options: Options, at: Grid, layers: int | None, part: Split) -> Split:
    """Even chunks, or uneven ends."""
    uneven = part.first is not None or part.last is not None
    each = options.count("num_layers_per_virtual_pipeline_stage")
    vpp = options.count("num_virtual_stages_per_pipeline_rank") or options.count("virtual_pipeline_model_parallel_size")
    if each is not None:
        vpp = degree_of(options, at, layers, part, each)
    vpp = vpp or 1
    if vpp > 1 and at.pp == 1:
        options.refuse(options.shown("pipeline_model_parallel_size"), 1, f"more than 1 with {vpp} chunks on a stage")
    places = None if layers is None else layers + part.embedding + part.loss
    if places is not None and not uneven and places % (at.pp * vpp) != 0:
        expected = f"layers to divide over pp {at.pp} times vpp {vpp}, embedding and loss counted where asked"
        options.refuse(options.shown("num_layers"), places, expected)
    if layers is not None and uneven:
        check_ends(options, at, layers, vpp, part)
    return Split(vpp, part.first, part.last, part.embedding, part.loss)


def degree_of(options: Options, at: Grid, layers: int | None, part: Split, each: int) -> int:
    """vpp from layers a chunk."""
    shown = options.shown("num_layers_per_virtual_pipeline_stage")
    if part.first is not None or part.last is not None:
        other = options.shown("num_virtual_stages_per_pipeline_rank")
        options.refuse(shown, "it with uneven stages", f"`{other}`")
        return 1
    if layers is None:
        options.refuse(options.shown("num_layers"), "no such argument", f"the layers of the model, for `{shown}`")
        return 1
    places = layers + part.embedding + part.loss
    if each == 0 or places % (at.pp * each) != 0:
        stage = f"{places} / {at.pp} = {places // at.pp} layers of a stage"
        over = f"{places} layers over pp {at.pp}"
        options.refuse(shown, each, f"a number that divides the {over if places % at.pp else stage}")
        return 1
    return places // at.pp // each


def check_ends(options: Options, at: Grid, layers: int, vpp: int, part: Split) -> None:
    """The stages between the given ones get equal parts, and every stage divides over its chunks."""
    ends = [count for count in (part.first, part.last) if count is not None]
    middle, rest = at.pp - len(ends), layers - sum(ends)
    shown = options.shown(ENDS[0] if part.first is not None else ENDS[1])
    if middle < 0 or rest < 0 or (middle == 0 and rest != 0) or (middle > 0 and rest % middle != 0):
        options.refuse(shown, f"{rest} layers left", f"a number that {max(middle, 0)} other stages can share")
    elif any(count % vpp for count in [*ends, rest // middle if middle else 0]):
        options.refuse(shown, ends[0], f"layers of every stage to divide over {vpp} chunks")


# ---- optimizer ------------------------------------------------------------------------------------


def shard(options: Options, at: Grid, part: Split, model: Model | None, notes: list[str]) -> dict[str, object]:
    """The `shard` part of a layout; empty where nothing is cut over data-parallel ranks."""
    if options.flag("use_torch_fsdp2"):
        return fsdp2(options, at)
    instances = options.count("num_distributed_optimizer_instances", 1) or 1
    if not options.flag("use_distributed_optimizer"):
        if instances > 1:
            shown = options.shown("num_distributed_optimizer_instances")
            options.refuse(shown, instances, "1 without a distributed optimizer")
        return {}
    ranks, expert_ranks = at.cp * at.dp(), at.expert_dp()
    if ranks % instances or ((at.ep > 1 or at.etp != at.tp) and expert_ranks % instances):
        shown = options.shown("num_distributed_optimizer_instances")
        options.refuse(shown, instances, f"a divisor of cp times dp ({ranks}) and of expert dp ({expert_ranks})")
    entries: dict[str, object] = {"rule": "megatron"} | ({"instances": instances} if instances > 1 else {})
    size = bucket(options, at, part, model, notes)
    entries |= {"bucket": size} if size is not None else {}
    if options.flag("ddp_pad_buckets_for_high_nccl_busbw"):
        entries["pad_high_bandwidth"] = True
    entries |= of_experts(options, at, model, notes)
    if options.flag("overlap_param_gather"):
        overlap = options.shown("overlap_param_gather")
        notes.append(f"{options.source}: {overlap}: weights are current on their owner only; gather them before a "
                     "move, or add `current: owner`")
    return entries


def fsdp2(options: Options, at: Grid) -> dict[str, object]:
    """Megatron's wrapper of PyTorch's `fully_shard`, over dp times cp, which goes with few other options."""
    shown = options.shown("use_torch_fsdp2")
    for name, size in (("pipeline_model_parallel_size", at.pp), ("expert_model_parallel_size", at.ep)):
        if size > 1:
            options.refuse(options.shown(name), size, f"1 beside `{shown}`")
    for name in ("use_distributed_optimizer", "fp16"):
        exclude(options, present(options, (name,)), ["use_torch_fsdp2"])
    instances = options.count("num_distributed_optimizer_instances", 1) or 1
    if instances > 1:
        options.refuse(options.shown("num_distributed_optimizer_instances"), instances, f"1 beside `{shown}`")
    return {"rule": "fsdp2"}


def of_experts(options: Options, at: Grid, model: Model | None, notes: list[str]) -> dict[str, object]:
    """What `shard` says of experts, where it is not the default."""
    if not experts.there_are(options, model, at.ep):
        return {}
    if at.ep == 1 and at.etp != at.tp:
        notes.append(f"{options.source}: ep 1 and etp {at.etp} unlike tp {at.tp}: experts have buffers of their own in "
                     "Megatron core_v0.19 and later only; for an earlier one add `expert_buffer: ep` to `shard`")
    order = experts.order(options, model)
    return {"experts": order} if order != "grouped" else {}


def bucket(options: Options, at: Grid, part: Split, model: Model | None, notes: list[str]) -> int | None:
    """Elements at which buckets of the first chunk close; None: one bucket."""
    buckets, size = options.count("ddp_num_buckets"), options.count("ddp_bucket_size")
    if not options.flag("overlap_grad_reduce") or options.flag("overlap_param_gather_with_optimizer_step"):
        for name in ("ddp_num_buckets", "ddp_bucket_size"):
            if name in options.given:
                notes.append(f"{options.source}: {options.shown(name)}: has no effect here: there is one bucket")
        return None
    if buckets is not None:
        return bucket_of(options, at, part, model, buckets)
    if size == 0:
        options.refuse(options.shown("ddp_bucket_size"), 0, "a whole number of at least 1")
    return size or max(LEAST_BUCKET, BUCKET_PER_RANK * at.cp * at.dp())


def bucket_of(options: Options, at: Grid, part: Split, model: Model | None, buckets: int) -> int | None:
    """Bucket size from a number of buckets, which takes the parameters of the first stage."""
    shown = options.shown("ddp_num_buckets")
    if model is None or part.layout is not None or buckets == 0:
        reason = "a number above 0" if buckets == 0 else "ddp_bucket_size, or --model and stages without a layout"
        options.refuse(shown, buckets, f"{reason}, from which the size of a bucket follows")
        return None
    size = stage_elements(options, at, part, model) // buckets
    if size == 0:
        options.refuse(shown, buckets, "fewer buckets than there are parameters on a rank")
        return None
    return size


def stage_elements(options: Options, at: Grid, part: Split, model: Model) -> int:
    """Parameters of a rank on the first stage."""
    ends = (part.embedding, part.loss)
    layers = pipeline.first_stage(model.layers, at.pp, part.vpp, part.first, part.last, ends)
    share = layers_of_stage(at, part, model.layers, layers)
    total = 0
    for tensor in model.tensors:
        if tensor.kind != "weight":
            continue
        if "{i}" in tensor.name:
            copies = len(share & set(tensor.numbers(model.layers)))
        else:
            copies = 1 if at.pp == 1 or tensor.stage in ("first", "all") else 0
        total += copies * local_elements(options, at, model, tensor)
    return total


def layers_of_stage(at: Grid, part: Split, layers: int, count: int) -> set[int]:
    """The layers of the first stage: the same number in each of its chunks, but that the embedding takes a place."""
    if part.vpp == 1:
        return set(range(count))
    block = (layers + part.embedding + part.loss) // part.vpp
    each = (count + part.embedding) // part.vpp
    if part.first is not None or part.last is not None:
        block, each = layers // part.vpp, count // part.vpp
    out: set[int] = set()
    for chunk in range(part.vpp):
        start = chunk * block - (part.embedding if chunk else 0)
        out |= set(range(start, start + each - (part.embedding if chunk == 0 else 0)))
    return out


def local_elements(options: Options, at: Grid, model: Model, tensor: Tensor) -> int:
    """Elements that a rank has of one tensor, all experts of the rank together."""
    shape = list(tensor.shape)
    if tensor.pad_vocab:
        unit = at.tp * (options.count("make_vocab_size_divisible_by") or 128)
        shape[0] = options.count("padded_vocab_size") or -(-shape[0] // unit) * unit
    expert = "{e}" in tensor.name
    parts = (at.etp if expert else at.tp) if tensor.cut is not None else 1
    return prod(shape) // parts * ((model.experts or 0) // at.ep if expert else 1)


# ---- states ------------------------------------------------------------------------------------------


def dtype(value: str) -> str:
    """`torch.float32` and the like, in Shunt's words."""
    last = value.rsplit(".", 1)[-1]
    return DTYPES.get(last, last)


def precision(options: Options) -> str:
    """Element type of the weights."""
    recipe = (options.text("mixed_precision") or "").lower()
    if recipe and (not recipe.startswith(("bf16", "fp16")) or "fp8" in recipe or "fp4" in recipe):
        expected = "bf16_mixed or fp16_mixed, or the options it stands for (bf16, fp16)"
        options.refuse(options.shown("mixed_precision"), quoted(recipe), expected)
    bf16, fp16 = options.flag("bf16"), options.flag("fp16")
    if recipe:  # it sets the flags of all sections at start
        bf16, fp16 = recipe.startswith("bf16"), recipe.startswith("fp16")
    if bf16 and fp16:
        options.refuse(options.shown("fp16"), f"it beside `{options.shown('bf16')}`", "one or the other")
    if not (bf16 or fp16 or recipe):
        for given in options.params_dtypes:
            if dtype(str(given.value)) != "fp32":
                options.refuse(given.shown, quoted(str(given.value)), "fp32 without bf16 and fp16")
    return "bf16" if bf16 else "fp16" if fp16 else "fp32"


def moment(options: Options, name: str, aware: bool, allowed: tuple[str, ...]) -> str | dict[str, str]:
    """An optimizer dtype, fp32 unless a precision-aware optimizer says otherwise; fp16 and fp8 go with scales."""
    given = options.text(name)
    value = dtype(given) if given is not None else "fp32"
    if value == "fp32":
        return value
    shown = options.shown(name)
    if not aware:
        options.refuse(shown, quoted(str(given)), f"fp32 without `{options.shown('use_precision_aware_optimizer')}`")
    elif value not in allowed:
        options.refuse(shown, quoted(str(given)), " or ".join(allowed))
    elif value in ("fp16", "fp8"):
        return {"dtype": "u8" if value == "fp8" else value, "scale": "per-shard"}
    return value


def on_host(options: Options, out: dict[str, object], aware: bool) -> dict[str, object]:
    """The states with those of the optimizer in host memory, if the arguments say so."""
    if not options.flag("optimizer_cpu_offload"):
        return out
    shown, fraction = options.shown("optimizer_offload_fraction"), options.text("optimizer_offload_fraction")
    if fraction is not None and not re.fullmatch(r"1(\.0*)?", fraction):
        options.refuse(shown, quoted(fraction), "1.0: some weights' states on the host alone are not supported")
    narrow = [name for name, value in out.items() if name != "param" and value not in ("fp32", "i16")]
    for name in narrow if aware else []:
        given = "main_params_dtype" if name == "master" else f"{name}_dtype"
        options.refuse(options.shown(given), quoted(str(options.text(given))), "fp32 with states on the host")
    return {name: value if name == "param" else {"dtype": "fp32", "tier": "host"} for name, value in out.items()}


def states(options: Options, notes: list[str]) -> dict[str, object]:
    """The `state` part of a layout."""
    param, kind = precision(options), options.text("optimizer") or "adam"
    out: dict[str, object] = {"param": param} | ({"master": "fp32"} if param != "fp32" else {})
    aware = options.flag("use_precision_aware_optimizer")
    shown, distributed = options.shown("optimizer"), options.flag("use_distributed_optimizer")
    if aware and (kind != "adam" or not distributed):
        aware_shown = options.shown("use_precision_aware_optimizer")
        options.refuse(aware_shown, "it", "it with optimizer adam and a distributed optimizer only")
    master = moment(options, "main_params_dtype", aware, ("fp32", "fp16"))
    narrow = ("fp32", "bf16", "fp16", "fp8")
    moments = {name: moment(options, f"{name}_dtype", aware, narrow) for name in ("exp_avg", "exp_avg_sq")}
    if kind == "sgd":
        return on_host(options, out | {"momentum": "fp32"}, aware)
    if kind == "lion" and not distributed:
        return on_host(options, out | {"exp_avg": "fp32"}, aware)
    if kind != "adam":
        expected = "adam or sgd, or lion without a distributed optimizer"
        options.refuse(shown, quoted(kind), f"{expected}: whole matrices on single ranks are not supported")
    if aware and param == "bf16" and master == "fp32" and options.flag("store_param_remainders", True):
        out["master"] = "i16"
        aware_shown = options.shown("use_precision_aware_optimizer")
        notes.append(f"{options.source}: {aware_shown}: `master` is the lower half of fp32, beside the bf16 weight")
    elif "master" in out:
        out["master"] = master
    return on_host(options, out | moments, aware)


def fit(options: Options, at: Grid, model: Model) -> None:
    """What the sizes and the model must have in common; `shunt` checks the rest of it, tensor by tensor."""
    heads, kv_heads, count = model.heads, model.kv_heads, model.experts or 1
    tp_shown = options.shown("tensor_model_parallel_size")
    if heads is not None and heads % at.tp != 0:
        options.refuse(tp_shown, at.tp, f"a divisor of {heads}, the heads of model {model.name}")
    elif kv_heads is not None and kv_heads % at.tp != 0 and at.tp % kv_heads != 0:
        options.refuse(tp_shown, at.tp, f"a divisor or a multiple of {kv_heads}, the kv heads of model {model.name}")
    if count % at.ep != 0:
        found = options.shown("expert_model_parallel_size")
        options.refuse(found, at.ep, f"a divisor of {count}, the experts of model {model.name}")
    if options.count("num_experts") not in (None, model.experts, 0):
        found = options.shown("num_experts")
        options.refuse(found, options.count("num_experts"), f"{model.experts or 'none'}, as model {model.name} has")
    rows = max((tensor.shape[0] for tensor in model.tensors if tensor.pad_vocab), default=0)
    padded = options.count("padded_vocab_size")
    if padded is not None and padded < rows:
        options.refuse(options.shown("padded_vocab_size"), padded, f"at least {rows}, the rows of model {model.name}")


# ---- the document ------------------------------------------------------------------------------------


def vocabulary(options: Options, at: Grid) -> dict[str, object]:
    """The `vocab` part of a layout, where it is not the default."""
    padded, divisor = options.count("padded_vocab_size"), options.count("make_vocab_size_divisible_by")
    if padded is not None:
        if padded == 0 or padded % at.tp != 0:
            options.refuse(options.shown("padded_vocab_size"), padded, f"a multiple of tp, which is {at.tp}")
        return {"padded": padded}
    if "should_pad_vocab" in options.given and not options.flag("should_pad_vocab"):
        return {"divisible_by": 1}
    if divisor == 0:
        options.refuse(options.shown("make_vocab_size_divisible_by"), 0, "a whole number of at least 1")
    return {"divisible_by": divisor} if divisor not in (None, 128) else {}


def sizes(options: Options, at: Grid, vpp: int) -> dict[str, object]:
    """The `parallel` part."""
    axes = {"tp": at.tp, "cp": at.cp, "ep": at.ep, "dp": at.dp(), "pp": at.pp}
    out: dict[str, object] = {key: size for key, size in axes.items() if size != 1 or key in ("tp", "pp", "dp")}
    out |= {"etp": at.etp} if at.etp != at.tp else {}
    return out | ({"vpp": vpp} if vpp > 1 else {})


def title(parallel: dict[str, object]) -> str:
    """A name that says the sizes."""
    return "-".join(["megatron", *(f"{key}{size}" for key, size in parallel.items())])


def reference(given: str, output: str | None) -> str:
    """A model or cluster as the document names it: a path relative to the document, or a built-in's name."""
    if not os.path.exists(given):
        return given
    return os.path.relpath(given, os.path.dirname(os.path.abspath(output)) if output is not None else os.curdir)


def known_layers(options: Options, model: Model | None) -> int | None:
    """Layers, from the arguments or the model document, which must agree."""
    given = options.count("num_layers")
    if model is not None and given not in (None, model.layers):
        options.refuse(options.shown("num_layers"), given, f"{model.layers}, as model {model.name} has")
    return model.layers if model is not None else given


def render(own: dict[str, str], parts: dict[str, dict[str, object]], order: str | None,
           storage: list[dict[str, object]]) -> str:  # fmt: skip
    """The document."""
    lines = ["kind: layout", f"name: {yaml_out.text(own.get('name') or title(parts['parallel']))}"]
    for key in ("model", "cluster"):
        if key in own:
            lines.append(f"{key}: {yaml_out.text(reference(own[key], own.get('output')))}")
    lines += yaml_out.folded(parts["parallel"], "parallel: ")
    lines += [f"order: {order}"] if order is not None else []
    for key in ("pipeline", "shard", "vocab"):
        lines += yaml_out.folded(parts[key], f"{key}: ") if parts[key] else []
    lines += ["storage:"] if storage else []
    lines += [f"  - {yaml_out.flow(entry)}" for entry in storage]
    lines += yaml_out.folded(parts["state"], "state: ")
    if "devices" in own:
        lines.append(f"devices: {yaml_out.text(own['devices'], quoted=True)}")
    return "\n".join(lines) + "\n"


def gather(own: dict[str, str], words: list[tuple[str, object]]) -> Options:
    """Options of the file, if there is one, with those of the command line over them."""
    line = arguments.from_words(words)
    if "world_size" in own:
        line.add("world_size", "--world", own["world_size"])
    if "yaml" not in own:
        return line
    options = arguments.from_yaml(own["yaml"])
    options.given |= line.given
    options.problems += line.problems
    options.ignored += line.ignored
    return options


def convert(words: list[str]) -> tuple[str | None, str, list[str]]:
    """Output path, document, notes."""
    own, given, strays = arguments.split_words(words)
    options = gather(own, given)
    notes = ignored(options, strays)
    model = models.load(models.find(own["model"])) if "model" in own else None
    at = grid(options)
    layers = known_layers(options, model)
    part = split(options, at, layers)
    parts = {
        "parallel": sizes(options, at, part.vpp),
        "pipeline": part.mapping(),
        "shard": shard(options, at, part, model, notes),
        "vocab": vocabulary(options, at),
        "state": states(options, notes),
    }
    storage = experts.storage(options, model)
    if options.flag("data_parallel_random_init"):
        notes.append(f"{options.source}: {options.shown('data_parallel_random_init')}: random streams differ from dp "
                     "rank to dp rank; the model needs an `other_state` entry of its own for them, per [pp, dp]")
    if model is not None:
        fit(options, at, model)
    options.finish()
    order = "tp-cp-ep-pp-dp" if options.flag("use_tp_pp_dp_mapping") else None
    return own.get("output"), render(own, parts, order, storage), notes


def ignored(options: Options, strays: list[str]) -> list[str]:
    """What was not used, for people."""
    matters = [given.shown for name, given in options.given.items() if name in arguments.MODEL_MATTERS]
    matters += [name for name in options.ignored if name.rsplit(".", 1)[-1] in arguments.MODEL_MATTERS]
    rest = [name for name in options.ignored if name not in matters]
    notes = [f"{options.source}: {name}: a matter of the model document, not of the layout" for name in matters]
    if rest or strays:
        notes.append(f"{options.source}: ignored: {', '.join([*strays, *rest])}")
    return notes
