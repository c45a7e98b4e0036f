# SPDX-License-Identifier: Apache-2.0
"""Three small models: dense with a tied head and a prediction block, mixture of experts, and a hybrid."""

from __future__ import annotations

from rules import Document

STEP = {"name": "optimizer.step", "dtype": "i64"}


def weight(
    name: str, *shape: int, dim: int | None = None, segments: list[int] | None = None, **more: object
) -> Document:
    """One item of a model's `tensors`."""
    item: Document = {"name": name, "shape": list(shape)}
    if dim is not None:
        item["cut"] = {"dim": dim} | ({"segments": segments} if segments else {})
    return item | more


def embedding(name: str, rows: int, hidden: int, **more: object) -> Document:
    """A vocabulary tensor."""
    return weight(name, rows, hidden, **more) | {"cut": {"dim": 0, "pad": "vocab"}}


def dense() -> Document:
    """Six layers, grouped queries, gated MLP, tied embedding, prediction block."""
    tensors = [
        embedding("embed.weight", 29, 8, stage="first", tied=["last", "mtp"]),
        weight("layer.{i}.attn.o.weight", 8, 16, dim=1),
        weight("layer.{i}.attn.norm.weight", 8),
        weight("layer.{i}.attn.qkv.weight", 32, 8, dim=0),
        weight("layer.{i}.attn.qkv.bias", 32, dim=0),
        weight("layer.{i}.mlp.gate_up.weight", 24, 8, dim=0, segments=[12, 12]),
        weight("layer.{i}.mlp.down.weight", 8, 12, dim=1),
        weight("final_norm.weight", 8, stage="final"),
        weight("mtp.eh_proj.weight", 8, 16, dim=0, stage="mtp"),
        weight("mtp.norm.weight", 8, stage="mtp"),
    ]
    head = {"kind": "model", "name": "dense", "layers": 6, "heads": 4, "kv_heads": 2}
    return head | {"tensors": tensors, "scalars": [STEP]}


def moe() -> Document:
    """Four layers, the first dense; four experts, fp32 router bias, prediction block with experts."""
    late = {"layers": {"from": 1}}
    tensors = [
        embedding("embed.weight", 21, 6, stage="first", tied="mtp"),
        weight("layer.{i}.attn.qkv.weight", 16, 6, dim=0, segments=[8, 4, 4]),
        weight("layer.{i}.attn.o.weight", 6, 8, dim=1),
        weight("layer.{i}.mlp.down.weight", 6, 4, dim=1, layers=[0]),
        weight("layer.{i}.moe.router.weight", 4, 6, **late),
        weight("layer.{i}.moe.router.bias", 4, kind="buffer", dtype="fp32", **late),
        weight("layer.{i}.moe.expert.{e}.gate_up.weight", 8, 6, dim=0, segments=[4, 4], **late),
        weight("layer.{i}.moe.expert.{e}.gate_up.bias", 8, dim=0, segments=[4, 4], **late),
        weight("layer.{i}.moe.expert.{e}.down.weight", 6, 4, dim=1, **late),
        weight("layer.{i}.moe.shared.down.weight", 6, 8, dim=1, **late),
        weight("final_norm.weight", 6, stage="final"),
        weight("mtp.norm.weight", 6, stage="mtp"),
        weight("mtp.expert.{e}.down.weight", 6, 4, dim=1, stage="mtp"),
        embedding("lm_head.weight", 21, 6, stage="last"),
    ]
    head = {"kind": "model", "name": "moe", "layers": 4, "heads": 4, "experts": 4}
    return head | {"tensors": tensors, "scalars": [STEP]}


def hybrid() -> Document:
    """Six layers: Mamba-2 on 0, 2 and 4, attention on 1 and 5, an MLP on 3."""
    mamba, attention = {"layers": "0,2,4"}, {"layers": [1, 5]}
    tensors = [
        embedding("embed.weight", 23, 6, stage="first"),
        weight("layer.{i}.norm.weight", 6),
        weight("layer.{i}.mixer.in_proj.weight", 28, 6, dim=0, segments=[8, 8, 4, 4, 4], **mamba),
        weight("layer.{i}.mixer.conv1d.weight", 16, 1, 4, dim=0, segments=[8, 4, 4], **mamba),
        weight("layer.{i}.mixer.conv1d.bias", 16, dim=0, segments=[8, 4, 4], **mamba),
        weight("layer.{i}.mixer.A_log", 4, dim=0, **mamba),
        weight("layer.{i}.mixer.D", 4, dim=0, **mamba),
        weight("layer.{i}.mixer.norm.weight", 8, dim=0, **mamba),
        weight("layer.{i}.mixer.out_proj.weight", 6, 8, dim=1, **mamba),
        weight("layer.{i}.attn.qkv.weight", 24, 6, dim=0, **attention),
        weight("layer.{i}.attn.o.weight", 6, 8, dim=1, **attention),
        weight("layer.{i}.mlp.up.weight", 20, 6, dim=0, layers="3"),
        weight("layer.{i}.mlp.down.weight", 6, 20, dim=1, layers={"from": 3, "to": 4}),
        weight("final_norm.weight", 6, stage="final"),
        weight("rotary.table", 3, 2, stage="all", kind="buffer", dtype="fp32"),
        embedding("lm_head.weight", 23, 6, stage="last"),
    ]
    return {"kind": "model", "name": "hybrid", "layers": 6, "heads": 4, "tensors": tensors, "scalars": [STEP]}


MODELS = {"dense": dense, "moe": moe, "hybrid": hybrid}
