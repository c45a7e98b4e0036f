# SPDX-License-Identifier: Apache-2.0
"""The parts that networks are made of, as tensors with cuts.

Tensors come in the order in which Megatron registers them, as in the built-in documents: the output projection
before the norm and the fused q, k, v.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from .model import Tensor


@dataclass(frozen=True)
class Place:
    """Where tensors go: a name prefix, and a stage or layers."""

    prefix: str = "layer.{i}."
    stage: str = "layer"
    layers: tuple[int, ...] | None = None

    def tensor(self, name: str, *shape: int, **more: object) -> Tensor:
        """A tensor of this place."""
        return Tensor(self.prefix + name, shape, self.stage, layers=self.layers, **more)  # type: ignore[arg-type]


def linear(
    place: Place, name: str, shape: tuple[int, int], cut: int | None, segments: tuple[int, ...] = (), bias: bool = False
) -> list[Tensor]:
    """A matrix (out, in) and maybe its bias, which is cut when the rows are."""
    tensors = [place.tensor(f"{name}.weight", *shape, cut=cut, segments=segments)]
    if bias:
        rows = {"cut": 0, "segments": segments} if cut == 0 else {}
        tensors.append(place.tensor(f"{name}.bias", shape[0], **rows))
    return tensors


def norm(place: Place, name: str, width: int, bias: bool = False) -> list[Tensor]:
    """A norm, whole on every rank."""
    return [place.tensor(f"{name}.{part}", width) for part in (("weight", "bias") if bias else ("weight",))]


@dataclass(frozen=True)
class Heads:
    """Attention with fused q, k and v, interleaved by head group."""

    hidden: int
    query: int
    kv: int
    width: int
    qkv_bias: bool = False
    out_bias: bool = False
    head_norms: bool = False
    sinks: bool = False


def attention(place: Place, heads: Heads, norm_name: str = "input_norm", norm_bias: bool = False) -> list[Tensor]:
    """Output projection, norm, fused q, k, v, and the norms of single heads."""
    rows = (heads.query + 2 * heads.kv) * heads.width
    out = (heads.hidden, heads.query * heads.width)
    tensors = [place.tensor("attn.sinks", heads.query, cut=0)] if heads.sinks else []
    tensors += linear(place, "attn.o", out, 1, bias=heads.out_bias)
    tensors += norm(place, norm_name, heads.hidden, norm_bias)
    fused = linear(place, "attn.qkv", (rows, heads.hidden), 0, bias=heads.qkv_bias)
    tensors += [replace(tensor, head_dim=heads.width) for tensor in fused]
    if heads.head_norms:
        tensors += norm(place, "attn.q_norm", heads.width) + norm(place, "attn.k_norm", heads.width)
    return tensors


@dataclass(frozen=True)
class Latent:
    """Multi-latent attention."""

    hidden: int
    heads: int
    q_rank: int | None  # None: q is not compressed
    kv_rank: int
    nope: int
    rope: int
    value: int
    bias: bool = False


def latent_attention(place: Place, mla: Latent) -> list[Tensor]:
    """Down-projections whole, up-projections cut by heads."""
    queries = mla.heads * (mla.nope + mla.rope)
    tensors = norm(place, "input_norm", mla.hidden)
    tensors += linear(place, "attn.o", (mla.hidden, mla.heads * mla.value), 1, bias=mla.bias)
    if mla.q_rank is None:
        tensors += linear(place, "attn.q", (queries, mla.hidden), 0)
    else:
        tensors += linear(place, "attn.q_a", (mla.q_rank, mla.hidden), None, bias=mla.bias)
        tensors += linear(place, "attn.q_b", (queries, mla.q_rank), 0)
    tensors += linear(place, "attn.kv_a", (mla.kv_rank + mla.rope, mla.hidden), None, bias=mla.bias)
    tensors += linear(place, "attn.kv_b", (mla.heads * (mla.nope + mla.value), mla.kv_rank), 0)
    tensors += norm(place, "attn.q_a_norm", mla.q_rank) if mla.q_rank is not None else []
    return tensors + norm(place, "attn.kv_a_norm", mla.kv_rank)


def gated(place: Place, name: str, hidden: int, width: int, bias: bool = False) -> list[Tensor]:
    """gate and up fused (two parts), then down."""
    tensors = linear(place, f"{name}.gate_up", (2 * width, hidden), 0, (width, width), bias)
    return tensors + linear(place, f"{name}.down", (hidden, width), 1, bias=bias)


def ungated(
    place: Place, name: str, hidden: int, width: int, bias: bool = False, names: tuple[str, str] = ("up", "down")
) -> list[Tensor]:
    """up, then down."""
    tensors = linear(place, f"{name}.{names[0]}", (width, hidden), 0, bias=bias)
    return tensors + linear(place, f"{name}.{names[1]}", (hidden, width), 1, bias=bias)


@dataclass(frozen=True)
class Experts:
    """A mixture of experts."""

    hidden: int
    count: int
    width: int
    shared: int = 0  # width of the shared expert; 0: none
    gate: bool = True
    bias: bool = False
    router_bias: bool = False
    selection: str = ""  # name of the selection bias, a buffer; "": none


def mixture(place: Place, moe: Experts) -> list[Tensor]:
    """Router, experts, shared expert."""
    mlp = gated if moe.gate else ungated
    tensors = linear(place, "moe.router", (moe.count, moe.hidden), None, bias=moe.router_bias)
    if moe.selection:
        tensors.append(place.tensor(f"moe.router.{moe.selection}", moe.count, kind="buffer", dtype="fp32"))
    tensors += mlp(place, "moe.expert.{e}", moe.hidden, moe.width, moe.bias)
    return tensors + (mlp(place, "moe.shared", moe.hidden, moe.shared) if moe.shared else [])


@dataclass(frozen=True)
class Mamba:
    """A Mamba-2 mixer."""

    hidden: int
    heads: int
    width: int
    state: int
    groups: int
    kernel: int
    conv_bias: bool = True
    bias: bool = False


def mamba(place: Place, ssm: Mamba) -> list[Tensor]:
    """in_proj holds z, x, B, C, dt and conv1d x, B, C, each cut by itself."""
    inner, grouped = ssm.heads * ssm.width, ssm.groups * ssm.state
    conv = (inner, grouped, grouped)
    projected = (inner, *conv, ssm.heads)
    tensors = [place.tensor("mamba.dt_bias", ssm.heads, cut=0)]
    tensors += [place.tensor(f"mamba.{name}", ssm.heads, cut=0, dtype="fp32") for name in ("A_log", "D")]
    tensors += norm(place, "mamba.norm", ssm.hidden)
    tensors += linear(place, "mamba.in_proj", (sum(projected), ssm.hidden), 0, projected, ssm.bias)
    tensors.append(place.tensor("mamba.conv1d.weight", sum(conv), 1, ssm.kernel, cut=0, segments=conv))
    tensors += [place.tensor("mamba.conv1d.bias", sum(conv), cut=0, segments=conv)] if ssm.conv_bias else []
    tensors.append(place.tensor("mamba.gated_norm.weight", inner, cut=0))
    return tensors + linear(place, "mamba.out_proj", (ssm.hidden, inner), 1, bias=ssm.bias)


def embedding(vocab: int, hidden: int, tied: tuple[str, ...] = ()) -> Tensor:
    """The embedding; tied where other stages hold a copy."""
    return Tensor("embed.weight", (vocab, hidden), "first", cut=0, pad_vocab=True, tied=tied)


def ending(vocab: int, hidden: int, tied: bool, norm_bias: bool = False) -> tuple[list[Tensor], list[Tensor]]:
    """The final norm, and the output matrix unless it is the embedding."""
    head = [] if tied else [Tensor("lm_head.weight", (vocab, hidden), "last", cut=0, pad_vocab=True)]
    return norm(Place("", "final"), "final_norm", hidden, norm_bias), head


def remarked(tensors: list[Tensor], remark: str) -> list[Tensor]:
    """With a comment before the first."""
    return [replace(tensors[0], remark=remark), *tensors[1:]] if tensors else []
