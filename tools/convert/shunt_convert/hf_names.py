# SPDX-License-Identifier: Apache-2.0
"""Names of Hugging Face checkpoints in terms of a model document.

One rule a line: a pattern of the name's tail, the document's names that it may stand for, and what part of that tensor
it is. The first name that the document has counts.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

PREFIX = re.compile(r"(?:model\.language_model|language_model\.model|model|transformer|backbone)\.")
LAYER = re.compile(r"(?:layers|h|blocks)\.(\d{1,6})\.(.+)")


@dataclass(frozen=True)
class Rule:
    """How an entry relates to a tensor of the document."""

    pattern: re.Pattern[str]
    names: tuple[str, ...]
    part: str = ""  # q, k, v, gate, up: a part of the rows; "": all
    form: str = ""  # transposed, stacked (all experts in one), blocks, scales; "": as it is


def rule(pattern: str, names: str, part: str = "", form: str = "") -> Rule:
    return Rule(re.compile(pattern + r"\Z"), tuple(names.split()), part, form)


WB = r"(?P<p>weight|bias)"
EXPERTS = r"(?:mlp|mixer|block_sparse_moe)\.experts\."
ONE = EXPERTS + r"(?P<e>\d{1,6})\."
SHARED = r"(?:mlp|mixer)\.shared_experts?\."

GLOBAL = (
    rule(r"(?:embed_tokens|wte|embeddings|embedding)\.weight", "embed.weight"),
    rule(r"wpe\.weight", "pos_embed.weight"),
    rule(r"(?:norm|ln_f|norm_f|final_layernorm)\." + WB, "final_norm.{p}"),
    rule(r"lm_head\.weight", "lm_head.weight embed.weight"),
)

LAYERED = (
    *(rule(rf"(?:self_attn|mixer)\.{x}_proj\.{WB}", f"attn.qkv.{{p}}{' attn.q.{p}' if x == 'q' else ''}", x)
      for x in "qkv"),
    rule(rf"(?:self_attn|mixer)\.o_proj\.{WB}", "attn.o.{p}"),
    rule(r"self_attn\.q_a_layernorm\.weight", "attn.q_a_norm.weight"),
    rule(r"self_attn\.kv_a_layernorm\.weight", "attn.kv_a_norm.weight"),
    rule(rf"self_attn\.(?P<x>q_a|q_b|kv_b)_proj\.{WB}", "attn.{x}.{p}"),
    rule(rf"self_attn\.kv_a_proj_with_mqa\.{WB}", "attn.kv_a.{p}"),
    rule(r"self_attn\.(?P<x>[qk]_norm)\.weight", "attn.{x}.weight"),
    rule(r"self_attn\.sinks", "attn.sinks"),
    rule(r"attn\.c_attn\.weight", "attn.qkv.weight", form="transposed"),
    rule(r"attn\.c_attn\.bias", "attn.qkv.bias"),
    rule(r"attn\.c_proj\.weight", "attn.o.weight", form="transposed"),
    rule(r"attn\.c_proj\.bias", "attn.o.bias"),
    rule(r"mlp\.c_fc\.weight", "mlp.fc1.weight", form="transposed"),
    rule(r"mlp\.c_fc\.bias", "mlp.fc1.bias"),
    rule(r"mlp\.c_proj\.weight", "mlp.fc2.weight", form="transposed"),
    rule(r"mlp\.c_proj\.bias", "mlp.fc2.bias"),
    rule(r"(?P<x>ln_[12])\." + WB, "{x}.{p}"),
    rule(r"input_layernorm\.weight", "input_norm.weight"),
    rule(r"post_attention_layernorm\.weight", "post_attn_norm.weight"),
    rule(r"norm\.weight", "mamba.norm.weight input_norm.weight pre_mlp_norm.weight"),
    rule(rf"(?:mlp|mixer)\.gate_proj\.{WB}", "mlp.gate_up.{p}", "gate"),
    rule(rf"(?:mlp|mixer)\.up_proj\.{WB}", "mlp.gate_up.{p} mlp.up.{p}", "up"),
    rule(rf"(?:mlp|mixer)\.down_proj\.{WB}", "mlp.down.{p}"),
    rule(rf"(?:mlp|mixer|block_sparse_moe)\.(?:gate|router)\.{WB}", "moe.router.{p}"),
    rule(r"(?:mlp|mixer)\.gate\.e_score_correction_bias", "moe.router.expert_bias moe.router.bias"),
    rule(rf"{ONE}(?:gate_proj|w1)\.{WB}", "moe.expert.{e}.gate_up.{p}", "gate"),
    rule(rf"{ONE}(?:up_proj|w3)\.{WB}", "moe.expert.{e}.gate_up.{p} moe.expert.{e}.up.{p}", "up"),
    rule(rf"{ONE}(?:down_proj|w2)\.{WB}", "moe.expert.{e}.down.{p}"),
    *(rule(rf"{EXPERTS}{x}_proj{tail}", f"moe.expert.*.{x}.{kind}", form=form)
      for x in ("gate_up", "up", "down")
      for tail, kind, form in (("", "weight", "stacked"), ("_bias", "bias", "stacked"),
                               ("_blocks", "weight", "blocks"), ("_scales", "weight", "scales"))),
    rule(rf"{SHARED}gate_proj\.{WB}", "moe.shared.gate_up.{p}", "gate"),
    rule(rf"{SHARED}up_proj\.{WB}", "moe.shared.gate_up.{p} moe.shared.up.{p}", "up"),
    rule(rf"{SHARED}down_proj\.{WB}", "moe.shared.down.{p}"),
    rule(r"mixer\.norm\.weight", "mamba.gated_norm.weight"),
    rule(rf"mixer\.(?P<x>in_proj|conv1d|out_proj)\.{WB}", "mamba.{x}.{p}"),
    rule(r"mixer\.(?P<x>dt_bias|A_log|D)", "mamba.{x}"),
)  # fmt: skip

PREDICTION = (
    rule(r"(?P<x>enorm|hnorm|eh_proj)\.weight", "{x}.weight"),
    rule(r"shared_head\.norm\.weight", "final_norm.weight"),
    *LAYERED,
)

# copies that a checkpoint keeps of tensors that the document has once
COPIES = {"embed_tokens.weight": "embed.weight", "shared_head.head.weight": "lm_head.weight"}

# neither weights nor buffers of training
SKIPPED = re.compile(
    r"(.*rotary_emb\.inv_freq|.*\.attn\.(masked_)?bias|.*_scale_inv|.*\.(weight|input|k|v)_scale)\Z"
)


@dataclass(frozen=True)
class Match:
    """What an entry is: one of these names of the document, a part of it, in a form."""

    names: tuple[str, ...]
    part: str = ""
    form: str = ""
    copy: bool = False


def apply(rules: tuple[Rule, ...], tail: str, prefix: str) -> Match | None:
    """The first rule that fits."""
    for one in rules:
        found = one.pattern.match(tail)
        if found is not None:
            groups = found.groupdict()
            names = tuple(prefix + name.format(**groups) for name in one.names)
            return Match(names, one.part, one.form)
    return None


def translate(name: str, layers: int) -> Match | None:
    """What an entry of a checkpoint stands for; None if no rule knows it. The block behind the layers predicts."""
    tail = PREFIX.sub("", name, count=1) if PREFIX.match(name) else name
    layered = LAYER.match(tail)
    if layered is None:
        return apply(GLOBAL, tail, "")
    number, rest = int(layered.group(1)), layered.group(2)
    if number < layers:
        return apply(LAYERED, rest, f"layer.{number}.")
    if number > layers:
        return None
    if rest in COPIES:
        return Match((COPIES[rest],), copy=True)
    return apply(PREDICTION, rest, "mtp.")
