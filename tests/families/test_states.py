# SPDX-License-Identifier: Apache-2.0
"""States that are more than an array: halves of masters, values with scales, host memory, gradients."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

import cells
import programs
import rules
import toys
from cells import OracleError, Values
from families import layout, mesh
from rules import PAD, Document, Side
from tap import Group
from test_cases import Room, held, holdings, room, same
from toys import weight

REMAINDER = {"param": "bf16", "master": "i16", "exp_avg": "bf16", "exp_avg_sq": "bf16"}
SCALED = {
    "param": "bf16",
    "master": {"dtype": "fp16", "scale": "per-shard"},
    "exp_avg": {"dtype": "fp8_e4m3", "scale": "per-shard"},
    "exp_avg_sq": {"dtype": "u8", "scale": "per-shard"},
}
ON_HOST = {"param": "bf16"} | {s: {"dtype": "fp32", "tier": "host"} for s in ("master", "exp_avg", "exp_avg_sq")}
ON_DEVICE = {"param": "bf16", "master": "fp32", "exp_avg": "fp32", "exp_avg_sq": "fp32"}
RULES = ("none", "megatron", "zero1", "zero3", "fsdp2", "fsdp1")


def with_state(document: Document, state: Document, **more: object) -> Document:
    """A layout with other states."""
    return document | {"state": state} | more


def files_of(here: Room, old: Document, new: Document, values: Values) -> tuple[Side, list[dict[str, np.ndarray]]]:
    """Make and run a move over given values; returns the new side by the rules and its files' arrays."""
    sides = cells.sides_of(here.model, old, new)
    paths = (here.write(old), here.write(new))
    plan = here.folder / f"states-{here.count}.plan"
    cells.check_move(paths, sides, plan, "replay")
    folder = plan.with_suffix(".run")
    cells.execute(plan, folder, sides, values)
    names = [folder / "new" / f"rank-{rank:05d}.safetensors" for rank in range(len(sides.maps[1]))]
    return sides.maps[1], [{key: a for key, (_, a) in cells.tensorfile.read(name).items()} for name in names]


# ---- halves of masters -----------------------------------------------------------------


def split_master(master: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The bf16 weight, rounded half up, and the i16 rest of fp32 bit patterns."""
    rest = (master & 0xFFFF).astype(np.uint16).view(np.int16)
    return ((master >> 16) + (rest < 0)).astype(np.uint16), rest


def join_master(weight_bits: np.ndarray, rest: np.ndarray) -> np.ndarray:
    """The fp32 bit patterns again."""
    high = weight_bits.astype(np.uint32) - (rest < 0)
    return (high << np.uint32(16)) | rest.view(np.uint16)


def element_map(local: rules.Local, array: np.ndarray) -> dict[int, int]:
    """Bit pattern of each element that a rank owns."""
    index = local.index.reshape(-1)
    return dict(zip(index[index != PAD].tolist(), array.reshape(-1)[index != PAD].tolist()))


def check_masters(side: Side, files: list[dict[str, np.ndarray]], masters: dict[str, np.ndarray]) -> int:
    """Masters put together on each rank from its two halves; returns their number."""
    count = 0
    for arrays, file in zip(side, files):
        for (state, name), local in arrays.items():
            if state != "master":
                continue
            low = element_map(local, file[f"master/{name}"])
            high = element_map(arrays["param", name], file[f"param/{name}"])
            ours = np.array(sorted(low), np.int64)
            found = join_master(
                np.array([high[i] for i in ours], np.uint16), np.array([low[i] for i in ours], np.uint16).view(np.int16)
            )
            if (found != masters[name][ours]).any():
                raise OracleError(f"{name}: masters are wrong")
            count += len(ours)
    return count


def remainders() -> str:
    """fp32 masters survive a move of their halves, under every rule and between rules."""
    draw, count = np.random.default_rng(1), 0
    with room(*toys.dense()["tensors"], layers=6, heads=4, kv_heads=2) as here:
        for number, rule in enumerate(RULES):
            old = with_state(layout({"tp": 2, "dp": 2, "cp": 2}, shard={"rule": rule}), REMAINDER)
            new = with_state(layout({"dp": 3}, shard={"rule": RULES[number - 1]}), REMAINDER)
            side = here.side(old)
            values = cells.patterns(side)
            masters = {}
            for state, name in values:
                if state == "master":
                    masters[name] = draw.integers(0, 2**32, values[state, name].size, np.uint32)
            for name, master in masters.items():
                values["param", name], low = split_master(master)
                values["master", name] = low.view(np.uint16)
            count += check_masters(*files_of(here, old, new, values), masters)
    halfway = [0x3F808000, 0x3F807FFF]
    same(join_master(*split_master(np.array(halfway, np.uint32))).tolist(), halfway, "masters around a half")
    return f"{count} masters put together again"


def parted_halves() -> str:
    """The halves of a master are not parted, changed or made."""
    with room(weight("w", 6, 4, stage="all")) as here:
        old = with_state(layout({"dp": 2}, shard={"rule": "megatron"}), REMAINDER)
        for dtype in ("fp32", "bf16"):
            other = with_state(layout({}), REMAINDER | {"master": dtype})
            here.refused(old, other, "state.master", f"found {dtype}", "expected i16", "low one")
            here.refused(other, old, "state.master", "found i16", f"expected {dtype}")
        here.refused(old, with_state(layout({}), REMAINDER | {"param": "fp16"}), "state.master", "param: bf16")
        rows = {"placements": ["Shard(0)"], "states": ["param"]}
        columns = {"placements": ["Shard(1)"], "states": ["master", "exp_avg", "exp_avg_sq"]}
        apart = with_state(mesh(["r"], [2], [rows, columns]), REMAINDER)
        here.refused(apart, old, "w", "rank 0", "[0,6)x[0,2)", "both halves")
        here.refused(old, apart, "w", "rank 0", "both halves")
        states = ["master", "exp_avg", "exp_avg_sq"]
        entries = [held(0, "w", [6, 4], "0:6, 0:4"), held(1, "w", [6, 4], "0:6, 0:4") | {"states": states}]
        here.refused(holdings(2, entries, REMAINDER), old, "w", "rank 1", "both halves")
        entries[1]["ranks"] = 0
        here.move(holdings(1, entries, REMAINDER), old)
    with room(weight("w", 6, stage="all", dtype="fp32")) as here:
        here.refused(with_state(layout({}), REMAINDER), with_state(layout({"dp": 2}), REMAINDER), "w", "fp32", "bf16")
    return "9 refusals"


# ---- values with scales -----------------------------------------------------------------


def dequantized(side: Side, files: list[dict[str, np.ndarray]], state: str) -> dict[str, np.ndarray]:
    """Bits times scale bits of every element, whichever rank has it; copies must agree."""
    found: dict[str, np.ndarray] = {}
    for arrays, file in zip(side, files):
        for (kind, name), local in arrays.items():
            if kind != state or name.endswith("/scale") or not (local.index != PAD).any():
                continue
            scale = int(file[f"{state}/{name}/scale"].reshape(-1)[0])
            whole = found.setdefault(name, np.full(int(np.prod(local.shape)), -1, np.int64))
            for element, bits in element_map(local, file[f"{state}/{name}"]).items():
                product = (bits + 1) * (scale % 1000003 + 1)
                if whole[element] not in (-1, product):
                    raise OracleError(f"{state}/{name}: copies of element {element} differ")
                whole[element] = product
    return found


def old_files(side: Side, values: Values) -> list[dict[str, np.ndarray]]:
    """What the files of a side hold."""
    return [{f"{s}/{t}": cells.local_values(values[s, t], l) for (s, t), l in arrays.items()} for arrays in side]


def kept_cuts() -> list[tuple[Document, Document]]:
    """Layouts with the same shards on other ranks and devices."""
    megatron, fsdp2 = {"rule": "megatron"}, {"rule": "fsdp2"}
    return [
        (layout({"tp": 2, "dp": 2}, shard=megatron), layout({"tp": 2, "dp": 2}, shard=megatron, devices=[3, 0, 1, 6])),
        (layout({"dp": 2}, shard=megatron), layout({"dp": 4}, shard=megatron | {"instances": 2})),
        (layout({"dp": 2, "cp": 2}, shard=megatron), layout({"dp": 4}, shard=megatron)),
        (layout({"tp": 2, "pp": 2}), layout({"tp": 2, "pp": 3, "dp": 2})),
        (layout({"tp": 2, "pp": 2, "vpp": 3}), layout({"tp": 2, "cp": 2}, order="dp-cp-tp")),
        (layout({"dp": 3}, shard=fsdp2), layout({"dp": 6, "pp": 2}, shard=fsdp2 | {"instances": 2})),
        (layout({"dp": 5, "pp": 2}, shard={"rule": "zero3"}), layout({"dp": 5, "pp": 1}, shard={"rule": "zero3"})),
        (layout({"dp": 3}, shard={"rule": "zero1"}), layout({"dp": 3}, shard={"rule": "zero2"}, devices=[2, 1, 0])),
    ]


def scaled_states() -> str:
    """Values and scales arrive together where the cut is kept; one side may be printed box by box."""
    total = 0
    with room(*toys.dense()["tensors"], layers=6, heads=4, kv_heads=2) as here:
        for old, new in kept_cuts():
            old, new = with_state(old, SCALED), with_state(new, SCALED)
            side = here.side(old)
            if not rules.keeps_cut(side, here.side(new), old):
                raise OracleError(f"the rules say that the cut changes: {old} {new}")
            values = cells.patterns(side)
            moved = files_of(here, old, new, values)
            for state in ("master", "exp_avg", "exp_avg_sq"):
                before, after = dequantized(side, old_files(side, values), state), dequantized(*moved, state)
                for name, whole in before.items():
                    if (whole != after[name]).any() or (whole < 0).any():
                        raise OracleError(f"{state}/{name}: values times scales differ")
                    total += whole.size
        old, new = (with_state(document, SCALED) for document in kept_cuts()[1])
        paths = [cells.explicit(here.write(side), here.folder / f"{n}.yaml") for n, side in enumerate((old, new))]
        sides = cells.sides_of(here.model, old, new)
        cells.check_move((paths[0], paths[1]), sides, here.folder / "explicit.plan", "replay")
    return f"{len(kept_cuts())} pairs, {total} values"


def new_cuts() -> str:
    """A state with scales that is cut anew is refused, by both implementations."""
    megatron = {"rule": "megatron"}
    pairs = [
        (layout({"dp": 2}, shard=megatron), layout({"dp": 4}, shard=megatron)),
        (layout({"dp": 4}, shard=megatron), layout({"dp": 4}, shard=megatron | {"instances": 2})),
        (layout({"dp": 2}, shard=megatron), layout({"dp": 2}, shard=megatron | {"bucket": 100})),
        (layout({"tp": 2}), layout({"tp": 4})),
        (layout({"tp": 2}), layout({"dp": 2})),
        (layout({"dp": 2}), layout({"dp": 2}, shard={"rule": "fsdp2"})),
        (layout({"dp": 2}, shard={"rule": "zero3"}), layout({"dp": 2}, shard={"rule": "fsdp1"})),
    ]
    with room(*toys.dense()["tensors"], layers=6, heads=4, kv_heads=2) as here:
        for old, new in pairs:
            old, new = with_state(old, SCALED), with_state(new, SCALED)
            if rules.keeps_cut(here.side(old), here.side(new), old):
                raise OracleError(f"the rules say that the cut is kept: {old} {new}")
            here.refused(old, new, "a scale of its own", "rank ", "quantizing")
            for plain in ({"dtype": "fp16", "scale": "none"}, "bf16"):
                states = {"param": "bf16", "master": plain, "exp_avg": plain, "exp_avg_sq": plain}
                cells.check_move(
                    (here.write(with_state(old, states)), here.write(with_state(new, states))),
                    cells.sides_of(here.model, with_state(old, states), with_state(new, states)),
                    here.folder / "plain.plan",
                    "verify",
                )
        one = layout({"dp": 2}, shard=megatron)
        bare = SCALED | {"exp_avg": {"dtype": "fp8_e4m3", "scale": "none"}}
        here.refused(with_state(one, SCALED), with_state(one, bare), "state.exp_avg", "without scales", "with a scale")
        here.refused(with_state(one, bare), with_state(one, SCALED), "state.exp_avg", "quantizing")
        wide = SCALED | {"exp_avg": {"dtype": "fp16", "scale": "per-shard"}}
        here.refused(with_state(one, SCALED), with_state(one, wide), "state.exp_avg", "fp16", "fp8_e4m3")
        unsaid = SCALED | {"exp_avg": "fp16"}
        here.refused(with_state(one, unsaid), with_state(one, SCALED), "exp_avg", "scale: per-shard")
    return f"{len(pairs) + 4} refusals"


def overlapping_shards() -> str:
    """Copies that are cut unlike have scales of their own; losing one cut is a new cut."""
    state = {"param": "bf16", "exp_avg": {"dtype": "fp16", "scale": "per-shard"}}
    both = ["param", "exp_avg"]
    whole = [held(0, "w", [6], "0:6", copy=True) | {"states": both}]
    halves = [held(r, "w", [3], f"{3 * r - 3}:{3 * r}", copy=True) | {"states": both} for r in (1, 2)]
    with room(weight("w", 6, stage="all")) as here:
        old, turned = holdings(3, whole + halves, state), holdings(3, halves + whole, state)
        found = [sorted(a["exp_avg", "w/scale"].index.tolist()) for a in here.side(old)]
        same(sorted(found), [[0], [1], [2]], "a scale for each of three shards")
        plan = here.folder / "p.plan"
        programs.plan(here.write(old), here.write(turned | {"devices": [2, 0, 1]}), plan)
        programs.succeed("shunt", "verify", plan)
        here.refused(old, holdings(1, [whole[0]], state), "w", "a scale of its own")
        here.refused(holdings(1, [whole[0]], state), old, "w", "a scale of its own")
    return "3 shards of 6 elements"


# ---- host memory ----------------------------------------------------------------------


def host_memory() -> str:
    """Moves into, out of and inside host memory, under caps that device memory alone must fit."""
    with room(*toys.dense()["tensors"], layers=6, heads=4, kv_heads=2) as here:
        shapes = layout({"tp": 2, "dp": 2}, shard={"rule": "megatron"}), layout({"dp": 3}, shard={"rule": "zero1"})
        for first, second in ((ON_HOST, ON_HOST), (ON_HOST, ON_DEVICE), (ON_DEVICE, ON_HOST)):
            here.move(with_state(shapes[0], first), with_state(shapes[1], second))
        paths = [here.write(with_state(shape, ON_HOST)) for shape in shapes]
        there = [here.write(with_state(shape, ON_DEVICE)) for shape in shapes]
        plan = here.folder / "cap.plan"
        programs.plan(*paths, plan, "--staging", "4096 B")
        least = programs.inspect(plan)["memory"]["least_cap"]
        programs.plan(*paths, plan, "--staging", "4096 B", "--cap", f"{least} B")
        programs.succeed("shunt", "verify", plan, *paths)
        programs.succeed("shunt-exec", plan, "--transport", "loopback", "--fill", 1, "--check")
        said = programs.refused("shunt", "plan", *there, "-o", plan, "--staging", "4096 B", "--cap", f"{least} B")
        if "least cap" not in said:
            raise OracleError(said)
        said = programs.refused("shunt", "verify", plan, *there)
        if "the plan has fp32 on the host, the layout fp32 on the device" not in said:
            raise OracleError(said)
    return f"a cap of {least} bytes"


def tiers_in_place() -> str:
    """What stays on its rank is kept in its memory, and copied from one memory to the other."""
    shape = layout({"dp": 2}, shard={"rule": "megatron"})
    with room(weight("layer.{i}.w", 8, 4), layers=2) as here:
        for old, new in ((ON_HOST, ON_HOST), (ON_HOST, ON_DEVICE), (ON_DEVICE, ON_HOST)):
            paths = here.write(with_state(shape, old)), here.write(with_state(shape, new))
            plan = here.folder / "p.plan"
            programs.plan(*paths, plan)
            kept = {line["state"] for line in programs.lines(plan, "--buffers") if line["kept"]}
            states = set(ON_HOST) if old == new else {"param"}
            same(kept, states, f"kept states, {old} -> {new}")
            figures = programs.inspect(plan)["bytes"]
            same((figures["moved"], figures["local"]), (0, 2 * 128 + 2 * 64 * 3 * 4 // 2), "moved and local bytes")
    return "kept on the host, copied across"


# ---- gradients -------------------------------------------------------------------------


def gradients() -> str:
    """Reduced gradients are cut like the states of the optimizer; partial ones are refused."""
    state = {"param": "bf16", "grad": "fp32", "master": "fp32"}
    tensors = [weight("layer.{i}.w", 10, 6, dim=0), weight("layer.{i}.n", 7)]
    with room(*tensors, layers=2) as here:
        for number, rule in enumerate((*RULES, "zero2")):
            old = with_state(layout({"tp": 2, "dp": 3}, shard={"rule": rule}), state, gradients="reduced")
            new = with_state(layout({"dp": 4}, shard={"rule": RULES[number - 1]}), state)
            for arrays in here.side(old):
                for (kind, name), local in arrays.items():
                    twin = arrays.get(("grad", name))
                    if kind == "master" and (twin is None or not np.array_equal(twin.index, local.index)):
                        raise OracleError(f"{rule}: gradients of {name} lie otherwise than its masters")
            here.move(old, new)
            here.move(new, old)
        partial = old | {"gradients": "partial"}
        here.refused(partial, new, "gradients", "`partial`", "differ on every rank")
        here.refused(new, partial, "gradients", "`partial`")
        bare = with_state(layout({}), {"param": "bf16"}, gradients="reduced")
        here.refused(bare, bare, "gradients", "state.grad")
    return f"{len(RULES) + 1} rules"


CASES: list[tuple[str, Callable[[], str | None]]] = [
    ("states: masters in halves", remainders),
    ("states: halves of masters stay together", parted_halves),
    ("states: scales travel with their shards", scaled_states),
    ("states: scaled shards are not cut anew", new_cuts),
    ("states: scales of overlapping shards", overlapping_shards),
    ("states: host memory and caps", host_memory),
    ("states: tiers in place", tiers_in_place),
    ("states: gradients", gradients),
]


def groups() -> list[Group]:
    """One group for each case."""
    return [Group(name, check) for name, check in CASES]
