# SPDX-License-Identifier: Apache-2.0
"""Writes models, layouts and clusters as the YAML documents that `shunt` reads."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from layout import AXES, Cluster, Layout, Model, Tensor


def tensor_document(tensor: Tensor) -> dict[str, Any]:
    """One item of a model's `tensors`."""
    item: dict[str, Any] = {"name": tensor.name, "shape": list(tensor.shape)}
    if tensor.stage is not None:
        item["stage"] = tensor.stage
    if tensor.cut_dim is not None:
        item["cut"] = {"dim": tensor.cut_dim}
        if tensor.segments is not None:
            item["cut"]["segments"] = list(tensor.segments)
        if tensor.pad_vocab:
            item["cut"]["pad"] = "vocab"
    if tensor.tied:
        item["tied"] = "last"
    if tensor.kind != "weight":
        item["kind"] = tensor.kind
    if tensor.dtype is not None:
        item["dtype"] = tensor.dtype
    if tensor.layers is not None:
        item["layers"] = {"from": tensor.layers[0], "to": tensor.layers[1]}
    return item


def model_document(model: Model) -> dict[str, Any]:
    """A `kind: model` document."""
    document: dict[str, Any] = {"kind": "model", "name": model.name, "layers": model.layers}
    if model.heads is not None:
        document["heads"] = model.heads
    if model.kv_heads is not None:
        document["kv_heads"] = model.kv_heads
    document["tensors"] = [tensor_document(tensor) for tensor in model.tensors]
    if model.scalars:
        document["scalars"] = [{"name": s.name, "dtype": s.dtype, "count": s.count} for s in model.scalars]
    return document


def kept(state: str, dtype: str) -> str | dict[str, str]:
    """How a state is kept: narrow ones of an optimizer must say that they have no scales, as here."""
    narrow = dtype in ("fp16", "fp8_e4m3", "fp8_e5m2", "u8")
    return {"dtype": dtype, "scale": "none"} if narrow and state not in ("param", "grad") else dtype


def layout_document(layout: Layout, model_path: str, cluster_path: str) -> dict[str, Any]:
    """A `kind: layout` document."""
    document: dict[str, Any] = {"kind": "layout", "name": layout.name, "model": model_path, "cluster": cluster_path}
    document["parallel"] = {axis: layout.size(axis) for axis in AXES if layout.size(axis) != 1} or {"dp": 1}
    if layout.order is not None:
        document["order"] = "-".join(layout.order)
    stages = {"first": layout.first, "last": layout.last}
    if any(value is not None for value in stages.values()):
        document["pipeline"] = {key: value for key, value in stages.items() if value is not None}
    vocab = {"divisible_by": layout.divisible_by, "padded": layout.padded}
    if any(value is not None for value in vocab.values()):
        document["vocab"] = {key: value for key, value in vocab.items() if value is not None}
    document["state"] = {state: kept(state, dtype) for state, dtype in layout.state}
    if layout.devices is not None:
        document["devices"] = device_list(layout.devices)
    return document


def device_list(devices: tuple[int, ...]) -> str | list[int]:
    """`8-15` where the devices ascend without gap, else a list."""
    if len(devices) > 1 and devices == tuple(range(devices[0], devices[0] + len(devices))):
        return f"{devices[0]}-{devices[-1]}"
    return list(devices)


def cluster_document(cluster: Cluster) -> dict[str, Any]:
    """A `kind: cluster` document."""
    device: dict[str, Any] = {"memory": f"{cluster.memory} B"}
    if cluster.reserve:
        device["reserve"] = f"{cluster.reserve} B"
    if cluster.transport_buffers:
        device["transport_buffers"] = f"{cluster.transport_buffers} B"
    return {
        "kind": "cluster",
        "name": cluster.name,
        "devices_per_node": cluster.devices_per_node,
        "device": device,
        "links": {"intra_node": "4 GB/s", "inter_node": "1 GB/s"},
        "copy": "8 GB/s",
        "costs": {"round": "50 us", "message": "5 us"} if cluster.costs else {"round": "0 us", "message": "0 us"},
    }


def dump(path: Path, document: dict[str, Any]) -> None:
    """Write one document."""
    path.write_text(yaml.safe_dump(document, sort_keys=False, default_flow_style=None, width=110))


def write_pair(folder: Path, model: Model, cluster: Cluster, layouts: list[Layout]) -> list[Path]:
    """Write model, cluster and layouts; returns the layouts' paths (layout-0.yaml, ...)."""
    dump(folder / "model.yaml", model_document(model))
    dump(folder / "cluster.yaml", cluster_document(cluster))
    paths = []
    for number, layout in enumerate(layouts):
        path = folder / f"layout-{number}.yaml"
        dump(path, layout_document(layout, "model.yaml", "cluster.yaml"))
        paths.append(path)
    return paths
