# SPDX-License-Identifier: Apache-2.0
"""Small networks of every family, and the entries of their checkpoints, written out by hand from each config.

This is a second account of the names and shapes: it shares nothing with the converters.
"""

from __future__ import annotations

from collections.abc import Iterator

Named = Iterator[tuple[str, tuple[int, ...]]]
Config = dict[str, object]

H, F, V = 48, 80, 101  # hidden, MLP width, vocabulary of all small networks


def base(kind: str, layers: int, **more: object) -> Config:
    return {"model_type": kind, "num_hidden_layers": layers, "hidden_size": H, "intermediate_size": F,
            "num_attention_heads": 4, "num_key_value_heads": 2, "vocab_size": V, "tie_word_embeddings": False, **more}


SMALL: dict[str, Config] = {
    "gpt2": {"model_type": "gpt2", "n_layer": 2, "n_embd": H, "n_head": 4, "n_positions": 32, "vocab_size": V},
    "llama": base("llama", 3),
    "mistral": base("mistral", 2, head_dim=16),
    "mixtral": base("mixtral", 2, num_local_experts=4, num_experts_per_tok=2),
    "qwen2": base("qwen2", 2),
    "qwen3": base("qwen3", 2, head_dim=16),
    "qwen3_moe": base("qwen3_moe", 3, head_dim=16, num_experts=4, moe_intermediate_size=24, mlp_only_layers=[0]),
    "deepseek_v3": base("deepseek_v3", 3, num_key_value_heads=4, first_k_dense_replace=1, n_routed_experts=4,
                        n_shared_experts=2, moe_intermediate_size=24, q_lora_rank=20, kv_lora_rank=12,
                        qk_nope_head_dim=8, qk_rope_head_dim=4, v_head_dim=10, num_nextn_predict_layers=1),
    "gpt_oss": base("gpt_oss", 2, head_dim=16, intermediate_size=64, hidden_size=32, num_local_experts=4),
    "nemotron_h": base("nemotron_h", 4, hybrid_override_pattern="ME*-", head_dim=16, mamba_num_heads=8,
                       mamba_head_dim=6, ssm_state_size=16, n_groups=4, conv_kernel=4, n_routed_experts=4,
                       moe_intermediate_size=24, moe_shared_expert_intermediate_size=40),
}  # fmt: skip


def llama_attention(at: str, head: int, hidden: int = H, bias: str = "") -> Named:
    for name, rows in (("q", 4 * head), ("k", 2 * head), ("v", 2 * head)):
        yield f"{at}.{name}_proj.weight", (rows, hidden)
        if name in bias:
            yield f"{at}.{name}_proj.bias", (rows,)
    yield f"{at}.o_proj.weight", (hidden, 4 * head)
    if "o" in bias:
        yield f"{at}.o_proj.bias", (hidden,)


def gated(at: str, width: int, names: tuple[str, str, str] = ("gate_proj", "up_proj", "down_proj")) -> Named:
    yield f"{at}.{names[0]}.weight", (width, H)
    yield f"{at}.{names[1]}.weight", (width, H)
    yield f"{at}.{names[2]}.weight", (H, width)


def norms(at: str, hidden: int = H) -> Named:
    yield f"{at}.input_layernorm.weight", (hidden,)
    yield f"{at}.post_attention_layernorm.weight", (hidden,)


def ends(hidden: int = H) -> Named:
    yield "model.embed_tokens.weight", (V, hidden)
    yield "model.norm.weight", (hidden,)
    yield "lm_head.weight", (V, hidden)


def gpt2(_: Config) -> Named:
    yield from (("wte.weight", (V, H)), ("wpe.weight", (32, H)), ("ln_f.weight", (H,)), ("ln_f.bias", (H,)))
    for i in range(2):
        for name, shape in (("attn.c_attn", (H, 3 * H)), ("attn.c_proj", (H, H)), ("mlp.c_fc", (H, 4 * H)),
                            ("mlp.c_proj", (4 * H, H))):  # fmt: skip
            yield f"h.{i}.{name}.weight", shape
            yield f"h.{i}.{name}.bias", shape[1:]
        for name in ("ln_1.weight", "ln_1.bias", "ln_2.weight", "ln_2.bias"):
            yield f"h.{i}.{name}", (H,)
        yield f"h.{i}.attn.bias", (1, 1, 32, 32)  # the causal mask


def dense(config: Config, head: int, bias: str = "", head_norms: bool = False) -> Named:
    yield from ends()
    for i in range(int(str(config["num_hidden_layers"]))):
        at = f"model.layers.{i}"
        yield from norms(at)
        yield from llama_attention(f"{at}.self_attn", head, bias=bias)
        yield from gated(f"{at}.mlp", F)
        if head_norms:
            yield f"{at}.self_attn.q_norm.weight", (head,)
            yield f"{at}.self_attn.k_norm.weight", (head,)


def llama(config: Config) -> Named:
    yield from dense(config, 12)
    yield "model.layers.0.self_attn.rotary_emb.inv_freq", (6,)


def mixtral(_: Config) -> Named:
    yield from ends()
    for i in range(2):
        at = f"model.layers.{i}"
        yield from norms(at)
        yield from llama_attention(f"{at}.self_attn", 12)
        yield f"{at}.block_sparse_moe.gate.weight", (4, H)
        for e in range(4):
            yield from gated(f"{at}.block_sparse_moe.experts.{e}", F, ("w1", "w3", "w2"))


def qwen3_moe(_: Config) -> Named:
    yield from ends()
    for i in range(3):
        at = f"model.layers.{i}"
        yield from norms(at)
        yield from llama_attention(f"{at}.self_attn", 16)
        yield f"{at}.self_attn.q_norm.weight", (16,)
        yield f"{at}.self_attn.k_norm.weight", (16,)
        if i == 0:
            yield from gated(f"{at}.mlp", F)
            continue
        yield f"{at}.mlp.gate.weight", (4, H)
        for e in range(4):
            yield from gated(f"{at}.mlp.experts.{e}", 24)


def deepseek_v3(_: Config) -> Named:
    yield from ends()
    for i in range(4):
        at = f"model.layers.{i}"
        yield from norms(at)
        for name, shape in (("q_a_proj", (20, H)), ("q_a_layernorm", (20,)), ("q_b_proj", (48, 20)),
                            ("kv_a_proj_with_mqa", (16, H)), ("kv_a_layernorm", (12,)), ("kv_b_proj", (72, 12)),
                            ("o_proj", (H, 40))):  # fmt: skip
            yield f"{at}.self_attn.{name}.weight", shape
        if i == 0:
            yield from gated(f"{at}.mlp", F)
            continue
        yield f"{at}.mlp.gate.weight", (4, H)
        yield f"{at}.mlp.gate.e_score_correction_bias", (4,)
        yield from gated(f"{at}.mlp.shared_experts", 48)
        for e in range(4):
            yield from gated(f"{at}.mlp.experts.{e}", 24)
    yield "model.layers.1.mlp.experts.0.up_proj.weight_scale_inv", (1, 1)
    for name, shape in (("enorm", (H,)), ("hnorm", (H,)), ("eh_proj", (H, 2 * H)), ("embed_tokens", (V, H)),
                        ("shared_head.norm", (H,)), ("shared_head.head", (V, H))):  # fmt: skip
        yield f"model.layers.3.{name}.weight", shape


def gpt_oss(_: Config) -> Named:
    yield from ends(32)
    for i in range(2):
        at = f"model.layers.{i}"
        yield from norms(at, 32)
        yield from llama_attention(f"{at}.self_attn", 16, 32, bias="qkvo")
        yield f"{at}.self_attn.sinks", (4,)
        yield f"{at}.mlp.router.weight", (4, 32)
        yield f"{at}.mlp.router.bias", (4,)
        if i == 0:
            yield f"{at}.mlp.experts.gate_up_proj", (4, 32, 128)
            yield f"{at}.mlp.experts.down_proj", (4, 64, 32)
        else:  # four bits an element, in blocks of 32 with a scale
            yield f"{at}.mlp.experts.gate_up_proj_blocks", (4, 128, 1, 16)
            yield f"{at}.mlp.experts.gate_up_proj_scales", (4, 128, 1)
            yield f"{at}.mlp.experts.down_proj_blocks", (4, 32, 2, 16)
            yield f"{at}.mlp.experts.down_proj_scales", (4, 32, 2)
        yield f"{at}.mlp.experts.gate_up_proj_bias", (4, 128)
        yield f"{at}.mlp.experts.down_proj_bias", (4, 32)


def nemotron_h(_: Config) -> Named:
    yield from (("backbone.embeddings.weight", (V, H)), ("backbone.norm_f.weight", (H,)), ("lm_head.weight", (V, H)))
    for i in range(4):
        yield f"backbone.layers.{i}.norm.weight", (H,)
    at = "backbone.layers.0.mixer"
    for name, shape in (("in_proj.weight", (48 + 48 + 64 + 64 + 8, H)), ("conv1d.weight", (176, 1, 4)),
                        ("conv1d.bias", (176,)), ("dt_bias", (8,)), ("A_log", (8,)), ("D", (8,)),
                        ("norm.weight", (48,)), ("out_proj.weight", (H, 48))):  # fmt: skip
        yield f"{at}.{name}", shape
    at = "backbone.layers.1.mixer"
    yield f"{at}.gate.weight", (4, H)
    yield f"{at}.gate.e_score_correction_bias", (4,)
    for where, width in (*((f"experts.{e}", 24) for e in range(4)), ("shared_experts", 40)):
        yield f"{at}.{where}.up_proj.weight", (width, H)
        yield f"{at}.{where}.down_proj.weight", (H, width)
    yield from llama_attention("backbone.layers.2.mixer", 16)
    yield "backbone.layers.3.mixer.up_proj.weight", (F, H)
    yield "backbone.layers.3.mixer.down_proj.weight", (H, F)


def entries(family: str) -> dict[str, tuple[int, ...]]:
    """The checkpoint of a small network."""
    makers = {"gpt2": gpt2, "llama": llama, "mixtral": mixtral, "qwen3_moe": qwen3_moe, "deepseek_v3": deepseek_v3,
              "gpt_oss": gpt_oss, "nemotron_h": nemotron_h, "mistral": lambda c: dense(c, 16),
              "qwen2": lambda c: dense(c, 12, "qkv"), "qwen3": lambda c: dense(c, 16, head_norms=True)}  # fmt: skip
    return dict(makers[family](SMALL[family]))
