# SPDX-License-Identifier: Apache-2.0
"""Twelve families of layouts; each has an old and a new member for every model of toys.py."""

from __future__ import annotations

from rules import Document

STATE = {"param": "bf16", "master": "fp32", "exp_avg": "fp32"}
NAMES = (
    "tp and pp",
    "uneven pipeline",
    "virtual pipeline",
    "pipeline layout string",
    "megatron distributed optimizer",
    "megatron instances and buckets",
    "ep and etp, or tp and cp",
    "zero1",
    "zero3",
    "fsdp2 on tp",
    "hsdp, fsdp1",
    "mesh, holdings",
)


def layout(parallel: Document, **more: object) -> Document:
    """A layout made of degrees of parallelism."""
    head = {"kind": "layout", "name": "toy", "model": "model.yaml", "cluster": "cluster.yaml"}
    return head | {"parallel": parallel, "vocab": {"divisible_by": 4}, "state": STATE} | more


def mesh(names: list[str], shape: list[int], rules: list[Document]) -> Document:
    """A layout made of placements."""
    head = {"kind": "layout", "name": "toy", "model": "model.yaml", "cluster": "cluster.yaml"}
    return head | {"mesh": {"names": names, "shape": shape}, "placements": rules, "state": STATE}


def plain(model: str) -> list[Document]:
    """Family 1."""
    return [layout({"tp": 2, "pp": 2}), layout({"tp": 4, "dp": 2}, devices=[3, 2, 1, 0, 4, 5, 6, 8])]


def uneven(model: str) -> list[Document]:
    """Family 2."""
    if model == "moe":
        return [layout({"pp": 3}, pipeline={"first": 1, "last": 2}), layout({"pp": 2, "dp": 2}, pipeline={"first": 3})]
    return [
        layout({"pp": 3, "tp": 2}, pipeline={"first": 1, "last": 3}),
        layout({"pp": 2, "dp": 2}, pipeline={"last": 2}, order="pp-dp-tp"),
    ]


def virtual(model: str) -> list[Document]:
    """Family 3."""
    if model == "moe":
        return [layout({"pp": 2, "vpp": 2}), layout({"pp": 1, "vpp": 4, "tp": 2})]
    return [
        layout({"pp": 3, "vpp": 2}),
        layout({"pp": 2, "vpp": 2, "tp": 2}, pipeline={"count_embedding": True, "count_loss": True}),
    ]


def string(model: str) -> list[Document]:
    """Family 4."""
    texts = {
        "dense": ("E|(ttt|)*2,mL", "Et|t*2|t*3,m|L"),
        "moe": ("E|t*2|t|tmL", "Et|t|tt|mL"),
        "hybrid": ("Ett|t||t*3L", "E|t*5|t|L"),
    }[model]
    return [
        layout({"pp": 2, "vpp": 2}, pipeline={"layout": texts[0]}),
        layout({"pp": 4, "dp": 2}, pipeline={"layout": texts[1]}),
    ]


def megatron(model: str) -> list[Document]:
    """Family 5."""
    rule = {"rule": "megatron"}
    return [
        layout({"tp": 2, "dp": 2, "pp": 2}, shard=rule),
        layout({"cp": 2, "dp": 3}, shard=rule) if model != "moe" else layout({"dp": 4, "cp": 2, "ep": 2}, shard=rule),
    ]


def instances(model: str) -> list[Document]:
    """Family 6."""
    rule = {"rule": "megatron", "instances": 2, "bucket": 250}
    if model == "moe":
        old = layout({"dp": 4, "pp": 2, "ep": 2}, shard=rule)
    else:
        old = layout({"dp": 2, "cp": 2, "pp": 2}, shard=rule)
    return [old, layout({"tp": 2, "dp": 4}, shard=rule | {"bucket": 100})]


def experts(model: str) -> list[Document]:
    """Family 7."""
    if model == "moe":
        return [
            layout({"tp": 2, "dp": 4, "ep": 4, "etp": 1}),
            layout({"dp": 2, "pp": 2, "cp": 2, "ep": 2, "etp": 2}, shard={"rule": "megatron"}),
        ]
    return [layout({"tp": 2, "cp": 2, "dp": 2}), layout({"tp": 4, "cp": 2}, order="cp-tp")]


def zero1(model: str) -> list[Document]:
    """Family 8."""
    second = {"dp": 4, "ep": 2} if model == "moe" else {"dp": 3, "tp": 2}
    return [layout({"dp": 5}, shard={"rule": "zero1"}), layout(second, shard={"rule": "zero2"})]


def zero3(model: str) -> list[Document]:
    """Family 9."""
    return [layout({"dp": 7}, shard={"rule": "zero3"}), layout({"dp": 3, "tp": 2}, shard={"rule": "zero3"})]


def fsdp2(model: str) -> list[Document]:
    """Family 10."""
    second = {"tp": 2, "dp": 4, "ep": 2, "etp": 1} if model == "moe" else {"tp": 4, "dp": 2}
    return [layout({"tp": 2, "dp": 3}, shard={"rule": "fsdp2"}), layout(second, shard={"rule": "fsdp2"})]


def hybrid_shard(model: str) -> list[Document]:
    """Family 11."""
    return [
        layout({"dp": 4, "tp": 2}, shard={"rule": "fsdp2", "instances": 2}),
        layout({"dp": 3, "tp": 2}, shard={"rule": "fsdp1"}),
    ]


def placed(model: str) -> list[Document]:
    """Family 12; the new member is printed in holdings form by the program."""
    first = {"dense": "mlp.gate_up", "moe": "moe.shared.down", "hybrid": "mixer.in_proj"}[model]
    second = "layer.{i}.attn.o.weight"
    rules = [
        {"placements": ["Shard(0)", "Replicate"]},
        {"tensor": f"layer.{{i}}.{first}.weight", "placements": ["_StridedShard(0, 2)", "Shard(0)"]},
        {"tensor": second, "states": ["param"], "placements": ["Shard(0)", "Shard(dim=1)"]},
        {"tensor": second, "states": ["master", "exp_avg"], "placements": ["Shard(1)", "Shard(1)"]},
    ]
    return [mesh(["dp", "tp"], [3, 2], rules), layout({"tp": 2, "dp": 3}, shard={"rule": "megatron"})]


FAMILIES = (plain, uneven, virtual, string, megatron, instances, experts, zero1, zero3, fsdp2, hybrid_shard, placed)
HOLDINGS = 11  # family whose new member is given in holdings form
