# SPDX-License-Identifier: Apache-2.0
"""Hugging Face `config.json` to a model document. One function per family, one table of families."""

from __future__ import annotations

from collections.abc import Callable
from math import gcd

from . import families as parts
from .errors import Refused, problem, quoted
from .families import Place
from .fields import Fields, load
from .model import SCALARS, Model, Tensor

LAYER = Place()
PATTERN = {"M": "mamba", "*": "attention", "-": "mlp", "E": "moe"}
BLOCKS = {"mamba": "M", "linear_attention": "M", "attention": "*", "full_attention": "*", "mlp": "-", "moe": "E"}


def assemble(
    fields: Fields, tensors: list[Tensor], layers: int, heads: int, kv_heads: int | None, experts: int | None = None
) -> Model:
    """The document, once nothing was wrong."""
    fields.finish()
    kept = tuple(t for t in tensors if t.layers is None or t.layers)
    has_experts = any("{e}" in tensor.name for tensor in kept)
    scalars = tuple((name, "i64", 1) for name in SCALARS)
    return Model("", layers, kept, heads, kv_heads, experts if has_experts else None, scalars)


# ---- what several families share ---------------------------------------------------------


def head_sizes(fields: Fields, hidden: int, head_dim: str, kv: str) -> tuple[int, int, int]:
    """Query heads, kv heads, width of a head. `head_dim` and `kv` say what may be left out: `need` or `derive`."""
    query = fields.need("num_attention_heads")
    kv_heads = fields.count("num_key_value_heads")
    if kv_heads is None:
        kv_heads = query if kv == "derive" else fields.need("num_key_value_heads")
    fields.divides("num_key_value_heads", kv_heads, "num_attention_heads", query)
    width = fields.same(("head_dim", "attention_head_dim"))
    if width is None and head_dim == "need":
        width = fields.need("head_dim")
    if width is None:
        fields.divides("num_attention_heads", query, "hidden_size (there is no head_dim)", hidden)
        width = max(hidden // query, 1)
    return query, kv_heads, width


def tie(fields: Fields, default: bool = False) -> bool:
    """Whether the output matrix is the embedding."""
    return fields.flag("tie_word_embeddings", default)


def wrap(
    fields: Fields, hidden: int, inner: list[Tensor], tied: bool, block: list[Tensor] | None = None
) -> list[Tensor]:
    """Embedding, layers, final norm, prediction block, output matrix."""
    vocab = fields.need("vocab_size")
    ties = (("last",) if tied else ()) + (("mtp",) if block else ())
    final, head = parts.ending(vocab, hidden, tied)
    return [parts.embedding(vocab, hidden, ties), *inner, *final, *(block or []), *head]


def dense(fields: Fields, head_dim: str, kv: str, **heads: bool) -> Model:
    """A Llama-like network: attention and a gated MLP in every layer."""
    layers, hidden, width = fields.layers(), fields.need("hidden_size"), fields.need("intermediate_size")
    query, kv_heads, head_width = head_sizes(fields, hidden, head_dim, kv)
    fields.length("layer_types", layers)
    shape = parts.Heads(hidden, query, kv_heads, head_width, **heads)
    inner = parts.attention(LAYER, shape) + parts.norm(LAYER, "post_attn_norm", hidden)
    inner += parts.gated(LAYER, "mlp", hidden, width, fields.flag("mlp_bias", False))
    return assemble(fields, wrap(fields, hidden, inner, tie(fields)), layers, query, kv_heads)


# ---- families ------------------------------------------------------------------------------


def gpt2(fields: Fields) -> Model:
    """LayerNorm with bias, learned positions, biases everywhere, tied output."""
    layers, hidden = fields.layers("n_layer", "num_hidden_layers"), fields.need("n_embd", "hidden_size")
    heads, positions = fields.need("n_head", "num_attention_heads"), fields.need("n_positions", "n_ctx")
    width, vocab, tied = fields.count("n_inner") or 4 * hidden, fields.need("vocab_size"), tie(fields, True)
    fields.divides("n_head", heads, "n_embd", hidden)
    fields.absent("add_cross_attention", "no cross attention")
    shape = parts.Heads(hidden, heads, heads, hidden // heads, qkv_bias=True, out_bias=True)
    final, head = parts.ending(vocab, hidden, tied, norm_bias=True)
    tensors = [parts.embedding(vocab, hidden, ("last",) if tied else ())]
    tensors += [Tensor("pos_embed.weight", (positions, hidden), "first")]
    tensors += parts.attention(LAYER, shape, "ln_1", norm_bias=True) + parts.norm(LAYER, "ln_2", hidden, bias=True)
    tensors += parts.ungated(LAYER, "mlp", hidden, width, True, ("fc1", "fc2"))
    return assemble(fields, tensors + final + head, layers, heads, heads)


def llama(fields: Fields) -> Model:
    bias = fields.flag("attention_bias", False)
    return dense(fields, "derive", "derive", qkv_bias=bias, out_bias=bias)


def mistral(fields: Fields) -> Model:
    return dense(fields, "derive", "need")


def qwen2(fields: Fields) -> Model:
    return dense(fields, "derive", "need", qkv_bias=True)


def qwen3(fields: Fields) -> Model:
    bias = fields.flag("attention_bias", False)
    return dense(fields, "need", "need", qkv_bias=bias, out_bias=bias, head_norms=True)


def chosen(fields: Fields, experts: str) -> int:
    """Experts of a layer; at least as many as a token uses."""
    count = fields.need(experts)
    used = fields.count("num_experts_per_tok")
    if used is not None and used > count:
        fields.refuse("num_experts_per_tok", used, f"at most {experts}, which is {count}")
    return count


def mixtral(fields: Fields) -> Model:
    layers, hidden, width = fields.layers(), fields.need("hidden_size"), fields.need("intermediate_size")
    query, kv_heads, head_width = head_sizes(fields, hidden, "derive", "need")
    moe = parts.Experts(hidden, chosen(fields, "num_local_experts"), width)
    inner = parts.attention(LAYER, parts.Heads(hidden, query, kv_heads, head_width))
    inner += parts.norm(LAYER, "post_attn_norm", hidden) + parts.mixture(LAYER, moe)
    return assemble(fields, wrap(fields, hidden, inner, tie(fields)), layers, query, kv_heads, moe.count)


def sparse_layers(fields: Fields, layers: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Dense and sparse layers of Qwen3's mixtures."""
    step, named = fields.count("decoder_sparse_step") or 1, set(fields.counts("mlp_only_layers"))
    if any(not 0 <= layer < layers for layer in named):
        fields.refuse("mlp_only_layers", sorted(named), f"layers below {layers}")
    sparse = tuple(layer for layer in range(layers) if layer not in named and (layer + 1) % step == 0)
    return tuple(sorted(set(range(layers)) - set(sparse))), sparse


def some(numbers: tuple[int, ...], layers: int) -> Place:
    """A place in these layers."""
    return Place(layers=None if len(numbers) == layers else numbers)


def qwen3_moe(fields: Fields) -> Model:
    layers, hidden = fields.layers(), fields.need("hidden_size")
    query, kv_heads, head_width = head_sizes(fields, hidden, "need", "need")
    bias = fields.flag("attention_bias", False)
    plain, sparse = sparse_layers(fields, layers)
    moe = parts.Experts(hidden, chosen(fields, "num_experts"), fields.need("moe_intermediate_size"))
    inner = parts.attention(LAYER, parts.Heads(hidden, query, kv_heads, head_width, bias, bias, head_norms=True))
    inner += parts.norm(LAYER, "post_attn_norm", hidden)
    if plain:
        inner += parts.gated(some(plain, layers), "mlp", hidden, fields.need("intermediate_size"))
    inner += parts.mixture(some(sparse, layers), moe)
    return assemble(fields, wrap(fields, hidden, inner, tie(fields)), layers, query, kv_heads, moe.count)


def gpt_oss(fields: Fields) -> Model:
    layers, hidden, width = fields.layers(), fields.need("hidden_size"), fields.need("intermediate_size")
    query, kv_heads, head_width = head_sizes(fields, hidden, "need", "need")
    fields.length("layer_types", layers)
    bias = fields.flag("attention_bias", True)
    moe = parts.Experts(hidden, chosen(fields, "num_local_experts"), width, bias=True, router_bias=True)
    inner = parts.attention(LAYER, parts.Heads(hidden, query, kv_heads, head_width, bias, bias, sinks=True))
    inner += parts.norm(LAYER, "post_attn_norm", hidden) + parts.mixture(LAYER, moe)
    return assemble(fields, wrap(fields, hidden, inner, tie(fields)), layers, query, kv_heads, moe.count)


def latent(fields: Fields, hidden: int) -> parts.Latent:
    """DeepSeek's attention."""
    heads, kv_heads = fields.need("num_attention_heads"), fields.count("num_key_value_heads")
    nope, rope = fields.need("qk_nope_head_dim"), fields.need("qk_rope_head_dim")
    both = fields.count("qk_head_dim")
    if kv_heads not in (None, heads):
        fields.refuse("num_key_value_heads", kv_heads, f"num_attention_heads, which is {heads}")
    if both not in (None, nope + rope):
        fields.refuse("qk_head_dim", both, f"qk_nope_head_dim and qk_rope_head_dim together, which is {nope + rope}")
    if "q_lora_rank" not in fields.values:
        fields.refuse("q_lora_rank", "no such field", "a whole number of at least 1, or null")
    rank = fields.count("q_lora_rank")
    sizes = (fields.need("kv_lora_rank"), nope, rope, fields.need("v_head_dim"))
    return parts.Latent(hidden, heads, rank, *sizes, bias=fields.flag("attention_bias", False))


def prediction(hidden: int, mla: parts.Latent, moe: parts.Experts) -> list[Tensor]:
    """DeepSeek's multi-token prediction block."""
    place = Place("mtp.", "mtp")
    tensors = parts.norm(place, "enorm", hidden) + parts.norm(place, "hnorm", hidden)
    tensors += parts.linear(place, "eh_proj", (hidden, 2 * hidden), 0)
    tensors += parts.latent_attention(place, mla) + parts.norm(place, "post_attn_norm", hidden)
    tensors += parts.mixture(place, moe) + parts.norm(place, "final_norm", hidden)
    return parts.remarked(tensors, "The multi-token prediction block")


def deepseek_v3(fields: Fields) -> Model:
    layers, hidden = fields.layers(), fields.need("hidden_size")
    first, step = fields.need("first_k_dense_replace", least=0), fields.count("moe_layer_freq") or 1
    if "first_k_dense_replace" in fields.values and first > layers:
        fields.refuse("first_k_dense_replace", first, f"at most num_hidden_layers, which is {layers}")
    blocks = fields.count("num_nextn_predict_layers", least=0) or 0
    if blocks > 1:
        fields.refuse("num_nextn_predict_layers", blocks, "0 or 1")
    mla, moe = latent(fields, hidden), deepseek_experts(fields, hidden)
    sparse = tuple(layer for layer in range(layers) if layer >= first and layer % step == 0)
    plain = tuple(sorted(set(range(layers)) - set(sparse)))
    inner = parts.latent_attention(LAYER, mla) + parts.norm(LAYER, "post_attn_norm", hidden)
    if plain:
        inner += parts.gated(some(plain, layers), "mlp", hidden, fields.need("intermediate_size"))
    inner += parts.mixture(some(sparse, layers), moe)
    block = prediction(hidden, mla, moe) if blocks else None
    return assemble(fields, wrap(fields, hidden, inner, tie(fields), block), layers, mla.heads, None, moe.count)


def deepseek_experts(fields: Fields, hidden: int) -> parts.Experts:
    """Experts, shared experts fused into one, and the selection bias."""
    count, width = chosen(fields, "n_routed_experts"), fields.need("moe_intermediate_size")
    shared = fields.count("n_shared_experts", least=0) or 0
    groups = fields.count("n_group")
    if groups is not None:
        fields.divides("n_group", groups, "n_routed_experts", count)
    return parts.Experts(hidden, count, width, shared * width, selection="bias")


def hybrid_pattern(fields: Fields) -> str:
    """One letter per layer."""
    pattern, blocks = fields.text("hybrid_override_pattern"), fields.values.get("layers_block_type")
    if isinstance(blocks, list):
        unknown = [block for block in blocks if block not in BLOCKS]
        if unknown:
            fields.refuse("layers_block_type", quoted(unknown[0]), f"one of {', '.join(BLOCKS)}")
        listed = "".join(BLOCKS.get(block, "M") for block in blocks)
        if pattern is not None and pattern != listed:
            fields.refuse("hybrid_override_pattern", quoted(pattern), f"what layers_block_type says, {quoted(listed)}")
        pattern = pattern or listed
    if not pattern:
        fields.refuse("hybrid_override_pattern", "no such field", "one letter of M*-E for each layer")
        return "M"
    wrong = [letter for letter in pattern if letter not in PATTERN]
    if wrong:
        fields.refuse("hybrid_override_pattern", quoted(wrong[0]), "M (Mamba), * (attention), - (MLP) or E (experts)")
    layers = fields.count("num_hidden_layers")
    if layers is not None and layers != len(pattern):
        fields.refuse("num_hidden_layers", layers, f"{len(pattern)}, the letters of hybrid_override_pattern")
    return pattern


def hybrid_mamba(fields: Fields, hidden: int) -> parts.Mamba:
    """The Mamba layers of a hybrid."""
    heads, width = fields.need("mamba_num_heads"), fields.need("mamba_head_dim")
    groups = fields.need("n_groups", "mamba_n_groups")
    fields.divides("n_groups", groups, "mamba_num_heads", heads)
    kernel = fields.need("conv_kernel", "mamba_d_conv")
    conv_bias = fields.flag("use_conv_bias", True)
    state = fields.need("ssm_state_size")
    return parts.Mamba(hidden, heads, width, state, groups, kernel, conv_bias, fields.flag("use_bias", False))


def hybrid_experts(fields: Fields, hidden: int) -> parts.Experts:
    """The expert layers of a hybrid: no gate, one shared expert."""
    count, width = chosen(fields, "n_routed_experts"), fields.need("moe_intermediate_size")
    fields.absent("moe_latent_size", "none (experts behind a latent projection are not supported)")
    shared = fields.count("n_shared_experts", least=0)
    wide = fields.need("moe_shared_expert_intermediate_size") if shared != 0 else 0
    bias = fields.flag("mlp_bias", False)
    return parts.Experts(hidden, count, width, wide, gate=False, bias=bias, selection="expert_bias")


def nemotron_h(fields: Fields) -> Model:
    pattern, hidden = hybrid_pattern(fields), fields.need("hidden_size")
    places = {letter: Place(layers=tuple(k for k, at in enumerate(pattern) if at == letter)) for letter in PATTERN}
    fields.absent("num_nextn_predict_layers", "0 (a prediction block of a hybrid is not supported)")
    inner: list[Tensor] = []
    tp_sizes: list[int] = []
    kv_heads: int | None = None
    moe = hybrid_experts(fields, hidden) if "E" in pattern else None
    if "M" in pattern:
        ssm = hybrid_mamba(fields, hidden)
        tp_sizes += [ssm.groups, ssm.heads]
        inner += parts.remarked(parts.mamba(places["M"], ssm), "Mamba-2 layers")
    if "*" in pattern:
        query, kv_heads, width = head_sizes(fields, hidden, "need", "need")
        bias = fields.flag("attention_bias", False)
        tp_sizes.append(query)
        attention = parts.attention(places["*"], parts.Heads(hidden, query, kv_heads, width, bias, bias))
        inner += parts.remarked(attention, "Attention layers")
    if "-" in pattern:
        mlp = parts.norm(places["-"], "pre_mlp_norm", hidden)
        size = fields.need("intermediate_size")
        mlp += parts.ungated(places["-"], "mlp", hidden, size, fields.flag("mlp_bias", False))
        inner += parts.remarked(mlp, "MLP layers")
    if moe is not None:
        mixed = parts.norm(places["E"], "pre_mlp_norm", hidden) + parts.mixture(places["E"], moe)
        inner += parts.remarked(mixed, "Mixture-of-experts layers")
    heads = gcd(*tp_sizes) if tp_sizes else 1  # tp must divide all of them
    kv_heads = gcd(kv_heads, heads) if kv_heads is not None else None
    tensors = wrap(fields, hidden, inner, tie(fields))
    return assemble(fields, tensors, len(pattern), heads, kv_heads, moe.count if moe is not None else None)


FAMILIES: dict[str, Callable[[Fields], Model]] = {
    "gpt2": gpt2,
    "llama": llama,
    "mistral": mistral,
    "mixtral": mixtral,
    "qwen2": qwen2,
    "qwen3": qwen3,
    "qwen3_moe": qwen3_moe,
    "deepseek_v3": deepseek_v3,
    "gpt_oss": gpt_oss,
    "nemotron_h": nemotron_h,
}


def default_name(fields: Fields, model_type: str) -> str:
    """The end of `_name_or_path`, else the type."""
    given = fields.values.get("_name_or_path")
    last = given.rstrip("/").rsplit("/", 1)[-1].lower() if isinstance(given, str) else ""
    return last or model_type.replace("_", "-")


def convert(
    path: str, name: str | None, drop_mtp: bool = False, include: str | None = None
) -> tuple[Model, list[str]]:
    """The document, and notes for the reader."""
    fields = load(path)
    model_type = fields.values.get("model_type")
    if not isinstance(model_type, str) or model_type not in FAMILIES:
        found = "no such field" if model_type is None else quoted(model_type)
        raise Refused(problem(path, "model_type", found, f"one of {', '.join(sorted(FAMILIES))}"))
    if drop_mtp:
        fields.values["num_nextn_predict_layers"] = 0
    model = FAMILIES[model_type](fields)
    notes = []
    if fields.values.get("quantization_config") is not None:
        notes.append(f"{path}: quantization_config: the document describes unquantized tensors, as they are trained")
    weights, buffers = model.elements("weight"), model.elements("buffer")
    remark = f"{weights:,} parameters" + (f", and {buffers:,} elements of buffers" if buffers else "")
    title = name or default_name(fields, model_type)
    remarks = (f"{title}: {remark}.", f"Made from a Hugging Face config of type {model_type}.")
    beside: dict[str, object] = {"include": include, "scalars": ()} if include is not None else {}
    if include is None:
        notes.append(f"{path}: beside the tensors the document has {', '.join(SCALARS)} only; `--include "
                     "megatron-state` adds random streams and the rest of what a Megatron job keeps")
    return Model(**{**model.__dict__, "name": title, "remarks": remarks, **beside}), notes
