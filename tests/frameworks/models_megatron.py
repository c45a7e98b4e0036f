# SPDX-License-Identifier: Apache-2.0
"""Tables of whole models: Megatron-Core's GPTModel, as each rank builds it.

The model's own code decides which parameters a rank has, in which order they are registered,
how they are cut and which are shared. Weights are filled with their own indices before they
are cut, so that what a rank holds is read from its memory.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

from megatron.core import parallel_state as ps
from megatron.core.models.gpt import GPTModel
from megatron.core.models.gpt.gpt_layer_specs import (
    get_gpt_decoder_block_spec,
    get_gpt_layer_local_spec,
    get_gpt_mtp_block_spec,
)
from megatron.core.transformer import TransformerConfig
from megatron.core.transformer.transformer_layer import get_transformer_layer_offset

import documents
from buffers_megatron import UNUSED, Chunk, want
from fake_world import torch
from runs import count, slice_runs

Entry = dict[str, Any]
VOCABULARY = 24
PLACES = ("loss", "layers", "apart")  # of the prediction block

# ---- the model --------------------------------------------------------------------------


def number(weight: torch.Tensor) -> torch.Tensor:
    """Fill a whole weight with the indices of its elements."""
    with torch.no_grad():
        weight.copy_(torch.arange(weight.numel(), dtype=torch.float32).reshape(weight.shape))
    return weight


def config_of(entry: Entry) -> TransformerConfig:
    """Megatron's configuration of an entry."""
    arch, layout = entry["arch"], entry["layout"]
    size = {axis: documents.size(entry, axis) for axis in ("tp", "ep", "pp", "etp")}
    pipeline = layout.get("pipeline", {})
    moe = {}
    if "experts" in entry:
        moe = {"num_moe_experts": entry["experts"], "moe_ffn_hidden_size": arch["ffn"], "moe_layer_freq": arch["moe"]}
    return TransformerConfig(
        num_layers=entry["layers"], hidden_size=arch["hidden"], num_attention_heads=arch["heads"],
        num_query_groups=arch["groups"], ffn_hidden_size=arch["ffn"], gated_linear_unit=arch["glu"],
        add_bias_linear=arch["bias"], qk_layernorm=arch["qk_norm"], normalization=arch["norm"],
        # not cp: the attention without TransformerEngine refuses it, and no weight depends on it
        tensor_model_parallel_size=size["tp"], pipeline_model_parallel_size=size["pp"], pipeline_dtype=torch.float32,
        virtual_pipeline_model_parallel_size=layout["parallel"].get("vpp"),
        expert_model_parallel_size=size["ep"], expert_tensor_parallel_size=size["etp"],
        num_layers_in_first_pipeline_stage=pipeline.get("first"),
        num_layers_in_last_pipeline_stage=pipeline.get("last"),
        pipeline_model_parallel_layout=pipeline.get("layout"),
        mtp_num_layers=1 if entry.get("mtp") else None, use_cpu_initialization=True,
        init_method=number, output_layer_init_method=number, params_dtype=torch.float32,
        **moe)  # fmt: skip


def module_of(entry: Entry, config: TransformerConfig, v: int | None) -> torch.nn.Module:
    """The chunk of the current rank."""
    block = get_gpt_decoder_block_spec(config, use_transformer_engine=False, vp_stage=v)
    mtp = None
    if entry.get("mtp"):
        spec = get_gpt_layer_local_spec(qk_layernorm=config.qk_layernorm, normalization=config.normalization)
        mtp = get_gpt_mtp_block_spec(config, spec, use_transformer_engine=False, vp_stage=v)
    return GPTModel(
        config, block, vocab_size=VOCABULARY, max_sequence_length=8,
        pre_process=ps.is_pipeline_first_stage(ignore_virtual=False, vp_stage=v),
        post_process=ps.is_pipeline_last_stage(ignore_virtual=False, vp_stage=v),
        share_embeddings_and_output_weights=entry["arch"]["tied"],
        position_embedding_type="learned_absolute" if entry["arch"]["learned"] else "rope",
        mtp_block_spec=mtp, vp_stage=v)  # fmt: skip


# ---- names ---------------------------------------------------------------------------------


def global_name(entry: Entry, name: str, offset: int) -> str:
    """A parameter's name with global numbers, as the entry's model document has it."""
    words = name.split(".")
    if words[:2] == ["decoder", "layers"]:
        words = [f"L{int(words[2]) + offset}"] + words[3:]
    if "local_experts" in words:
        at = words.index("local_experts")
        local = entry["experts"] // documents.size(entry, "ep")
        expert = ps.get_expert_model_parallel_rank() * local + int(words[at + 1])
        # one module per expert: weights of an expert stand together
        words = [*words[: at - 2], f"x{expert}", words[at + 2] + "_" + words[at + 3]]
    drop = {"self_attention", "weight", "mlp", "embedding", "decoder"}
    short = ".".join(word for word in words if word not in drop)
    return "word_embeddings" if short == "output_layer" and entry["arch"]["tied"] else short


def name_chunk(entry: Entry, module: torch.nn.Module, offset: int) -> dict[str, str]:
    """Global names of a chunk's parameters. A tied chunk with two weights of the vocabulary reads the embedding."""
    local = [name for name, _ in module.named_parameters()]
    names = {name: global_name(entry, name, offset) for name in local}
    if list(names.values()).count("word_embeddings") == 2:
        names["output_layer.weight"] = UNUSED
    return names


def build(entry: Entry) -> tuple[TransformerConfig, list[Chunk]]:
    """Chunks of the current rank, checked against the entry's model document."""
    config = config_of(entry)
    vpp = config.virtual_pipeline_model_parallel_size
    chunks = []
    for v in range(vpp or 1):
        stage = v if vpp else None
        module = module_of(entry, config, stage)
        offset = get_transformer_layer_offset(config, vp_stage=stage)
        names = name_chunk(entry, module, offset)
        for name, param in module.named_parameters():
            if names[name] != UNUSED:
                check_contents(entry, names[name], name, param)
        chunks.append(Chunk(module, names))
    return config, chunks


def check_contents(entry: Entry, name: str, local: str, param: torch.nn.Parameter) -> None:
    """The document's cut of a tensor is what the rank has in memory."""
    pattern, shape, keys = documents.family_of(entry, name)
    expert = "{e}" in pattern
    rank = ps.get_expert_tensor_parallel_rank() if expert else ps.get_tensor_model_parallel_rank()
    parts = documents.size(entry, "etp" if expert else "tp")
    held = slice_runs(shape, keys, rank, parts, entry["layout"]["vocab"])
    if count(held) != param.numel():
        raise AssertionError(f"{name}: {count(held)} elements by the document, {tuple(param.shape)} on the rank")
    # copies of a shared embedding wait for the first stage's values, norms and biases are not numbered
    is_copy = getattr(param, "shared", False)
    if len(shape) > 1 and not is_copy and not local.endswith("position_embeddings.weight"):
        indices = [start + i for start, length in held for i in range(length)]
        if param.detach().flatten().tolist() != indices:
            raise AssertionError(f"{name}: the rank holds other elements than the document says")


# ---- documents -------------------------------------------------------------------------------


def linear(
    name: str, rows: int, columns: int, dim: int, bias: bool, segments: list[int] | None = None
) -> list[list[Any]]:
    """Weight and bias of a linear layer that is cut over its rows (dim 0) or columns (dim 1)."""
    rule: dict[str, Any] = {"dim": dim} | ({"segments": segments} if segments else {})
    result: list[list[Any]] = [[name, [rows, columns], {"cut": rule}]]
    if bias:
        result.append([f"{name}{'_' if '{e}' in name else '.'}bias", [rows], *([{"cut": rule}] if dim == 0 else [])])
    return result


def norm(name: str, width: int, arch: dict[str, Any]) -> list[list[Any]]:
    """A norm over a width."""
    return [[name, [width]]] + ([[f"{name}.bias", [width]]] if arch["norm"] == "LayerNorm" else [])


def attention_families(prefix: str, arch: dict[str, Any]) -> list[list[Any]]:
    """Norms and attention, in Megatron's order of registration: output projection first."""
    hidden, width = arch["hidden"], arch["hidden"] // arch["heads"]
    rows = arch["groups"] * (arch["heads"] // arch["groups"] + 2) * width
    result = norm(f"{prefix}input_layernorm", hidden, arch)
    result += linear(f"{prefix}linear_proj", hidden, hidden, 1, arch["bias"])
    result += linear(f"{prefix}linear_qkv", rows, hidden, 0, arch["bias"])
    if arch["qk_norm"]:
        result += norm(f"{prefix}q_layernorm", width, arch) + norm(f"{prefix}k_layernorm", width, arch)
    return result + norm(f"{prefix}pre_mlp_layernorm", hidden, arch)


def mlp_families(prefix: str, arch: dict[str, Any], suffix: str = "") -> list[list[Any]]:
    """Two linear layers."""
    ffn, hidden = arch["ffn"], arch["hidden"]
    segments = [ffn, ffn] if arch["glu"] else None
    rows = 2 * ffn if arch["glu"] else ffn
    return (linear(f"{prefix}linear_fc1{suffix}", rows, hidden, 0, arch["bias"], segments)
            + linear(f"{prefix}linear_fc2{suffix}", hidden, ffn, 1, arch["bias"]))  # fmt: skip


def expert_families(arch: dict[str, Any]) -> list[list[Any]]:
    """Router and experts; the weights of one expert stand together."""
    families = mlp_families("L{i}.x{e}.", {**arch, "bias": False}, "_weight")
    return [["L{i}.router", [arch["experts"], arch["hidden"]]], *families]


def with_layers(families: list[list[Any]], layers: list[int]) -> list[list[Any]]:
    """The same families, in these layers only."""
    return [[name, shape, {**(rest[0] if rest else {}), "layers": layers}] for name, shape, *rest in families]


def decoder_families(entry: Entry) -> list[list[Any]]:
    """All per-layer families."""
    arch = entry["arch"]
    result = attention_families("L{i}.", arch)
    if "experts" not in entry:
        return result + mlp_families("L{i}.", arch)
    dense = [i for i, moe in enumerate(arch["moe"]) if not moe]
    sparse = [i for i, moe in enumerate(arch["moe"]) if moe]
    if dense:
        result += with_layers(mlp_families("L{i}.", arch), dense)
    return result + with_layers(expert_families({**arch, "experts": entry["experts"]}), sparse)


def mtp_families(arch: dict[str, Any]) -> list[list[Any]]:
    """The block for multi-token prediction."""
    hidden, prefix = arch["hidden"], "mtp.layers.0."
    result = norm(f"{prefix}enorm", hidden, arch) + norm(f"{prefix}hnorm", hidden, arch)
    result += linear(f"{prefix}eh_proj", hidden, 2 * hidden, 0, False)
    result += attention_families(f"{prefix}transformer_layer.", arch)
    result += mlp_families(f"{prefix}transformer_layer.", arch)
    result += norm(f"{prefix}final_layernorm", hidden, arch)
    return [[name, shape, {**(rest[0] if rest else {}), "stage": "mtp"}] for name, shape, *rest in result]


def tensors_of(entry: Entry) -> list[list[Any]]:
    """The model document's tensors, in Megatron's order of registration."""
    arch = entry["arch"]
    rows: dict[str, Any] = {"cut": {"dim": 0, "pad": "vocab"}}
    ties = ["last"] * arch["tied"] + ["mtp"] * bool(entry.get("mtp"))
    result: list[list[Any]] = [["word_embeddings", [VOCABULARY, arch["hidden"]], {"stage": "first", **rows}]]
    if ties:
        result[0][2]["tied"] = ties
    if arch["learned"]:
        place: dict[str, Any] = {"stage": "first"} | ({"tied": "mtp"} if entry.get("mtp") else {})
        result.append(["position_embeddings", [8, arch["hidden"]], place])
    result += decoder_families(entry)
    result += [[name, shape, {"stage": "final"}] for name, shape in norm("final_layernorm", arch["hidden"], arch)]
    if entry.get("mtp"):
        result += mtp_families(arch)
    if not arch["tied"]:
        result.append(["output_layer", [VOCABULARY, arch["hidden"]], {"stage": "last", **rows}])
    return result


# ---- random entries ----------------------------------------------------------------------------


def random_parallel(pick: random.Random, experts: bool) -> dict[str, int]:
    """Sizes that a small model takes."""
    while True:
        p = {"tp": pick.choice((1, 2, 2, 4)), "cp": pick.choice((1, 1, 2)), "dp": pick.choice((1, 2, 3, 4)),
             "pp": pick.choice((1, 2, 2, 3, 4))}  # fmt: skip
        world = p["tp"] * p["cp"] * p["dp"] * p["pp"]
        inner = world // p["pp"]
        if world > 16 or world < 2:
            continue
        if experts:
            p["ep"] = pick.choice([n for n in (1, 2, 4) if inner % n == 0])
            if p["ep"] > 1:
                p["etp"] = pick.choice([n for n in (1, 2, 4) if inner // p["ep"] % n == 0])
        return {axis: n for axis, n in p.items() if n > 1 or axis == "etp"}


def random_pipeline(pick: random.Random, parallel: dict[str, int], mtp: bool) -> tuple[int, dict[str, Any]]:
    """Layers, and how they are spread."""
    pp = parallel.get("pp", 1)
    kind = pick.choice(("even", "even", "virtual", "first", "text"))
    if pp == 1 or kind == "even":
        return pp * pick.choice((1, 2)), {}
    if kind == "virtual" or mtp:
        parallel["vpp"] = 2
        return 2 * pp, {}
    if kind == "first":
        return 1 + 2 * (pp - 1), {"first": 1}
    middle = "|".join("t" * pick.choice((1, 2)) for _ in range(2 * pp - 2))
    text = f"E|{middle}|tL"
    parallel["vpp"] = 2
    return text.count("t"), {"layout": text}


def random_arch(pick: random.Random, tp: int) -> dict[str, Any]:
    """Shape of the network."""
    heads = tp * pick.choice((1, 2))
    return {"hidden": 4 * heads, "heads": heads, "groups": pick.choice([g for g in (tp, heads) if heads % g == 0]),
            "ffn": tp * pick.choice((3, 5, 8)), "glu": pick.random() < 0.6, "bias": pick.random() < 0.4,
            "norm": pick.choice(("RMSNorm", "LayerNorm")), "qk_norm": pick.random() < 0.3,
            "tied": pick.random() < 0.5, "learned": pick.random() < 0.3}  # fmt: skip


def random_entry(pick: random.Random) -> Entry:
    """Model and layout."""
    experts, mtp = pick.random() < 0.4, pick.random() < 0.2
    experts = experts and not mtp
    parallel = random_parallel(pick, experts)
    layers, pipeline = random_pipeline(pick, parallel, mtp)
    arch = random_arch(pick, max(parallel.get("tp", 1), parallel.get("etp", 1)))
    entry: Entry = {"layers": layers, "arch": arch}
    if experts:
        entry["experts"] = parallel.get("ep", 1) * 2
        arch["bias"] = False
        arch["moe"] = [int(pick.random() < 0.6) for _ in range(layers - 1)] + [1]
    if mtp:
        entry["mtp"] = True
        arch["tied"] = arch["tied"] and parallel.get("pp", 1) == 1  # else in the table of ties
        arch["learned"] = False  # the trainer refuses it
    shard: dict[str, Any] = {"rule": "megatron"} | (
        {"bucket": pick.choice((50, 200, 700))} if pick.random() < 0.5 else {}
    )
    entry["layout"] = {"parallel": parallel, "vocab": {"divisible_by": 1}, "shard": shard}
    if pipeline:
        entry["layout"]["pipeline"] = pipeline
    return entry | {"tensors": tensors_of(entry)}


def models(pick: random.Random, total: int) -> Iterator[Entry]:
    """Random models under random layouts."""
    for _ in range(total):
        entry = random_entry(pick)
        entry["want"] = want(entry, build)
        yield entry


def dense_experts(pick: random.Random, total: int) -> Iterator[Entry]:
    """Experts with ep 1 and etp unlike tp, which this version of the package keeps in the dense buffers."""
    for _ in range(total):
        tp = pick.choice((2, 4))
        etp = pick.choice([n for n in (1, 2) if n < tp])
        parallel = {"tp": tp, "etp": etp, "dp": pick.choice((1, 2, 3)), "pp": pick.choice((1, 2))}
        layers = 2 * parallel["pp"]
        moe = [int(pick.random() < 0.6) for _ in range(layers - 1)] + [1]
        arch = random_arch(pick, tp) | {"bias": False, "moe": moe}
        entry: Entry = {"layers": layers, "arch": arch, "experts": 2}
        shard = {"rule": "megatron", "expert_buffer": "ep"}
        sizes = {axis: n for axis, n in parallel.items() if n > 1 or axis == "etp"}
        entry["layout"] = {"parallel": sizes, "vocab": {"divisible_by": 1}, "shard": shard}
        entry["tensors"] = tensors_of(entry)
        yield entry | {"want": want(entry, build)}


# ---- ties: where the copies of the embedding stand ------------------------------------------------


def block_text(pick: random.Random, pp: int, vpp: int, where: str) -> str:
    """A layout string with the prediction block beside the loss, beside the last layers, or in a chunk of its own."""
    count = pp * vpp
    if where == "loss":
        return "E" + "|".join("t" * pick.choice((1, 2)) for _ in range(count)) + "mL"
    middle = ["t" * pick.choice((1, 2)) for _ in range(count - 1)]
    if where == "layers":
        middle[-1] += "m"
    else:
        middle[-1] = "m"
    return "E" + "|".join(middle) + "|L"


def tie_entry(pick: random.Random, tied: bool, where: str | None) -> Entry:
    """A dense model with a tied output layer, a prediction block or both."""
    parallel: dict[str, int] = {"tp": pick.choice((1, 2)), "dp": pick.choice((1, 2, 3)), "pp": pick.choice((2, 3))}
    if where in ("layers", "apart"):  # never on the first stage
        parallel["pp"] = 3
    vpp = pick.choice((1, 2))
    if vpp > 1:
        parallel["vpp"] = vpp
    arch = random_arch(pick, parallel["tp"]) | {"tied": tied, "learned": False}
    layers, pipeline = parallel["pp"] * vpp, {}
    if where is not None and (where != "loss" or pick.random() < 0.5):
        pipeline = {"layout": block_text(pick, parallel["pp"], vpp, where)}
        layers = pipeline["layout"].count("t")
    shard: dict[str, Any] = {"rule": "megatron"} | ({"bucket": 200} if pick.random() < 0.5 else {})
    layout = {"parallel": {axis: n for axis, n in parallel.items() if n > 1}, "vocab": {"divisible_by": 1}}
    entry: Entry = {"layers": layers, "arch": arch, "layout": layout | {"shard": shard}}
    if where is not None:
        entry["mtp"] = True
    if pipeline:
        entry["layout"]["pipeline"] = pipeline
    return entry | {"tensors": tensors_of(entry)}


def ties(pick: random.Random, rounds: int) -> Iterator[Entry]:
    """Every way to tie, with every place of the prediction block, some times."""
    for _ in range(rounds):
        for tied, where in ((True, None), *((tied, where) for tied in (False, True) for where in PLACES)):
            entry = tie_entry(pick, tied, where)
            entry["want"] = want(entry, build)
            yield entry
