# SPDX-License-Identifier: Apache-2.0
"""Random small models, pairs of layouts, clusters and limits."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from math import gcd, lcm

from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

from layout import AXES, Cluster, Layout, Model, Scalar, Tensor

MAX_WORLD = 12
ORDERS = (None, None, AXES, ("tp", "cp", "ep", "pp", "dp"), ("pp", "tp", "dp", "cp", "ep"), ("dp", "tp", "pp", "cp"))
WEIGHT_STATES = (
    (("param", "bf16"),),
    (("param", "fp32"), ("momentum", "bf16")),
    (("param", "bf16"), ("master", "fp32"), ("exp_avg", "fp32"), ("exp_avg_sq", "fp32")),
    (("param", "fp8_e4m3"), ("master", "fp64"), ("grad", "bf16")),
)

State = tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Case:
    """One move, with the limits it is planned under."""

    model: Model
    layouts: tuple[Layout, Layout]
    cluster: Cluster
    staging: int | None  # bytes, None: the default
    cap: float | None  # None: no cap; else a place between the least cap (0) and the peak (1)


def degrees(draw: st.DrawFn) -> dict[str, int]:
    """Degrees of parallelism of one layout, at most MAX_WORLD ranks."""
    size: dict[str, int] = {"tp": 1, "pp": 1, "dp": 1, "cp": 1}
    room = MAX_WORLD
    for axis in draw(st.permutations(("tp", "pp", "dp", "cp"))):
        choices = {"tp": (1, 2, 3, 4, 5, 6), "pp": (1, 2, 3, 4, 5), "dp": (1, 2, 3, 4, 7), "cp": (1, 1, 2)}[axis]
        size[axis] = draw(st.sampled_from([value for value in choices if value <= room]))
        room //= size[axis]
    return size


def pipeline_options(pp: int, layers: int) -> list[tuple[int | None, int | None]]:
    """All (first, last) that split `layers` over `pp` stages without an empty stage."""
    options: list[tuple[int | None, int | None]] = []
    for first in [None, *range(1, layers)]:
        for last in [None, *range(1, layers)]:
            given = [value for value in (first, last) if value is not None]
            middle, rest = pp - len(given), layers - sum(given)
            if pp == 1 and given:
                continue
            if middle < 0 or (middle == 0 and rest != 0) or (middle > 0 and (rest < middle or rest % middle)):
                continue
            options.append((first, last))
    return options


def attention(draw: st.DrawFn, tp: int, scale: int) -> tuple[list[Tensor], int, int]:
    """Fused q, k, v and the output matrix; returns tensors, heads and kv heads. `tp` is a common multiple."""
    heads = tp * draw(st.sampled_from((1, 2)))
    kv_choices = [kv for kv in (heads, tp, 1) if heads % kv == 0]
    kv_heads = draw(st.sampled_from(kv_choices))
    width = tp // gcd(tp, kv_heads) * draw(st.sampled_from((1, 2)))
    hidden = scale * draw(st.integers(1, 5))
    parts = (heads * width, kv_heads * width, kv_heads * width)
    tensors = [
        Tensor("layer.{i}.attn.qkv.weight", (sum(parts), hidden), cut_dim=0, segments=parts),
        Tensor("layer.{i}.attn.o.weight", (hidden, heads * width), cut_dim=1),
    ]
    if draw(st.booleans()):
        tensors.append(Tensor("layer.{i}.attn.qkv.bias", (sum(parts),), cut_dim=0, segments=parts))
        tensors.append(Tensor("layer.{i}.attn.o.bias", (hidden,)))
    return tensors, heads, kv_heads


def mlp(draw: st.DrawFn, tp: int, scale: int) -> list[Tensor]:
    """A gated or a plain MLP."""
    hidden = scale * draw(st.integers(1, 6))
    width = tp * draw(st.integers(1, 3))
    down = Tensor("layer.{i}.mlp.down.weight", (hidden, width), cut_dim=1)
    if draw(st.booleans()):
        return [Tensor("layer.{i}.mlp.gate_up.weight", (2 * width, hidden), cut_dim=0, segments=(width, width)), down]
    bias = Tensor("layer.{i}.mlp.fc1.bias", (width,), cut_dim=0)
    return [Tensor("layer.{i}.mlp.fc1.weight", (width, hidden), cut_dim=0), bias, down]


def ends(draw: st.DrawFn, scale: int) -> list[Tensor]:
    """Tensors of the first and the last stage."""
    rows, hidden = draw(st.integers(1, 41)), scale * draw(st.integers(1, 5))
    tied = draw(st.booleans())
    tensors = [Tensor("embed.weight", (rows, hidden), stage="first", cut_dim=0, pad_vocab=True, tied=tied)]
    if not tied:
        tensors.append(Tensor("lm_head.weight", (rows, hidden), stage="last", cut_dim=0, pad_vocab=True))
    if draw(st.booleans()):
        tensors.append(Tensor("pos_embed.weight", (draw(st.integers(1, 7)), hidden), stage="first"))
    tensors.append(Tensor("final_norm.weight", (hidden,), stage="last", dtype=draw(st.sampled_from((None, "fp32")))))
    return tensors


def extras(draw: st.DrawFn, tp: int, layers: int) -> list[Tensor]:
    """Tensors with more dimensions, buffers, and tensors that only some layers have."""
    tensors = []
    if draw(st.booleans()):
        parts = (tp * 2, tp, tp)
        tensors.append(Tensor("layer.{i}.mix.conv1d.weight", (sum(parts), 1, 4), cut_dim=0, segments=parts))
    if draw(st.booleans()):
        shape, dim = draw(st.sampled_from((((2, tp * 2, 3), 1), ((2, 3, tp), 2), ((3, 2, tp, 2), 2))))
        tensors.append(Tensor("layer.{i}.mix.block", shape, cut_dim=dim))
    if draw(st.booleans()):
        begin = draw(st.integers(0, layers - 1))
        end = draw(st.integers(begin + 1, layers))
        tensors.append(Tensor("layer.{i}.norm.weight", (draw(st.integers(1, 9)),), layers=(begin, end)))
    if draw(st.booleans()):
        tensors.append(Tensor("layer.{i}.router.expert_bias", (draw(st.integers(1, 9)),), kind="buffer", dtype="fp32"))
    if draw(st.booleans()):
        tensors.append(Tensor("rotary.table", (3, 2), stage="all", kind="buffer", dtype="fp32"))
    return tensors


@st.composite
def models(draw: st.DrawFn, tp: int, layers: int, scales: tuple[int, ...]) -> Model:
    """A model whose cut dimensions the common multiple `tp` divides; a scaled one has pieces of several chunks."""
    tensors: list[Tensor] = []
    scale = draw(st.sampled_from(scales))
    heads = kv_heads = None
    if draw(st.booleans()):
        attn, heads, kv_heads = attention(draw, tp, scale)
        tensors += attn
    tensors += mlp(draw, tp, scale)
    if draw(st.integers(0, 3)):
        tensors += ends(draw, scale)
    tensors += extras(draw, tp, layers)
    scalars = draw(st.sampled_from(((), (Scalar("step"),), (Scalar("step"), Scalar("scale", "fp32", 3)))))
    return Model(layers, tuple(tensors), scalars, heads, kv_heads)


def next_state(draw: st.DrawFn, state: State) -> State:
    """What the new side keeps: as a rule the same; else casts, fewer states, or one made from another."""
    if draw(st.integers(0, 2)):
        return state
    other = {"fp32": "bf16", "bf16": "fp32"}
    result = {name: draw(st.sampled_from((dtype, other.get(dtype, dtype)))) for name, dtype in state}
    for name, _ in state[1:]:
        if draw(st.integers(0, 3)) == 0:
            del result[name]
    old = dict(state)
    if old.get("master") == "fp32" and draw(st.booleans()):
        result["param"] = "from-master"
        if "master" in result:
            result["master"] = "fp32"
    elif "master" not in old and old["param"] in other and draw(st.integers(0, 2)) == 0:
        result["master"] = "from-param"
    return tuple(result.items())


def vocabulary(draw: st.DrawFn, layout: Layout, rows: int) -> Layout:
    """The layout with a padding rule."""
    divisor = draw(st.integers(1, 8))
    if draw(st.integers(0, 3)):
        return replace(layout, divisible_by=divisor)
    unit = layout.tp
    return replace(layout, padded=-(-rows // unit) * unit + unit * draw(st.integers(0, 2)))


def placements(draw: st.DrawFn, layouts: list[Layout]) -> list[Layout]:
    """Where both worlds run: the same devices, disjoint ones, or some in common."""
    first, second = layouts
    how = draw(st.sampled_from(("same", "same", "disjoint", "overlap", "shuffle")))
    if how == "disjoint":
        start = first.world() + draw(st.integers(0, 2))
        second = replace(second, devices=tuple(range(start, start + second.world())))
    elif how == "overlap":
        start = draw(st.integers(1, first.world()))
        second = replace(second, devices=tuple(range(start, start + second.world())))
    elif how == "shuffle":
        pool = range(max(first.world(), second.world()) + 1)
        first = replace(first, devices=tuple(draw(st.permutations(pool))[: first.world()]))
        second = replace(second, devices=tuple(draw(st.permutations(pool))[: second.world()]))
    return [first, second]


def neighbours(draw: st.DrawFn, layouts: list[Layout]) -> list[Layout]:
    """Two worlds with few devices in common, of which one has others in the nodes where the other begins or ends."""
    first, second = layouts
    shift = draw(st.integers(max(1, first.world() - 2), first.world() + 2))
    second = replace(second, devices=tuple(range(shift, shift + second.world())))
    return [first, second]


@st.composite
def cases(draw: st.DrawFn, pooled: bool = False) -> Case:
    """A whole move. Everything drawn is legal, so nothing may be refused.

    With `pooled`, one that is likely to go over the network ports of neighbours: few senders in large nodes, no costs.
    """
    sizes = [degrees(draw), degrees(draw)]
    if pooled:
        sizes.sort(key=lambda size: size["tp"] * size["pp"] * size["dp"] * size["cp"])
    elif draw(st.integers(0, 9)) == 0:
        sizes[1] = dict(sizes[0])
    pipes = [size["pp"] for size in sizes]
    enough = [n for n in range(1, 21) if all(pipeline_options(pp, n) for pp in pipes)]
    layers = draw(st.sampled_from(enough[: 1 if pooled else 6]))
    scales = (96,) if pooled else (1, 1, 1, 24)
    model = draw(models(lcm(sizes[0]["tp"], sizes[1]["tp"]), layers, scales))
    rows = max((t.shape[0] for t in model.tensors if t.pad_vocab), default=1)
    state = draw(st.sampled_from(WEIGHT_STATES))
    layouts = []
    for number, size in enumerate(sizes):
        first, last = draw(st.sampled_from(pipeline_options(size["pp"], layers)))
        order = draw(st.sampled_from(ORDERS))
        kept = next_state(draw, state) if number else state
        layout = Layout(order=order, first=first, last=last, state=kept, name=f"side-{number}")
        layout = replace(layout, tp=size["tp"], cp=size["cp"], dp=size["dp"], pp=size["pp"])
        layouts.append(vocabulary(draw, layout, rows))
    layouts = neighbours(draw, layouts) if pooled else placements(draw, layouts)
    cluster = Cluster(
        draw(st.integers(3, 6)) if pooled else draw(st.integers(1, 4)),
        reserve=draw(st.sampled_from((0, 1000))),
        transport_buffers=draw(st.sampled_from((0, 4096))),
        costs=draw(st.booleans()) and not pooled,
    )
    staging = draw(st.sampled_from((None, None, 1 << 20) if pooled else (None, 64, 128, 256, 512, 1024, 4096, 65536)))
    cap = draw(st.sampled_from((None, None, 1.0) if pooled else (None, None, 0.0, 0.25, 0.5, 1.0)))
    return Case(model, (layouts[0], layouts[1]), cluster, staging, cap)


def for_each(
    seed_value: int, count: int, check: Callable[[Case], None], shrink: bool = False, pooled: bool = False
) -> int:
    """Check `count` random cases, the same ones for the same seed; returns how many there were."""
    total = 0

    @seed(seed_value)
    @settings(
        max_examples=count,
        database=None,
        deadline=None,
        phases=[Phase.generate, Phase.shrink] if shrink else [Phase.generate],
        suppress_health_check=list(HealthCheck),
        report_multiple_bugs=False,
    )
    @given(cases(pooled))
    def run(case: Case) -> None:
        nonlocal total
        total += 1
        check(case)

    run()
    return total
