# SPDX-License-Identifier: Apache-2.0
"""Configs of known networks, written from their published sizes, with the parameters and tensors they must have."""

from __future__ import annotations

H56_PATTERN = "M-M-M-M*-" + "M-M-M-M-M*-" * 9 + "M-M-M-M-M-"


def gpt2(layers: int, hidden: int, heads: int, positions: int) -> dict[str, object]:
    return {"model_type": "gpt2", "n_layer": layers, "n_embd": hidden, "n_head": heads, "n_positions": positions,
            "n_ctx": positions, "n_inner": None, "vocab_size": 50257}


def llama_like(kind: str, sizes: tuple[int, ...], **more: object) -> dict[str, object]:
    """layers, hidden, MLP width, query heads, kv heads, vocabulary"""
    names = ("num_hidden_layers", "hidden_size", "intermediate_size", "num_attention_heads", "num_key_value_heads",
             "vocab_size")
    return {"model_type": kind, **dict(zip(names, sizes)), "tie_word_embeddings": False, **more}


def qwen3_moe(layers: int, hidden: int, heads: int, width: int) -> dict[str, object]:
    return llama_like("qwen3_moe", (layers, hidden, 3 * hidden, heads, 4, 151936), head_dim=128, num_experts=128,
                      num_experts_per_tok=8, moe_intermediate_size=width, decoder_sparse_step=1, mlp_only_layers=[],
                      attention_bias=False)


def nemotron(pattern: str, sizes: tuple[int, ...], **more: object) -> dict[str, object]:
    """hidden, MLP width, query heads, kv heads, Mamba heads, Mamba head width, Mamba state"""
    names = ("hidden_size", "intermediate_size", "num_attention_heads", "num_key_value_heads", "mamba_num_heads",
             "mamba_head_dim", "ssm_state_size")
    return {"model_type": "nemotron_h", "hybrid_override_pattern": pattern, "num_hidden_layers": len(pattern),
            **dict(zip(names, sizes)), "n_groups": 8, "conv_kernel": 4, "use_conv_bias": True, "use_bias": False,
            "attention_bias": False, "mlp_bias": False, "vocab_size": 131072, "tie_word_embeddings": False, **more}


DEEPSEEK: dict[str, object] = {
    "model_type": "deepseek_v3", "num_hidden_layers": 61, "hidden_size": 7168, "intermediate_size": 18432,
    "moe_intermediate_size": 2048, "first_k_dense_replace": 3, "moe_layer_freq": 1, "n_routed_experts": 256,
    "n_shared_experts": 1, "num_experts_per_tok": 8, "n_group": 8, "topk_group": 4, "num_attention_heads": 128,
    "num_key_value_heads": 128, "q_lora_rank": 1536, "kv_lora_rank": 512, "qk_nope_head_dim": 128,
    "qk_rope_head_dim": 64, "v_head_dim": 128, "vocab_size": 129280, "attention_bias": False,
    "tie_word_embeddings": False, "num_nextn_predict_layers": 1,
}

# name: (config, extra arguments, parameters with buffers)
MODELS: dict[str, tuple[dict[str, object], tuple[str, ...], int]] = {
    "gpt2-124m": (gpt2(12, 768, 12, 1024), (), 124_439_808),
    "gpt3-6.7b": (gpt2(32, 4096, 32, 2048), (), 6_658_404_352),
    "gpt3-175b": (gpt2(96, 12288, 96, 2048), (), 174_604_259_328),
    "llama-2-7b": (llama_like("llama", (32, 4096, 11008, 32, 32, 32000)), (), 6_738_415_616),
    "llama-2-13b": (llama_like("llama", (40, 5120, 13824, 40, 40, 32000)), (), 13_015_864_320),
    "llama-2-70b": (llama_like("llama", (80, 8192, 28672, 64, 8, 32000)), (), 68_976_648_192),
    "llama-3-8b": (llama_like("llama", (32, 4096, 14336, 32, 8, 128256)), (), 8_030_261_248),
    "llama-3-70b": (llama_like("llama", (80, 8192, 28672, 64, 8, 128256)), (), 70_553_706_496),
    "llama-3.1-405b": (llama_like("llama", (126, 16384, 53248, 128, 8, 128256), head_dim=128), (), 405_853_388_800),
    "qwen2.5-7b": (llama_like("qwen2", (28, 3584, 18944, 28, 4, 152064)), (), 7_615_616_512),
    "qwen3-8b": (llama_like("qwen3", (36, 4096, 12288, 32, 8, 151936), head_dim=128), (), 8_190_735_360),
    "qwen3-30b-a3b": (qwen3_moe(48, 2048, 32, 768), (), 30_532_122_624),
    "qwen3-235b-a22b": (qwen3_moe(94, 4096, 64, 1536), (), 235_093_634_560),
    "mixtral-8x7b": (llama_like("mixtral", (32, 4096, 14336, 32, 8, 32000), num_local_experts=8,
                                num_experts_per_tok=2), (), 46_702_792_704),
    "deepseek-v3": (DEEPSEEK, ("--no-mtp",), 671_026_419_200),
    "deepseek-v3-mtp": (DEEPSEEK, (), 671_026_419_200 + 11_610_068_224),
    "gpt-oss-120b": (llama_like("gpt_oss", (36, 2880, 2880, 64, 8, 201088), head_dim=64, num_local_experts=128,
                                num_experts_per_tok=4, attention_bias=True), (), 116_829_156_672),
    "nemotron-h-8b": (nemotron("M-M-M-M*-M-M-M-M-M*-M-M-M-M-M*-M-M-M-M-M*-M-M-M-M-M-",
                               (4096, 21504, 32, 8, 128, 64, 128), attention_head_dim=128), (), 8_100_852_736),
    "nemotron-h-56b": (nemotron(H56_PATTERN, (8192, 32768, 64, 8, 256, 64, 256), attention_head_dim=128), (),
                       56_324_350_464),
    "nemotron-3-nano-30b-a3b": (nemotron("MEMEM*EMEMEM*EMEMEM*EMEMEM*EMEMEM*EMEMEMEM*EMEMEMEME",
                                         (2688, 1856, 32, 2, 64, 64, 128), head_dim=128, n_routed_experts=128,
                                         n_shared_experts=1, num_experts_per_tok=6, moe_intermediate_size=1856,
                                         moe_shared_expert_intermediate_size=3712), (), 31_577_940_288),
    "mistral-7b": (llama_like("mistral", (32, 4096, 14336, 32, 8, 32000), head_dim=None), (), 7_241_732_096),
}

# tensors of models.md, section 8: families expanded
TENSORS = {
    "gpt2-124m": 148, "gpt3-175b": 1156, "llama-2-7b": 195, "llama-2-13b": 243, "llama-2-70b": 483,
    "llama-3-8b": 195, "llama-3-70b": 483, "llama-3.1-405b": 759, "qwen2.5-7b": 199, "qwen3-8b": 291,
    "qwen3-30b-a3b": 12627, "qwen3-235b-a22b": 24725, "mixtral-8x7b": 675, "deepseek-v3": 30486,
    "deepseek-v3-mtp": 30486 + 529, "gpt-oss-120b": 18759, "nemotron-h-8b": 303, "nemotron-h-56b": 681,
    "nemotron-3-nano-30b-a3b": 6231,
}
