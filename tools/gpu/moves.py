# SPDX-License-Identifier: Apache-2.0
"""The moves of tools/gpu-check: three models of any size, and six pairs of layouts of eight devices."""

from __future__ import annotations

import json
import math
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

Document = dict[str, Any]

ADAM = {"param": "bf16", "master": "fp32", "exp_avg": "fp32", "exp_avg_sq": "fp32"}
FROM_MASTERS = {**ADAM, "param": "from-master"}
BYTES_PER_WEIGHT = 14
STEP_WIDTH = 64  # hidden sizes are multiples of it
CLUSTER = {
    "kind": "cluster",
    "name": "eight logical devices of one GPU",
    "devices_per_node": 8,
    "nodes": 1,
    "device": {"memory": "1024 GiB"},
    "links": {"intra_node": "400 GB/s", "inter_node": "400 GB/s"},
    "copy": "2000 GB/s",
    "costs": {"round": "20 us", "message": "5 us"},
}


def weight(name: str, *shape: int, dim: int | None = None, segments: list[int] | None = None, **more: Any) -> Document:
    """One item of a model's `tensors`."""
    item: Document = {"name": name, "shape": list(shape), **more}
    if dim is not None:
        item["cut"] = {"dim": dim, **({"segments": segments} if segments else {})}
    return item


def attention(h: int, **more: Any) -> list[Document]:
    return [weight("layer.{i}.attn.qkv.weight", 3 * h, h, dim=0, **more),
            weight("layer.{i}.attn.o.weight", h, h, dim=1, **more)]


def mlp(h: int, **more: Any) -> list[Document]:
    return [weight("layer.{i}.mlp.up.weight", 4 * h, h, dim=0, **more),
            weight("layer.{i}.mlp.down.weight", h, 4 * h, dim=1, **more)]


def embedding(h: int) -> Document:
    return weight("embed.weight", 4 * h, h, dim=0, stage="first")


def dense(h: int) -> Document:
    """Eight layers of attention and MLP."""
    tensors = [embedding(h), *attention(h), weight("layer.{i}.norm.weight", h), *mlp(h)]
    return {"kind": "model", "name": "dense", "layers": 8, "heads": 8, "tensors": tensors}


def moe(h: int) -> Document:
    """Four layers of attention and eight experts."""
    tensors = [embedding(h), *attention(h), weight("layer.{i}.moe.router.weight", 8, h),
               weight("layer.{i}.moe.expert.{e}.gate_up.weight", 2 * h, h, dim=0, segments=[h, h]),
               weight("layer.{i}.moe.expert.{e}.down.weight", h, h, dim=1)]
    return {"kind": "model", "name": "moe", "layers": 4, "heads": 8, "experts": 8, "tensors": tensors}


def hybrid(h: int) -> Document:
    """Eight layers: Mamba-2 on the even ones, attention on two, an MLP on two."""
    mamba, parts = {"layers": "0,2,4,6"}, [2 * h, 2 * h, h // 4, h // 4, 8]
    tensors = [embedding(h), weight("layer.{i}.norm.weight", h),
               weight("layer.{i}.mixer.in_proj.weight", sum(parts), h, dim=0, segments=parts, **mamba),
               weight("layer.{i}.mixer.conv1d.weight", sum(parts[1:4]), 1, 4, dim=0, segments=parts[1:4], **mamba),
               weight("layer.{i}.mixer.A_log", 8, dim=0, **mamba),
               weight("layer.{i}.mixer.out_proj.weight", h, 2 * h, dim=1, **mamba),
               *attention(h, layers="1,5"), *mlp(h, layers="3,7")]
    return {"kind": "model", "name": "hybrid", "layers": 8, "heads": 8, "tensors": tensors}


def weights(model: Document) -> int:
    """How many a model has."""
    total = 0
    for tensor in model["tensors"]:
        name, layers = tensor["name"], tensor.get("layers")
        copies = (len(layers.split(",")) if layers else model["layers"]) if "{i}" in name else 1
        total += math.prod(tensor["shape"]) * copies * (model["experts"] if "{e}" in name else 1)
    return total


def sized(build: Any, size: int) -> Document:
    """The widest model whose weights, masters and moments are no more than `size` bytes; at least the narrowest one."""
    width = STEP_WIDTH
    while weights(build(width + STEP_WIDTH)) * BYTES_PER_WEIGHT <= size:
        width += STEP_WIDTH
    return build(width)


def layout(parallel: Document, state: Document | None = None, **more: Any) -> Document:
    return {"kind": "layout", "name": "-".join(f"{k}{v}" for k, v in parallel.items()), "model": "model.yaml",
            "cluster": "cluster.yaml", "parallel": parallel, "state": state or ADAM, **more}


MEGATRON = {"shard": {"rule": "megatron"}}


@dataclass(frozen=True)
class Move:
    name: str
    about: str
    model: Any
    old: Document
    new: Document


MOVES = [
    Move("dense", "tp 4 pp 2 to tp 2 pp 4", dense, layout({"tp": 4, "pp": 2}), layout({"tp": 2, "pp": 4})),
    Move("moe", "ep 8 to ep 2, etp 2 tp 2", moe, layout({"dp": 8, "ep": 8, "etp": 1}, **MEGATRON),
         layout({"tp": 2, "dp": 4, "ep": 2, "etp": 2}, **MEGATRON)),
    Move("hybrid", "tp 8 to tp 4 pp 2", hybrid, layout({"tp": 8}), layout({"tp": 4, "pp": 2})),
    Move("zero", "optimizer shares of tp 2 dp 4 cut again for tp 4 dp 2", dense, layout({"tp": 2, "dp": 4}, **MEGATRON),
         layout({"tp": 4, "dp": 2}, **MEGATRON)),
    Move("cast", "weights made from masters", dense, layout({"tp": 4, "pp": 2}), layout({"tp": 2, "pp": 4}, FROM_MASTERS)),
    Move("shrink", "tp 2 pp 4 to tp 4", dense, layout({"tp": 2, "pp": 4}), layout({"tp": 4})),
]
SMALL = [
    Move("pair", "two ranks", dense, layout({"tp": 2}), layout({"pp": 2})),
    Move("four", "four ranks", dense, layout({"tp": 4}), layout({"tp": 2, "pp": 2})),
]


def write(path: Path, document: Document) -> None:
    path.write_text(json.dumps(document, indent=1) + "\n", encoding="ascii")


def make_plan(shunt: Path, old: Path, new: Path, plan: Path, staging: int) -> Document:
    words = [str(shunt), "plan", str(old), str(new), "-o", str(plan), "--staging", f"{staging} B", "--json"]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise SystemExit(f"gpu-check: {' '.join(words)}: exit {done.returncode}: {done.stderr}")
    return json.loads(done.stdout)


def prepare(shunt: Path, folder: Path, size: int) -> None:
    """Documents and plans, there and back, and a list of them: all that a machine with a GPU needs beside the executor."""
    folder.mkdir(parents=True, exist_ok=True)
    listed = []
    for move, bytes_ in [(m, size) for m in MOVES] + [(m, 0) for m in SMALL]:
        where = folder / move.name
        where.mkdir(exist_ok=True)
        model = sized(move.model, bytes_)
        state = weights(model) * BYTES_PER_WEIGHT
        for name, document in (("model", model), ("cluster", CLUSTER), ("old", move.old), ("new", move.new)):
            write(where / f"{name}.yaml", document)
        staging = max(64 << 10, state // 64)
        old, new = where / "old.yaml", where / "new.yaml"
        report = make_plan(shunt, old, new, where / "there.plan", staging)
        make_plan(shunt, new, old, where / "back.plan", staging)
        listed.append({"name": move.name, "about": move.about, "small": move in SMALL, "state_bytes": state,
                       "devices": report["devices"], "there": f"{move.name}/there.plan",
                       "back": f"{move.name}/back.plan"})
    write(folder / "moves.json", {"moves": listed})
