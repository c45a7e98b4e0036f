# SPDX-License-Identifier: Apache-2.0
"""State beside the tensors: every policy under changes of every axis, run and compared; and small state of experts."""

from __future__ import annotations

import random
from collections.abc import Callable

import numpy as np

import beside
import cells
import programs
from families import layout, mesh
from rules import Document
from tap import Group
from test_cases import ADAM, held, holdings, room, same
from toys import STEP, weight

EVERYWHERE = {"name": "loss_scale.dense", "dtype": "fp32", "count": 3}
KEYS: list[tuple[str, ...]] = [
    ("pp",), ("tp",), ("dp",), ("cp",), ("pp", "tp"), ("pp", "dp"), ("dp", "cp", "tp", "pp"),
    ("ep",), ("etp",), ("pp", "ep", "etp"),
]  # fmt: skip


def keyed(per: tuple[str, ...], otherwise: str) -> Document:
    """An entry for some keys."""
    name = f"state.{'-'.join(per)}.{otherwise}"
    return {"name": name, "bytes": 5 + len(name), "policy": "copy-if-same", "per": list(per), "otherwise": otherwise}


def every_entry() -> list[Document]:
    """One entry for each policy, each set of keys and each way out."""
    result = [keyed(per, otherwise) for per in KEYS for otherwise in ("leave", "reseed", "recompute")]
    result += [EVERYWHERE, EVERYWHERE | {"name": "loss_scale.expert"}, {"name": "args", "bytes": 77}]
    result.append({"name": "position", "policy": "recompute"})
    return result + [{"name": "loader", "policy": "leave", "why": "its own"}]


def small_model() -> list[Document]:
    """A layer with a dense and an expert tensor."""
    return [
        weight("layer.{i}.w", 24, 2, dim=0),
        weight("layer.{i}.expert.{e}.up", 8, 2, dim=0),
        weight("layer.{i}.bias", 3, kind="buffer", dtype="fp32"),
    ]


FIRST: Document = {"tp": 2, "pp": 2, "dp": 2, "ep": 2}
CHANGES: dict[str, list[Document]] = {
    "nothing": [FIRST],
    "dp": [{**FIRST, "dp": 4}, {**FIRST, "dp": 6}],
    "cp": [{**FIRST, "cp": 2}],
    "tp": [{**FIRST, "tp": 4}, {**FIRST, "tp": 1, "dp": 4}],
    "pp": [{**FIRST, "pp": 4}, {**FIRST, "pp": 1}],
    "ep": [{**FIRST, "dp": 4, "ep": 4}, {**FIRST, "ep": 1}],
    "etp": [{**FIRST, "etp": 1}],
    "layers of a stage": [{**FIRST, "vpp": 2}],
}


def policies(change: str) -> str:
    """One axis changes, both ways, for all entries at once."""
    counts: dict[str, int] = {}
    for second in CHANGES[change]:
        with room(*small_model(), layers=4, experts=4, scalars=[STEP], other_state=every_entry()) as here:
            old, new = layout(FIRST), layout(second)
            here.move(old, new)
            here.move(new, old)
            for what in beside.actions(here.model, old, new).values():
                counts[what] = counts.get(what, 0) + 1
    return ", ".join(f"{number} {what}" for what, number in sorted(counts.items()))


def orders() -> None:
    """Rows follow coordinates, not rank numbers: another order of the axes, and other devices."""
    with room(*small_model()[:1], layers=4, other_state=[keyed(per, "leave") for per in KEYS[:7]]) as here:
        old = layout({"tp": 2, "pp": 2, "dp": 2}, order="tp-cp-ep-dp-pp")
        new = layout({"tp": 2, "pp": 2, "dp": 2}, order="pp-dp-tp", devices=[9, 2, 3, 4, 5, 6, 7, 0])
        here.move(old, new)
        here.move(new, old)


def meshes() -> str:
    """Axes of a mesh by name, and unknown where any has another name."""
    rule = [{"placements": ["Shard(0)", "Replicate"]}]
    model = small_model()[:1]
    cases = [
        (layout({"dp": 3, "tp": 2}), mesh(["dp", "tp"], [3, 2], rule)),
        (layout({"dp": 3, "tp": 2}), mesh(["fsdp", "tp"], [3, 2], rule)),
        (layout({"dp": 6}), mesh(["dp_replicate", "dp_shard"], [2, 3], rule)),
        (layout({"dp": 3, "tp": 2}), mesh(["data", "tp"], [3, 2], rule)),
        (mesh(["pp", "tp"], [3, 2], rule), mesh(["tp", "pp"], [2, 3], rule)),
    ]
    for old, new in cases:
        with room(*model, layers=3, other_state=[keyed(per, "leave") for per in KEYS[:7]]) as here:
            here.move(old, new)
            here.move(new, old)
    counts = []
    for old, new in cases:
        found = beside.actions({"other_state": [keyed(per, "leave") for per in KEYS[:7]]}, old, new)
        counts.append(sum(what == "copied" for what in found.values()))
    same(counts, [7, 7, 7, 0, 7], "entries that are copied")
    return f"copied: {counts}"


def written_out() -> None:
    """Holdings have rows where `axes` says their sizes, and may list what a move does not copy."""
    state = {"param": "bf16"}
    entries = [keyed(("pp", "tp"), "reseed"), EVERYWHERE]
    name = entries[0]["name"]
    count = entries[0]["bytes"]
    rows = [held(r, name, [1, count], f"{r}:{r + 1}, 0:{count}", states=["blob"]) for r in range(4)]
    rows.append(held("0-3", "loss_scale.dense", [3], "0:3", states=["scalar"]))
    rows.append(held("0-3", "w", [4], "0:4"))
    with room(weight("w", 4, stage="all"), layers=2, other_state=entries) as here:
        same_sizes = layout({"tp": 2, "pp": 2, "dp": 2}) | {"state": state}
        others = layout({"tp": 4}) | {"state": state}
        boxes = holdings(4, rows, state) | {"axes": {"pp": 2, "tp": 2}}
        here.move(boxes, same_sizes)
        here.move(same_sizes, boxes)
        here.move(boxes, others)
        here.move(holdings(4, rows, state), same_sizes)  # no axes: unknown, reseeded
        here.refused(holdings(4, rows[1:], state) | {"axes": {"pp": 2, "tp": 2}}, same_sizes, "blob", name)
        wrong = [held(0, name, [1, count], f"4:5, 0:{count}", states=["blob"]), *rows[1:]]
        here.refused(holdings(4, wrong, state) | {"axes": {"pp": 2, "tp": 2}}, same_sizes, name, "outside the tensor")


def explicit_form() -> str:
    """`layout --explicit` writes rows and axes, and moves the same bytes."""
    moved = []
    with room(*small_model(), layers=4, experts=4, include="megatron-state") as here:
        old, new = layout(FIRST), layout({**FIRST, "dp": 4})
        paths = [here.write(document) for document in (old, new)]
        boxes = [cells.explicit(path, path.with_suffix(".boxes.yaml")) for path in paths]
        for pair in (paths, boxes, [paths[0], boxes[1]], [boxes[0], paths[1]]):
            plan = here.folder / "p.plan"
            programs.plan(*pair, plan)
            report = programs.inspect(plan)
            moved.append((report["bytes"]["moved"], [note["action"] for note in report["beside_tensors"]]))
        same(all(one == moved[0] for one in moved), True, f"moved {moved}")
    return f"{moved[0][0]} bytes"


def included() -> str:
    """The built-in set of a Megatron job, dense and with experts, bf16 and fp16; entries of the model replace some."""
    counts = []
    own = {"other_state": [stream for stream in [beside.stream("rng.cuda", 24, "pp", "dp")]], "scalars": [STEP]}
    for wanted in ("megatron-state", "megatron-state-fp16"):
        for experts in ({}, {"experts": 4}):
            tensors = small_model() if experts else small_model()[:1]
            with room(*tensors, layers=4, include=wanted, **own, **experts) as here:
                parallel = FIRST if experts else {"tp": 2, "pp": 2, "dp": 2}
                old, new = layout(parallel), layout({**parallel, "dp": 4})
                here.move(old, new)
                here.move(old, layout({**parallel, "tp": 4}))
                counts.append(len(beside.entries(here.model)))
    return f"{counts} entries"


def refused() -> None:
    """`otherwise: refuse` makes no plan where the axes change, and says which."""
    with room(weight("w", 4, stage="all"), other_state=[keyed(("dp",), "refuse")]) as here:
        here.move(layout({"dp": 2}), layout({"dp": 2, "tp": 2}))
        here.refused(layout({"dp": 2}), layout({"dp": 4}), "state.dp.refuse", "dp 2 becomes dp 4", "refuse")


def other_documents() -> None:
    """A plan made of a model without the entries does not verify against one with them."""
    with room(weight("w", 4, stage="all"), other_state=[{"name": "loader", "policy": "leave"}]) as here:
        paths = here.write(layout({"dp": 2})), here.write(layout({"dp": 4}))
        plan = here.folder / "p.plan"
        programs.plan(*paths, plan)
        cells.write_model(here.folder, here.model | {"other_state": [{"name": "loader", "policy": "recompute"}]})
        said = programs.refused("shunt", "verify", plan, *paths)
        same("state beside the tensors" in said, True, said)


def extra_files() -> None:
    """Files may have what the plan leaves, and nothing else that it does not know."""
    with room(weight("w", 4, stage="all"), other_state=[{"name": "loader", "policy": "leave"}]) as here:
        folder = here.move(layout({"dp": 2}), layout({"dp": 4})).parent  # with blobs of that name, see cells.store
        path = folder / "old" / "rank-00000.safetensors"
        arrays = cells.tensorfile.read(path)
        same([name.partition("/")[2] for name in arrays if "loader" in name], ["loader"], "left entries in the file")
        plan = folder.with_suffix(".plan")
        for name in ("blob/loader2", "param/loader"):
            cells.tensorfile.write(path, arrays | {name: ("U8", np.zeros(3, np.uint8))})
            arguments = ("--transport", "loopback", "--load", folder / "old", "--store", folder / "new")
            same(name in programs.refused("shunt-exec", plan, *arguments), True, name)


def groups_by_name() -> None:
    """H8: hyper-parameters travel under their group's name, whatever the order in which a stage lists the groups."""
    decays = {"g.linear": 0.1, "g.norm": 0.0}
    entries = [{"name": name, "identity": f"wd {wd}", "dtype": "fp64"} for name, wd in decays.items()]
    tensors = [weight("layer.{i}.linear", 6, 2, group="g.linear"), weight("layer.{i}.norm", 6, group="g.norm")]
    with room(*tensors, layers=2, param_groups=entries) as here:
        old, new = layout({"pp": 2}) | {"state": ADAM}, layout({"dp": 2}) | {"state": ADAM}
        folder = here.move(old, new).parent
        plan = folder.with_suffix(".plan")
        for rank in range(2):  # stage 1 lists its groups the other way round
            path = folder / "old" / f"rank-{rank:05d}.safetensors"
            arrays = cells.tensorfile.read(path)
            for name in list(decays)[:: -1 if rank else 1]:
                del arrays[f"scalar/{name}"]
                arrays[f"scalar/{name}"] = ("F64", np.array([decays[name]]).view(np.uint64))
            cells.tensorfile.write(path, arrays)
        arguments = ("--transport", "loopback", "--load", folder / "old", "--store", folder / "new")
        programs.succeed("shunt-exec", plan, *arguments)
        for rank in range(2):
            arrays = cells.tensorfile.read(folder / "new" / f"rank-{rank:05d}.safetensors")
            got = {name: float(arrays[f"scalar/{name}"][1].view(np.float64)[0]) for name in decays}
            same(got, decays, f"weight decay of the groups on rank {rank}")
    twins = [entry | {"identity": "wd 0.1"} for entry in entries]
    with room(*tensors, layers=2, param_groups=twins) as here:
        here.refused(layout({"pp": 2}), layout({}), "param_groups[1].identity", "told apart")


EXPERTS, LENGTH = 4, 6


def grouped(parts: list[np.ndarray], gemm_major: bool) -> np.ndarray:
    """History [length, slots * n] of a module of n experts, whose index is gemm * slots + slot or slot * n + gemm."""
    count, slots = len(parts), parts[0].shape[1]
    module = np.zeros((LENGTH, slots * count), np.float32)
    for gemm, part in enumerate(parts):
        for slot in range(slots):
            module[:, gemm * slots + slot if gemm_major else slot * count + gemm] = part[:, slot]
    return module


def part_of(module: np.ndarray, gemm: int, count: int, gemm_major: bool) -> np.ndarray:
    """What belongs to one expert: the split that a caller makes."""
    if gemm_major:
        return np.ascontiguousarray(module.reshape(LENGTH, count, -1)[:, gemm])
    return np.ascontiguousarray(module.reshape(LENGTH, -1, count)[:, :, gemm])


def split_history(ep: int, gemm_major: bool, change: tuple[Document, Document]) -> None:
    """Histories [length, 3n] of grouped modules, split by expert, moved, and joined again for another ep."""
    tensors = [
        weight("layer.{i}.expert.{e}.up", 8, 2, dim=0),
        weight("layer.{i}.expert.{e}.amax_fwd", LENGTH, 3, kind="buffer", dtype="fp32"),
        weight("layer.{i}.expert.{e}.amax_bwd", LENGTH, 2, kind="buffer", dtype="fp32"),
        weight("layer.{i}.expert.{e}.scale_fwd", 3, kind="buffer", dtype="fp32"),
    ]
    dice = random.Random(ep * 2 + gemm_major)
    truth = {
        (layer, e, slots): np.array([[dice.random() for _ in range(slots)] for _ in range(LENGTH)], np.float32)
        for layer in range(2) for e in range(EXPERTS) for slots in (3, 2)
    }  # fmt: skip
    with room(*tensors, layers=2, experts=EXPERTS) as here:
        plan = here.move(*map(layout, change)).parent.with_suffix(".plan")
        folder = plan.with_suffix(".run")
        for which, document in zip(("old", "new"), change):
            if which == "new":
                arguments = ("--transport", "loopback", "--load", folder / "old", "--store", folder / "new")
                programs.succeed("shunt-exec", plan, *arguments)
            for path in sorted((folder / which).glob("rank-*")):
                check_module(path, truth, EXPERTS // document.get("ep", 1), gemm_major, which == "old")


def check_module(
    path: cells.Path, truth: dict[tuple[int, int, int], np.ndarray], count: int, gemm_major: bool, write: bool
) -> None:
    """Split a rank's modules into its file, or join them from it and compare."""
    arrays = cells.tensorfile.read(path)
    for slots, kind in ((3, "fwd"), (2, "bwd")):
        for layer in range(2):
            names = [f"buffer/layer.{layer}.expert.{e}.amax_{kind}" for e in range(EXPERTS)]
            local = [e for e in range(EXPERTS) if names[e] in arrays]
            same(len(local) in (0, count), True, f"{path.name}: experts {local}")
            if not local:
                continue
            module = grouped([truth[layer, e, slots] for e in local], gemm_major)
            if write:
                for k, e in enumerate(local):
                    arrays[names[e]] = ("F32", part_of(module, k, count, gemm_major).view(np.uint32))
            else:
                joined = grouped([arrays[names[e]][1].view(np.float32) for e in local], gemm_major)
                same(np.array_equal(joined, module), True, f"{path.name} layer {layer} {kind}")
    if write:
        cells.tensorfile.write(path, arrays)


def fp8_histories() -> str:
    """fp8 scales and histories per expert under ep, pp and dp changes, in both slot orders."""
    changes: list[tuple[Document, Document]] = [
        ({"dp": 2, "ep": 2}, {"dp": 4, "ep": 4}),
        ({"dp": 4, "ep": 4}, {"dp": 4, "ep": 2}),
        ({"dp": 2, "ep": 2}, {"dp": 2, "pp": 2, "ep": 1}),
        ({"dp": 2, "pp": 2, "ep": 2}, {"tp": 2, "dp": 2, "ep": 4, "etp": 1}),
    ]
    for number, change in enumerate(changes):
        for gemm_major in (False, True):
            split_history(number, gemm_major, change)
    return f"{len(changes)} changes, 2 orders"


CASES: list[tuple[str, Callable[[], str | None]]] = [
    ("beside: rows follow coordinates", orders),
    ("beside: axes of a mesh", meshes),
    ("beside: rows box by box", written_out),
    ("beside: explicit form", explicit_form),
    ("beside: built-in sets", included),
    ("beside: refusing a change", refused),
    ("beside: the statement is compared with documents", other_documents),
    ("beside: files with more than is copied", extra_files),
    ("H8 parameter groups by name", groups_by_name),
    ("fp8 histories per expert", fp8_histories),
]


def groups() -> list[Group]:
    """One group for each case, and one for each change of the axes."""
    result = [Group(f"beside: all policies, {change} changes", policies, (change,)) for change in CHANGES]
    return result + [Group(name, check) for name, check in CASES]
