# SPDX-License-Identifier: Apache-2.0
"""Faults that other projects had, and worked examples, each with the values that are right."""

from __future__ import annotations

import json
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np

import cells
import families
import programs
import rules
import toys
from cells import OracleError
from families import layout, mesh
from rules import Document, Side
from tap import Group
from toys import STEP, weight

ADAM = {"param": "bf16", "master": "fp32", "exp_avg": "fp32", "exp_avg_sq": "fp32"}


@dataclass
class Room:
    """A folder with a model, in which moves are made."""

    folder: Path
    model: Document
    count: int = 0

    def write(self, document: Document) -> Path:
        """Write a layout."""
        self.count += 1
        return cells.write(self.folder / f"layout-{self.count}.yaml", document)

    def move(self, old: Document, new: Document) -> Path:
        """Plan, verify, compare both maps, replay in numpy and run; returns the folder of the new side's files."""
        sides = cells.sides_of(self.model, old, new)
        paths = (self.write(old), self.write(new))
        plan = self.folder / f"move-{self.count}.plan"
        cells.check_move(paths, sides, plan, "replay")
        cells.check_move(paths, sides, plan, "execute")
        return plan.with_suffix(".run") / "new"

    def refused(self, old: Document, new: Document, *needles: str) -> None:
        """A move that must be refused with a message that has all of these."""
        said = programs.refused("shunt", "plan", self.write(old), self.write(new), "-o", self.folder / "no.plan")
        missing = [needle for needle in needles if needle not in said]
        if missing:
            raise OracleError(f"the message lacks {missing}: {said}")

    def side(self, document: Document) -> Side:
        """What the rules say of a layout."""
        return rules.side_map(self.model, document)


@contextmanager
def room(*tensors: Document, layers: int = 1, **more: object) -> Iterator[Room]:
    """A room with a model made of these tensors."""
    model = {"kind": "model", "name": "case", "layers": layers, "tensors": list(tensors)} | more
    with tempfile.TemporaryDirectory(prefix="shunt-families-") as name:
        cells.write_model(Path(name), model)
        yield Room(Path(name), model)


def holdings(ranks: int, entries: list[Document], state: Document) -> Document:
    """A layout written box by box."""
    head = {"kind": "layout", "name": "boxes", "model": "model.yaml", "cluster": "cluster.yaml"}
    return head | {"ranks": ranks, "holdings": entries, "state": state}


def held(ranks: object, tensor: str, shape: list[int], *boxes: str, **more: object) -> Document:
    """One entry of holdings, of parameters."""
    return {"ranks": ranks, "tensor": tensor, "states": ["param"], "shape": shape, "boxes": list(boxes)} | more


def same(got: object, want: object, what: str) -> None:
    """Two values must be equal."""
    if got != want:
        raise OracleError(f"{what}: {got}, want {want}")


def param(side: Side, name: str) -> list[list[int] | None]:
    """Element numbers that each rank has of a parameter."""
    return [s["param", name].index.reshape(-1).tolist() if ("param", name) in s else None for s in side]


# ---- the rules themselves --------------------------------------------------------


def worked_ranks() -> str:
    """The published table of 16 ranks, and a grid with pp in front of dp."""
    document = layout({"tp": 2, "cp": 2, "dp": 2, "pp": 2, "ep": 4, "etp": 1})
    rows = []
    for rank in range(16):
        order = rules.order_of(document)
        spot = rules.Spot(
            rules.coordinates(rank, order, rules.sizes(document)),
            rules.coordinates(rank, order, rules.expert_sizes(document)),
        )
        d, edp = (rules.data_index(document, spot, expert) for expert in (False, True))
        rows.append([spot.dense[a] for a in ("tp", "cp", "dp", "pp")] + [d, spot.expert["tp"], spot.expert["ep"], edp])
    same(rows[6], [0, 1, 1, 0, 3, 0, 2, 1], "rank 6")
    same([row[4] for row in rows[:8]], [0, 0, 1, 1, 2, 2, 3, 3], "dp_cp index")
    same([row[6] for row in rows[8:]], [0, 1, 2, 3] * 2, "ep of stage 1")
    other = layout({"tp": 2, "cp": 2, "dp": 2, "pp": 2}, order="tp-cp-ep-pp-dp")
    at = rules.coordinates(10, rules.order_of(other), rules.sizes(other))
    same([at[a] for a in ("tp", "cp", "pp", "dp")], [0, 1, 0, 1], "rank 10")
    return "16 ranks"


COUNTED = ("count_embedding", "count_loss")


def between(*bounds: int) -> list[list[int]]:
    """Layers of chunks that begin and end at these bounds."""
    return [list(range(a, b)) for a, b in zip(bounds, bounds[1:])]


def worked_pipelines() -> str:
    """Published spreads of layers."""
    cases = [
        (16, {"pp": 4, "vpp": 2}, {}, between(0, 2, 4, 6, 8, 10, 12, 14, 16)),
        (22, {"pp": 4}, {"first": 4, "last": 6}, between(0, 4, 10, 16, 22)),
        (14, {"pp": 2}, {"first": 6, "last": 8}, between(0, 6, 14)),
        (28, {"pp": 4, "vpp": 2}, {"first": 6, "last": 6}, between(0, 3, 7, 11, 14, 17, 21, 25, 28)),
        (30, {"pp": 4, "vpp": 2}, dict.fromkeys(COUNTED, True), between(0, 3, 7, 11, 15, 19, 23, 27, 30)),
    ]
    for total, parallel, pipeline, want in cases:
        document = layout(parallel, pipeline=pipeline) if pipeline else layout(parallel)
        got = rules.chunk_layers({"layers": total}, document)
        same(got, want, f"{total} layers, {parallel}, {pipeline}")
        tensors = [weight("layer.{i}.w", 4)]
        with room(*tensors, layers=total) as here:
            here.move(document, layout({}))
    same(len(rules.expand("Et*3|(tt|)*29,m|L")), 32, "segments")
    return f"{len(cases)} pipelines"


EXAMPLE = [("emb", 1000), ("proj", 300), ("qkv.ln", 20), ("qkv", 700), ("fc1.ln", 20), ("fc1", 900), ("fc2", 500)]


def worked_buffers() -> str:
    """Published offsets of a distributed optimizer's buffers, in the rules and in the program."""
    places = rules.megatron_places([(n, c, False) for n, c in EXAMPLE], 4, 1000, False)
    same((places["fc1"], places["emb"]), (rules.Place(0, 1536, 512), rules.Place(2688, 3712, 2688)), "places")
    tensors = [weight(name, count, stage="first") for name, count in EXAMPLE]
    shard = {"rule": "megatron", "bucket": 1000}
    with room(*tensors, weight("layer.{i}.none", 1, kind="buffer", dtype="fp32")) as here:
        old, new = layout({"dp": 4}, shard=shard), layout({"dp": 3}, shard={"rule": "megatron"})
        side = here.side(old)
        same(len(side[1]["master", "fc1"].index), 256, "fc1 on shard 1")
        same(side[1]["master", "fc2"].index[0], 384, "fc2 on shard 1")
        same(side[3]["master", "emb"].index[0], 768, "emb on shard 3")
        same(here.side(new)[2]["master", "proj"].index.tolist(), list(range(256, 300)), "proj on shard 2 of 3")
        here.move(old, new)
    return "4.5 of the facts"


def tied_buffers() -> None:
    """A tied embedding is alone in its bucket when there are several stages."""
    tensors = [
        weight("emb", 1000, stage="first", tied="last"),
        weight("layer.{i}.proj", 300),
        weight("layer.{i}.qkv.ln", 20),
        weight("layer.{i}.qkv", 700),
    ]
    with room(*tensors, layers=2) as here:
        old = layout({"dp": 4, "pp": 2}, shard={"rule": "megatron"})
        side = here.side(old)
        same([side[r]["master", "emb"].index[0] for r in range(4)], [0, 256, 512, 768], "starts of emb")
        same(side[3]["master", "layer.0.proj"].index.tolist(), list(range(96, 300)), "proj on shard 3")
        here.move(old, layout({"dp": 2}, shard={"rule": "megatron"}))


def unused_output_layer() -> None:
    """Tied, and a prediction block on the last stage: Megatron has an output layer there that nothing uses."""
    tensors = [
        weight("emb", 1000, stage="first", tied=["last", "mtp"]),
        weight("layer.{i}.proj", 300),
        weight("mtp.proj", 200, stage="mtp"),
    ]
    with room(*tensors, layers=2) as here:
        old = layout({"dp": 4, "pp": 2}, shard={"rule": "megatron"})
        side = here.side(old)
        # backwards: the unused one [0, 1000), mtp.proj [1024, 1224), proj [1280, 1580), 4 x 416; the embedding alone
        held = [sorted(name for state, name in side[r] if state == "master") for r in range(4, 8)]
        same(held, [["emb"], ["emb"], ["emb", "mtp.proj"], ["emb", "layer.1.proj"]], "last stage")
        same([side[r]["master", "emb"].index[0] for r in range(8)], [0, 256, 512, 768] * 2, "starts of emb")
        here.move(old, layout({"dp": 2}, shard={"rule": "megatron"}))
        # the block in a chunk of its own: no output layer is in the way, and all three copies are alone
        apart = layout({"dp": 4, "pp": 4}, pipeline={"layout": "Et|t|m|L"}, shard={"rule": "megatron"})
        held = [sorted(name for state, name in here.side(apart)[r] if state == "master") for r in (8, 9, 12, 15)]
        same(held, [["emb", "mtp.proj"], ["emb", "mtp.proj"], ["emb"], ["emb"]], "stages 2 and 3")
        here.move(old, apart)


def copies_cut_unlike() -> str:
    """Flat groups of two stages are of unlike size: each has all of a tied tensor, cut its own way."""
    tensors = [weight("emb", 19, 3, stage="first", tied="last"), weight("layer.{i}.w", 10)]
    with room(*tensors, layers=3) as here:
        one = layout({"dp": 3}, shard={"rule": "zero1"})
        for rule in ("zero1", "zero2"):
            old = layout({"dp": 2, "pp": 2}, pipeline={"first": 1}, shard={"rule": rule})
            side = here.side(old)
            # 57 + 10 padded to 68, 57 + 20 padded to 80: tied tensors come first on every stage
            ranges = [(int(a["master", "emb"].index[0]), a["master", "emb"].index.size) for a in side]
            same(ranges, [(0, 34), (34, 23), (0, 40), (40, 17)], f"{rule}: parts of emb")
            here.move(old, one)
            here.move(one, old)
            here.move(old, layout({"dp": 3, "pp": 3}, shard={"rule": rule}))
            boxes = cells.explicit(here.write(old), here.folder / "boxes.yaml")
            sides = cells.sides_of(here.model, old, one)
            cells.check_move((boxes, here.write(one)), sides, here.folder / "boxes.plan", "replay")
        old = layout({"dp": 2, "pp": 2}, pipeline={"first": 1}, shard={"rule": "fsdp1", "use_orig_params": False})
        # the output layer comes last, and has the flat parameter of the rest to itself: 57 in two
        ranges = [(int(a["param", "emb"].index[0]), a["param", "emb"].index.size) for a in here.side(old)]
        same(ranges, [(0, 29), (29, 28)] * 2, "fsdp1: parts of emb")
        here.move(old, one | {"shard": {"rule": "fsdp1"}})
    tensors.append(weight("norm", 5, stage="final"))
    with room(*tensors, layers=3) as here:
        old = layout({"dp": 2, "pp": 2}, pipeline={"first": 1}, shard={"rule": "fsdp1", "use_orig_params": False})
        ranges = [(int(a["param", "emb"].index[0]), a["param", "emb"].index.size) for a in here.side(old)]
        same(ranges, [(0, 29), (29, 28), (0, 26), (26, 31)], "fsdp1 behind a norm: parts of emb")
        here.move(old, layout({"dp": 3, "pp": 3}, shard={"rule": "fsdp1"}))
    return "zero1, zero2, fsdp1"


def buffers_by_dtype() -> None:
    """A weight of another dtype lies in a buffer of its own: the others' places do not move."""
    tensors = [
        weight("layer.{i}.w", 700),
        weight("layer.{i}.A_log", 100, dtype="fp32"),
        weight("layer.{i}.v", 200),
    ]
    with room(*tensors) as here:
        old = layout({"dp": 2}, shard={"rule": "megatron"})
        side = here.side(old)
        same(side[0]["master", "layer.0.A_log"].index.tolist(), list(range(64)), "A_log: [0, 128) over two")
        same(side[0]["master", "layer.0.w"].index.size, 256, "w: [256, 956) of [0, 1024)")
        here.move(old, layout({"dp": 3}, shard={"rule": "megatron"}))


def experts_among_dense() -> None:
    """ep 1 and etp unlike tp: up to core_v0.18 experts lie in the dense buffers, later in their own."""
    tensors = [weight("layer.{i}.w", 100), weight("layer.{i}.x{e}.v", 64)]
    with room(*tensors, experts=1, heads=6) as here:
        new = layout({"tp": 2, "etp": 1, "dp": 2}, shard={"rule": "megatron"})
        old = layout({"tp": 2, "etp": 1, "dp": 2}, shard={"rule": "megatron", "expert_buffer": "ep"})
        held = [[(name[8:], a.index.size) for (s, name), a in rank.items() if s == "master"] for rank in here.side(new)]
        # buffers of 128 over dp 2, and of 128 over the 4 that share the expert
        same(held, [[("w", 64), ("x0.v", 32)], [("w", 64), ("x0.v", 32)], [("w", 36)], [("w", 36)]], "own buffer")
        held = [[(name[8:], a.index.size) for (s, name), a in rank.items() if s == "master"] for rank in here.side(old)]
        # one buffer of 256 over dp 2: the expert, then w from 64 on
        same(held, [[("w", 64), ("x0.v", 64)], [("w", 64), ("x0.v", 64)], [("w", 36)], [("w", 36)]], "dense buffer")
        here.move(old, new)
        here.move(new, old)
        for parallel in ({"etp": 2, "dp": 4}, {"tp": 3, "etp": 2, "dp": 2}):
            bad = layout(parallel, shard={"rule": "megatron", "expert_buffer": "ep"})
            here.refused(bad, new, "shard.expert_buffer", "expected an etp that divides tp")


# ---- experts -----------------------------------------------------------------------


def expert_model() -> list[Document]:
    """Four experts with gate, up, biases and down in one layer."""
    return [
        weight("layer.{i}.router.weight", 4, 6),
        weight("layer.{i}.expert.{e}.fc1.weight", 16, 6, dim=0, segments=[8, 8]),
        weight("layer.{i}.expert.{e}.fc1.bias", 16, dim=0, segments=[8, 8]),
        weight("layer.{i}.expert.{e}.fc2.weight", 6, 8, dim=1),
        weight("layer.{i}.expert.{e}.fc2.bias", 6),
    ]


def renumbered_experts() -> str:
    """H1: experts keep their identity over ep 2 -> 1 and ep 2 -> 4."""
    name = "layer.0.expert.{}.fc1.weight"
    with room(*expert_model(), layers=1, experts=4) as here:
        two, one, four = layout({"dp": 2, "ep": 2}), layout({}), layout({"dp": 4, "ep": 4})
        holders = [{e for e in range(4) if ("param", name.format(e)) in arrays} for arrays in here.side(two)]
        same(holders, [{0, 1}, {2, 3}], "experts of each rank")
        here.move(two, one)
        files = here.move(two, four)
        for rank in range(4):
            found = {n for n in cells.tensorfile.read(files / f"rank-{rank:05d}.safetensors") if "expert" in n}
            same({n.split("expert.")[1][0] for n in found}, {str(rank)}, f"experts on rank {rank}")
        here.move(four, two)
    with room(weight("layer.{i}.expert.{e}.w", 16, 6, dim=0), experts=4) as here:
        bare = layout({}) | {"state": {"param": "bf16"}}

        def numbered(first: list[int]) -> Document:
            """Two experts a rank, numbered from `first` on."""
            names = [(rank, f"layer.0.expert.{first[rank] + e}.w") for rank in (0, 1) for e in (0, 1)]
            return holdings(2, [held(r, name, [16, 6], "0:16, 0:6") for r, name in names], {"param": "bf16"})

        here.refused(numbered([0, 0]), bare, "rank 0", "rank 1", "layer.0.expert.0.w")
        files = here.move(numbered([0, 2]), bare)
        found = cells.tensorfile.read(files / "rank-00000.safetensors").values()
        same(len({array.tobytes() for _, array in found}), 4, "distinct experts")
    return "2 -> 1, 2 -> 4, 4 -> 2; local names refused, with an offset taken"


def grids(*degrees: Document) -> str:
    """Moves around a ring of grids, flat optimizer shards on every second layout."""
    with room(*expert_model(), layers=1, experts=4) as here:
        for number, new in enumerate(degrees):
            rule = {"rule": "megatron"} if number % 2 else {"rule": "none"}
            here.move(layout(degrees[number - 1], shard=rule), layout(new, shard={"rule": "megatron"}))
    return f"{len(degrees)} grids"


def expert_biases() -> str:
    """Biases of experts under an ep change: each stays with its expert."""
    name = "layer.0.expert.{}.fc1.bias"
    with room(*expert_model(), layers=1, experts=4) as here:
        for ep, want in ((1, [{0, 1, 2, 3}] * 4), (2, [{0, 1}, {2, 3}] * 2), (4, [{0}, {1}, {2}, {3}])):
            side = here.side(layout({"dp": 4, "ep": ep}))
            same([{e for e in range(4) if ("param", name.format(e)) in a} for a in side], want, f"biases at ep {ep}")
    return grids({"dp": 4}, {"dp": 4, "ep": 2}, {"dp": 4, "ep": 4}, {"dp": 2, "ep": 2})


def gated_experts() -> str:
    """Gate and up of experts under an etp change: each half is cut by itself."""
    with room(*expert_model(), layers=1, experts=4) as here:
        side = here.side(layout({"tp": 2, "ep": 2, "etp": 1}))
        same(len(side[1]["param", "layer.0.expert.2.fc1.weight"].index), 16, "rows at etp 1")
        side = here.side(layout({"tp": 2, "dp": 2, "ep": 2, "etp": 2}))
        rows = side[1]["param", "layer.0.expert.0.fc1.weight"].index[:, 0] // 6
        same(rows.tolist(), [4, 5, 6, 7, 12, 13, 14, 15], "rows of gate and up on the second of etp 2")
    return grids(
        {"tp": 2, "dp": 2, "ep": 2, "etp": 2},
        {"dp": 4, "ep": 1, "etp": 4},
        {"tp": 4, "ep": 4, "etp": 1},
        {"tp": 2, "dp": 4, "ep": 2, "etp": 4},
    )


def expert_storage() -> str:
    """Each expert is an entry of its own, under its global number, however many a rank has."""
    with room(*expert_model(), layers=1, experts=4) as here:
        for ep in (4, 1, 2):
            files = here.move(layout({"dp": 4, "ep": 4 // ep}), layout({"dp": 4, "ep": ep}))
            for rank in range(4):
                found = cells.tensorfile.read(files / f"rank-{rank:05d}.safetensors")
                kept = {n for n in found if n.startswith("param/") and n.endswith("fc2.weight")}
                first = rank % ep * (4 // ep)
                same(kept, {f"param/layer.0.expert.{first + e}.fc2.weight" for e in range(4 // ep)}, f"ep {ep}")
    return "ep 4, 1, 2"


def fp32_router_bias() -> None:
    """H6: 256 distinct fp32 values of a buffer under ep 4 -> 2."""
    tensors = [*expert_model(), weight("layer.{i}.router.bias", 256, kind="buffer", dtype="fp32")]
    with room(*tensors, layers=1, experts=4) as here:
        files = here.move(layout({"dp": 4, "ep": 4}), layout({"dp": 2, "ep": 2}))
        dtype, array = cells.tensorfile.read(files / "rank-00001.safetensors")["buffer/layer.0.router.bias"]
        same((dtype, len(np.unique(array))), ("F32", 256), "distinct values")
        values = np.linspace(6.817, 7.063, 256, dtype=np.float32)
        same(len(np.unique(values.view(np.uint32) >> 16)), 9, "what bf16 would leave of them")
        for path in sorted((files.parent / "old").glob("rank-*")):
            arrays = cells.tensorfile.read(path)
            arrays["buffer/layer.0.router.bias"] = ("F32", values.view(np.uint32))
            cells.tensorfile.write(path, arrays)
        plan, old = here.folder / f"move-{here.count}.plan", files.parent / "old"
        programs.succeed("shunt-exec", plan, "--transport", "loopback", "--load", old, "--store", files)
        for path in sorted(files.glob("rank-*")):
            dtype, array = cells.tensorfile.read(path)["buffer/layer.0.router.bias"]
            same((dtype, array.tobytes()), ("F32", values.tobytes()), path.name)


# ---- replicas ----------------------------------------------------------------------


def spread_over_copies(here: Room, old: Document, new: Document) -> None:
    """To sixteen other devices: each target gets each of three states once, and every copy serves as a source."""
    here.move(old, new)
    ops = programs.lines(here.folder / f"move-{here.count}.plan", "--ops")
    norm = [op for op in ops if op.get("tensor") == "final_layernorm.weight"]
    taken = Counter((op["device"], op["state"]) for op in norm if op["op"] == "unpack")
    states = ("param", "master", "exp_avg")
    same(taken, Counter({(device, state): 1 for device in range(16, 32) for state in states}), "writes")
    sent = Counter({device: 0 for device in range(16)})
    sent.update(op["device"] for op in norm if op["op"] == "pack")
    same(sum(sent.values()), 48, "packs")
    if min(sent.values()) < 2 or max(sent.values()) > 4:
        raise OracleError(f"the copies do not share the work: {sent}")


def norm_on_sixteen() -> str:
    """H2: sixteen copies of a norm; each target is written once, from one source."""
    with room(weight("final_layernorm.weight", 8, stage="final"), weight("layer.{i}.w", 16, dim=0)) as here:
        old, new = layout({"cp": 2, "dp": 4, "tp": 2}), layout({"tp": 4, "dp": 4})
        same(len([p for p in param(here.side(old), "final_layernorm.weight") if p]), 16, "copies")
        here.move(old, new)
        spread_over_copies(here, old, new | {"devices": list(range(16, 32))})
    with room(weight("norm", 8, stage="all")) as here:
        new = layout({}) | {"state": {"param": "bf16"}}
        entries = [held("0-2", "norm", [8], "0:8"), held(3, "norm", [8], "0:8")]
        here.refused(holdings(4, entries, {"param": "bf16"}), new, "norm [0,8)", "rank 3", "rank 0")
        here.move(holdings(4, [held("0-3", "norm", [8], "0:8")], {"param": "bf16"}), new)
        here.move(holdings(4, [entry | {"copy": True} for entry in entries], {"param": "bf16"}), new)
        here.refused(holdings(4, [entries[0] | {"copy": True}, entries[1]], {"param": "bf16"}), new, "norm")
    return "16 -> 16"


def embedding_on_two_stages() -> str:
    """H5: the embedding's copy of the prediction block, pp 2 -> 1, 2 -> 4, with optimizer state."""
    name = "embed.weight"
    model = toys.dense() | {"layers": 4}
    rules_tried = ("none", "megatron", "zero1", "zero2", "zero3", "fsdp1", "fsdp2")
    for shard in rules_tried:
        with room(*model["tensors"], layers=4, heads=4, scalars=[STEP]) as here:
            two, one, four = (layout({"pp": pp, "dp": 2}, shard={"rule": shard}) for pp in (2, 1, 4))
            for side, stages in ((two, [0, 1]), (one, [0]), (four, [0, 3])):
                arrays = here.side(side)
                for state in ("param", "master", "exp_avg"):
                    found = {rank // 2 for rank, a in enumerate(arrays) if (state, name) in a}
                    same(sorted(found), stages, f"{shard} stages of {state}/{name}")
            here.move(two, one)
            here.move(two, four)
            here.move(one, four)
    tensors = [weight(name, 6, 2, stage="first", tied="mtp"), weight("mtp.w", 2, stage="mtp"), weight("layer.{i}.w", 1)]
    with room(*tensors) as here:
        entries = [held(r, name, [6, 2], "0:6, 0:2") for r in (0, 1)]
        bare = layout({}) | {"state": {"param": "bf16"}}
        here.refused(holdings(2, entries, {"param": "bf16"}), bare, name, "rank 0", "rank 1")
    return f"{len(rules_tried)} rules"


# ---- states and order ----------------------------------------------------------------


def own_states() -> None:
    """H8: every tensor keeps its own moments though the sides register the tensors in another order."""
    tensors = [weight("layer.{i}.linear", 30, 5), weight("layer.{i}.norm", 30)]
    with room(*tensors, layers=2) as here:
        turned = {"order": ["layer.{i}.norm", "layer.{i}.linear"]}
        for rule in ("megatron", "zero1", "fsdp1"):
            old = layout({"pp": 2, "dp": 3}, shard={"rule": rule}) | {"state": ADAM}
            new = layout({"dp": 4}, shard={"rule": rule} | turned) | {"state": ADAM}
            here.move(old, new)
            here.move(new, old)


def peers_in_report() -> str:
    """H10: a full exchange among 8 ranks; the report names the peers."""
    with room(weight("layer.{i}.w", 64, 8, dim=0)) as here:
        paths = here.write(layout({"tp": 8})), here.write(layout({"dp": 8}))
        plan = here.folder / "p.plan"
        programs.plan(*paths, plan)
        same(programs.inspect(plan)["schedule"]["max_peers"], 7, "max_peers")
        peers: dict[int, set[int]] = {}
        for op in programs.lines(plan, "--ops"):
            if "peer" in op:
                peers.setdefault(op["device"], set()).add(op["peer"])
        same([len(peers[device]) for device in range(8)], [7] * 8, "peers of each device in the operations")
        for device in range(8):
            said = programs.succeed("shunt", "inspect", plan, "--device", device, "--json").out
            same(json.loads(said)["peers"], 7, "peers of a device")
        memory = programs.inspect(plan)["memory"]
        cap = memory["from_max"] + memory["to_max"] + 2**30
        capped = ("-o", plan, "--cluster", here.folder / "buffers.yaml", "--cap", f"{cap} B")
        for buffers, fits in ((3_280_000_000, False), (512 * 2**20, True)):
            device = {"memory": "80 GB", "transport_buffers": f"{buffers} B"}
            cells.write(here.folder / "buffers.yaml", cells.CLUSTER | {"device": device})
            if fits:
                programs.succeed("shunt", "plan", *paths, *capped)
                peak = programs.inspect(plan)["memory"]["peak"]
                same(buffers < peak <= cap, True, "the peak has the transport's buffers and stays under the cap")
            else:
                said = programs.refused("shunt", "plan", *paths, *capped)
                same(f"reserve and transport {buffers} B" in said, True, said)
    return "7 peers; a cap of the state and 1 GiB: refused with 3.28 GB of transport buffers, kept with 512 MiB"


def indivisible_chunks() -> str:
    """H11: 80 layers on 16 stages are 5 each: not 2 chunks, but 1 or 5."""
    with room(weight("layer.{i}.w", 1), layers=80) as here:
        old = layout({"pp": 8})
        here.refused(old, layout({"pp": 16, "vpp": 2}), "parallel.vpp", "80 layers, pp is 16, vpp is 2")
        for vpp in (1, 5):
            new = layout({"pp": 16, "vpp": vpp})
            names = [name for arrays in here.side(new) for state, name in arrays if state == "param"]
            same(sorted(names), sorted(f"layer.{i}.w" for i in range(80)), f"vpp {vpp}")
            here.move(old, new)
    return "vpp 1 and 5"


def global_layers() -> None:
    """H14: stage 1 of pp 2 gets global layers 2 and 3; local names on two ranks are refused."""
    with room(weight("layer.{i}.w", 6, 2), layers=4) as here:
        every = {"state": ADAM | {"grad": "fp32"}}
        files = here.move(layout({"dp": 2}) | every, layout({"pp": 2}) | every)
        found = set(cells.tensorfile.read(files / "rank-00001.safetensors"))
        want = {f"{state}/layer.{i}.w" for state in every["state"] for i in (2, 3)}
        same(found, want, "layers on stage 1 in params, grads and optimizer state")
        local = [held(r, f"layer.{i}.w", [6, 2], "0:6, 0:2") for r in (0, 1) for i in (0, 1)]
        bare = layout({}) | {"state": {"param": "bf16"}}
        here.refused(holdings(2, local, {"param": "bf16"}), bare, "layer.0.w", "rank 0", "rank 1")
        shifted = [held(r, f"layer.{2 * r + i}.w", [6, 2], "0:6, 0:2") for r in (0, 1) for i in (0, 1)]
        here.move(holdings(2, shifted, {"param": "bf16"}), bare)


# ---- flat and uneven shards ------------------------------------------------------------


def fifty_seven() -> str:
    """H15: 57 elements, zero2, dp 2 -> 3; a shard of 29 is refused."""
    fp32 = {"param": "fp32", "exp_avg": "fp32"}
    with room(weight("w", 57, stage="first"), weight("layer.{i}.none", 1, kind="buffer", dtype="fp32")) as here:
        two, three = (layout({"dp": dp}, shard={"rule": "zero2"}) | {"state": fp32} for dp in (2, 3))
        sizes = [[a["exp_avg", "w"].index.size for a in here.side(side)] for side in (two, three)]
        same(sizes, [[30, 27], [20, 20, 17]], "elements of 57 in 30 + 30 and in 20 x 3")
        here.move(two, three)
        here.move(three, two)
    with room(weight("w", 57, stage="all")) as here:
        one = layout({}) | {"state": {"param": "fp32"}}
        for shape, box in ((29, "30:59"), (26, "30:57"), (29, "30:57 @ 3"), (29, "29:57"), (29, "31:57")):
            entries = [held(0, "w", [30], "0:30"), held(1, "w", [shape], box)]
            here.refused(holdings(2, entries, {"param": "fp32"}), one, "w", "1")
        entries = [held(0, "w", [30], "0:30"), held(1, "w", [30], "30:57")]
        here.move(holdings(2, entries, {"param": "fp32"}), one)
    return "30+27 -> 20+20+17, pads left out"


def strided_table() -> str:
    """H18: FSDP over TP on five elements."""
    with room(weight("w", 5, stage="all")) as here:
        old = mesh(["dp", "tp"], [2, 2], [{"placements": ["_StridedShard(0, 2)", "Shard(0)"]}])
        same(param(here.side(old), "w"), [[0, 1], [3], [2], [4]], "dp0tp0, dp0tp1, dp1tp0, dp1tp1")
        one, two = mesh(["r"], [1], [{"placements": ["Replicate"]}]), layout({"dp": 2}, shard={"rule": "fsdp2"})
        same(param(here.side(one), "w"), [[0, 1, 2, 3, 4]], "gathered")
        same(param(here.side(two), "w"), [[0, 1, 2], [3, 4]], "fsdp 2")
        here.move(old, one)
        here.move(one, two)
        here.move(old, two)
        here.move(two, old)
        unnamed = mesh(["dp", "tp"], [2, 2], [{"placements": ["_StridedShard(0)", "Shard(0)"]}])
        here.refused(unnamed, one, "_StridedShard")
        wrong = mesh(["dp", "tp"], [2, 2], [{"placements": ["_StridedShard(0, 3)", "Shard(0)"]}])
        here.refused(wrong, one, "split_factor 3", "expected 2")
    return "[0,1] [3] [2] [4]"


def strided_orders() -> str:
    """Several strided axes: where each cuts follows from its split factor, as torch 2.15 has it."""
    cases = [
        (["_StridedShard(0, 4)", "_StridedShard(0, 2)", "Shard(0)"], [0, 8, 4, 12, 2, 10, 6, 14]),
        (["_StridedShard(0, 2)", "_StridedShard(0, 2)", "Shard(0)"], [0, 8, 2, 10, 4, 12, 6, 14]),
        (["_StridedShard(0, 4)", "Shard(0)", "Shard(0)"], [0, 4, 8, 12, 2, 6, 10, 14]),
        (["_StridedShard(0, 2)", "Shard(0)", "Shard(0)"], [0, 2, 8, 10, 4, 6, 12, 14]),
        (["Shard(0)", "_StridedShard(0, 2)", "Shard(0)"], [0, 4, 2, 6, 8, 12, 10, 14]),
    ]
    with room(weight("w", 16, 3, stage="all")) as here:
        one = layout({})
        sides = [mesh(["a", "b", "c"], [2, 2, 2], [{"placements": placements}]) for placements, _ in cases]
        for side, (placements, firsts) in zip(sides, cases):
            got = [p[0] // 3 if p else -1 for p in param(here.side(side), "w")]
            same(got, firsts, f"first rows under {placements}")
            here.move(side, one)
            here.move(one, side)
        for k, factors in ((3, "2 or 4"), (8, "2 or 4")):
            wrong = mesh(["a", "b", "c"], [2, 2, 2], [{"placements": [f"_StridedShard(0, {k})", "Shard(0)", "Shard(0)"]}])
            here.refused(wrong, one, f"split_factor {k}", f"expected {factors}", "mesh axis a")
        alone = mesh(["a", "b"], [2, 2], [{"placements": ["_StridedShard(0, 2)", "Replicate"]}])
        here.refused(alone, one, "expected no strided shard")
    return f"{len(cases)} orders"


def kv_rows(head: int) -> tuple[int, int]:
    """First rows of a key and of a value head."""
    return head * 4352 + 4096, head * 4352 + 4224


def by_heads(rank: int) -> Document:
    """Query heads 8r to 8r+7 and key/value head r // 4 of a rank."""
    query = rank // 4 * 4352 + rank % 4 * 1024
    key, value = kv_rows(rank // 4)
    boxes = [f"{query}:{query + 1024}, 0:2 @ 0", f"{key}:{key + 128}, 0:2 @ 2048", f"{value}:{value + 128}, 0:2 @ 2304"]
    return held(rank, "layer.0.linear_qkv.weight", [1280, 2], *boxes, copy=True)


def heads_across_ranks() -> str:
    """H19: raw rows over tp 8 with two key/value heads, to a cut by heads with copies."""
    name = "layer.0.linear_qkv.weight"
    with room(weight("layer.{i}.linear_qkv.weight", 8704, 2, dim=0), heads=64, kv_heads=2) as here:
        old = layout({"tp": 8}) | {"state": {"param": "bf16"}}
        rows = [set(np.array(p or []) // 2) for p in param(here.side(old), name)]
        for head, rank in ((0, 3), (1, 7)):
            for first in kv_rows(head):
                owners = [r for r in range(8) if rows[r] & set(range(first, first + 128))]
                same(owners, [rank], f"ranks of rows from {first}")
        new = holdings(8, [by_heads(rank) for rank in range(8)], {"param": "bf16"})
        files = here.move(old, new)
        arrays = [cells.tensorfile.read(files / f"rank-{r:05d}.safetensors")[f"param/{name}"][1] for r in range(8)]
        for group in (arrays[:4], arrays[4:]):
            for array in group[1:]:
                same(array[1024:].tobytes(), group[0][1024:].tobytes(), "key and value copies")
        here.move(new, old)
        alone = [{k: v for k, v in by_heads(rank).items() if k != "copy"} for rank in range(8)]
        here.refused(holdings(8, alone, {"param": "bf16"}), old, name, "rank 0", "rank 1", "[4096,4224)")
    return "8.5 heads a rank -> 8 heads, 4 copies of each key/value head"


def split_query_heads() -> str:
    """H19: of 64 query heads under raw rows over tp 8, four are split 64 to 64 rows over two ranks."""
    name = "layer.0.linear_qkv.weight"
    with room(weight("layer.{i}.linear_qkv.weight", 8704, 2, dim=0), heads=64, kv_heads=2) as here:
        side = here.side(layout({"tp": 8}) | {"state": {"param": "bf16"}})
        owner = np.empty(8704, np.int64)
        for rank, arrays in enumerate(side):
            rows = arrays["param", name].index[:, 0] // 2
            same(len(rows), 1088, f"rows of rank {rank}")
            owner[rows] = rank
        heads = [Counter(owner[h // 32 * 4352 + h % 32 * 128 :][:128].tolist()) for h in range(64)]
        split = {h: dict(ranks) for h, ranks in enumerate(heads) if len(ranks) > 1}
        want = {8: {0: 64, 1: 64}, 25: {2: 64, 3: 64}, 40: {4: 64, 5: 64}, 57: {6: 64, 7: 64}}
        same(split, want, "query heads on two ranks")
    return "heads 8, 25, 40, 57"


def heads(kind: str, width: int) -> Document:
    """Keys of a cut that is made of heads."""
    return {"heads": kind, "head_dim": width}


def made_of_heads(name: str, *shape: int, kind: str, width: int, segments: list[int] | None = None) -> Document:
    """A weight whose rows are heads."""
    tensor = weight(name, *shape, dim=0, segments=segments)
    return tensor | {"cut": tensor["cut"] | heads(kind, width)}


REPLICATE = {"attention": {"kv": "replicate"}}


def heads_by_rule() -> str:
    """H19 with the target made by the rule; the same ranks hold the same rows as box by box, and both ways move."""
    name = "layer.0.linear_qkv.weight"
    tensor = made_of_heads("layer.{i}.linear_qkv.weight", 8704, 2, kind="qkv", width=128)
    with room(tensor, heads=64, kv_heads=2) as here:
        old = layout({"tp": 8}) | {"state": {"param": "bf16"}}
        new = old | REPLICATE
        rows = [np.array(p or [])[::2] // 2 for p in param(here.side(old), name)]
        local = [np.array(p or [])[::2] // 2 for p in param(here.side(new), name)]
        starts = {h: h // 32 * 4352 + h % 32 * 128 for h in range(64)}
        split = [h for h in range(64) if sum(starts[h] in r or starts[h] + 127 in r for r in rows) == 2]
        same(split, [8, 25, 40, 57], "query heads that two old ranks share")
        for h in split:
            parts = [int(np.isin(r, range(starts[h], starts[h] + 128)).sum()) for r in rows]
            same([n for n in parts if n], [64, 64], f"rows of query head {h} on its two ranks")
        for rank in range(8):
            want = [range(starts[8 * rank + i], starts[8 * rank + i] + 128) for i in range(8)]
            want += [range(first, first + 128) for first in kv_rows(rank // 4)]
            same(local[rank].tolist(), [row for part in want for row in part], f"rows of rank {rank}")
        boxes = holdings(8, [by_heads(rank) for rank in range(8)], {"param": "bf16"})
        same(param(here.side(boxes), name), param(here.side(new), name), "by rule and box by box")
        files = here.move(old, new)
        arrays = [cells.tensorfile.read(files / f"rank-{r:05d}.safetensors")[f"param/{name}"][1] for r in range(8)]
        for rank in range(8):
            same(arrays[rank].shape, (1280, 2), "local shape")
            same(arrays[rank][1024:].tobytes(), arrays[rank // 4 * 4][1024:].tobytes(), "key and value copies")
        here.move(new, old)
        here.move(new, boxes)
        here.move(new, layout({"tp": 2, "dp": 3}) | {"state": {"param": "bf16"}})
    return "64 + 64 rows of four heads, 4 copies of each key/value head"


def head_forms() -> list[Document]:
    """Six query and two key/value heads of two rows, in every form in which trainers and engines keep them."""
    return [
        made_of_heads("layer.{i}.qkv.weight", 20, 3, kind="qkv", width=2),
        made_of_heads("layer.{i}.qkv.bias", 20, kind="qkv", width=2),
        made_of_heads("layer.{i}.gated.weight", 64, 3, kind="qgkv", width=4),
        made_of_heads("layer.{i}.split.weight", 20, 3, kind="q-k-v", width=2, segments=[12, 4, 4]),
        weight("layer.{i}.q_proj.weight", 12, 3, dim=0),
        made_of_heads("layer.{i}.k_proj.weight", 4, 3, kind="kv", width=2),
        made_of_heads("layer.{i}.v_proj.bias", 4, kind="kv", width=2),
        made_of_heads("layer.{i}.kv_proj.weight", 8, 3, kind="kv", width=2, segments=[4, 4]),
        weight("layer.{i}.o.weight", 3, 12, dim=1),
    ]


def heads_in_all_forms() -> str:
    """Key/value heads copied by the rule, fused and apart, under every rule that shards states, on both sides."""
    shards = ("none", "megatron", "zero1", "zero3", "fsdp2", "fsdp1")
    with room(*head_forms(), layers=2, heads=6, kv_heads=2) as here:
        side = here.side(layout({"tp": 6}) | REPLICATE)
        rows = [(side[r]["param", "layer.1.qkv.bias"].index).tolist() for r in (2, 3)]
        same(rows, [[4, 5, 6, 7, 8, 9], [10, 11, 16, 17, 18, 19]], "q2 k0 v0, q3 k1 v1")
        gated = (side[4]["param", "layer.0.gated.weight"].index[:, 0] // 3).tolist()
        same(gated, [*range(36, 40), *range(48, 52), *range(56, 64)], "q4 gate4 k1 v1")
        same((side[5]["param", "layer.0.kv_proj.weight"].index[:, 0] // 3).tolist(), [2, 3, 6, 7], "k1 v1")
        raw, two = here.side(layout({"tp": 2})), here.side(layout({"tp": 2}) | REPLICATE)
        same([param(two, f"layer.0.{n}.weight") for n in ("qkv", "gated", "split", "k_proj")],
             [param(raw, f"layer.0.{n}.weight") for n in ("qkv", "gated", "split", "k_proj")], "tp 2 is the plain cut")
        for shard in shards:
            rule = {"shard": {"rule": shard}}
            copied, plain = layout({"tp": 6, "dp": 2}, **rule) | REPLICATE, layout({"tp": 2, "dp": 3}, **rule)
            here.move(plain, copied)
            here.move(copied, plain)
            here.move(copied, layout({"pp": 2, "tp": 6}) | REPLICATE)
            sides = cells.sides_of(here.model, copied, plain)
            paths = (cells.explicit(here.write(copied), here.folder / f"{shard}.yaml"), here.write(plain))
            cells.check_move(paths, sides, here.folder / f"{shard}.plan", "replay")
    return f"{len(shards)} rules"


def heads_refused() -> None:
    """Heads that do not go round, and a model that does not say what its heads are."""
    one = layout({})
    with room(weight("layer.{i}.qkv", 8, dim=0), heads=2, kv_heads=1) as here:
        here.refused(one, layout({"tp": 2}) | REPLICATE, "attention.kv: found replicate", "cut.heads", "model.yaml")
    with room(made_of_heads("layer.{i}.qkv", 8, kind="qkv", width=2), heads=6, kv_heads=1) as here:
        here.refused(one, layout({"tp": 6}) | REPLICATE, "parallel.tp: found 6", "2 query heads of layer.{i}.qkv")
    for tensor, words in (
        (made_of_heads("layer.{i}.w", 10, kind="qkv", width=2), "found 10 rows, expected kv_heads times head_dim"),
        (made_of_heads("layer.{i}.w", 8, kind="qkv", width=2), "which is 4, times 2 and the query heads"),
        (made_of_heads("layer.{i}.w", 20, kind="qgkv", width=2), "times 2 and twice the query heads"),
        (made_of_heads("layer.{i}.w", 20, kind="q-k-v", width=2), "found 1 segments, expected 3 with `q-k-v`"),
        (made_of_heads("layer.{i}.w", 16, kind="q-k-v", width=2, segments=[6, 6, 4]), "segment 0 of length 6"),
        (made_of_heads("layer.{i}.w", 6, kind="kv", width=2), "segment 0 of length 6, expected 4"),
    ):
        with room(tensor, heads=4, kv_heads=2) as here:
            here.refused(one, one, "tensors[0].cut.heads: found ", words)
    with room(made_of_heads("layer.{i}.w", 8, kind="qkv", width=2)) as here:
        here.refused(one, one, "found heads in a model without `kv_heads`")


def empty_shards() -> str:
    """H20: six elements over 4 -> 3 -> 4 ranks, three rows over 8."""
    with room(weight("w", 6, stage="all")) as here:
        for form in (fsdp, sharded_mesh):
            same([len(p or []) for p in param(here.side(form(4)), "w")], [2, 2, 2, 0], "sizes")
            for old, new in ((4, 3), (3, 4)):
                here.move(form(old), form(new))
                ops = programs.lines(here.folder / f"move-{here.count}.plan", "--ops")
                same([op for op in ops if op["device"] == 3 and "peer" in op], [], "messages of rank 3")
    with room(weight("w", 3, 5, stage="all")) as here:
        for form in (fsdp, sharded_mesh):
            same([len(p or []) // 5 for p in param(here.side(form(8)), "w")], [1, 1, 1, 0, 0, 0, 0, 0], "rows")
            here.move(form(1), form(8))
            here.move(form(8), form(2))
    return "2, 2, 2, 0 and 1, 1, 1, 0, 0, 0, 0, 0"


def fsdp(ranks: int) -> Document:
    """Rows by rule."""
    return layout({"dp": ranks}, shard={"rule": "fsdp2"}) | {"state": {"param": "fp32"}}


def sharded_mesh(ranks: int) -> Document:
    """Rows by placement."""
    return mesh(["dp"], [ranks], [{"placements": ["Shard(0)"]}]) | {"state": {"param": "fp32"}}


def empty_shapes() -> None:
    """An empty shard of a matrix is 0 x 5, as the framework has it: in the map, in the plan, in files."""
    with room(weight("w", 3, 5, stage="all")) as here:
        files = here.move(fsdp(1), fsdp(8))
        shape = cells.tensorfile.read(files / "rank-00007.safetensors")["param/w"][1].shape
        said = json.loads(programs.succeed("shunt", "layout", here.write(fsdp(8)), "--rank", 7, "--json").out)
        lines = programs.lines(next(here.folder.glob("*.plan")), "--buffers")
        shapes = {"layout": said["tensors"][0]["local_shape"], "stored": list(shape)}
        shapes["inspect"] = next(l["local_shape"] for l in lines if l["side"] == "to" and l["rank"] == 7)
        same(shapes, {"layout": [0, 5], "stored": [0, 5], "inspect": [0, 5]}, "local shapes of rank 7")


def explicit_columns() -> None:
    """Empty shards of columns, printed in holdings form, read back."""
    with room(weight("w", 5, 2, stage="all")) as here:
        old = mesh(["a"], [3], [{"placements": ["Shard(1)"]}])
        paths = [cells.explicit(here.write(old), here.folder / "explicit.yaml"), here.write(layout({}))]
        sides = cells.sides_of(here.model, old, layout({}))
        cells.check_move((paths[0], paths[1]), sides, here.folder / "p.plan", "replay")


# ---- stored otherwise -----------------------------------------------------------------------


def transposed(*names: str) -> Document:
    """Matrices that lie column by column."""
    return {"storage": [{"tensor": name, "dims": [1, 0]} for name in names]}


LEGACY = transposed("layer.{i}.expert.{e}.fc1.weight", "layer.{i}.expert.{e}.fc2.weight")


def legacy_experts() -> str:
    """Transposed expert weights to and from ordinary ones, cut over etp, alone and under every rule that shards."""
    with room(*expert_model(), layers=1, experts=4) as here:
        side = here.side(layout({"tp": 2, "ep": 2, "dp": 2}) | LEGACY)
        fc1 = side[1]["param", "layer.0.expert.0.fc1.weight"].index
        same((fc1.shape, fc1[2].tolist()), ((6, 8), [r * 6 + 2 for r in (4, 5, 6, 7, 12, 13, 14, 15)]), "column 2")
        files = here.move(layout({"dp": 2, "ep": 2}), layout({"tp": 2, "dp": 2, "ep": 2}) | LEGACY)
        found = cells.tensorfile.read(files / "rank-00000.safetensors")["param/layer.0.expert.0.fc1.weight"][1]
        same(found.shape, (6, 8), "local shape in files")
        for rule in ("none", "megatron", "zero1", "zero3", "fsdp2"):
            old = layout({"tp": 2, "dp": 4, "ep": 2}, shard={"rule": rule}) | LEGACY
            new = layout({"tp": 2, "dp": 2, "ep": 4, "etp": 1}, shard={"rule": rule})
            here.move(old, new)
            here.move(new, old)
            here.move(old, layout({"dp": 6}, shard={"rule": rule}) | LEGACY)
        flat = layout({"dp": 3}, shard={"rule": "fsdp1"}) | LEGACY
        here.move(flat, layout({"tp": 2}))
        behind = layout({"dp": 4}, shard={"rule": "megatron"}) | LEGACY | OWNER
        here.move(behind, layout({"tp": 2}) | LEGACY)
        sides = cells.sides_of(here.model, old, new)
        paths = (cells.explicit(here.write(old), here.folder / "explicit.yaml"), here.write(new))
        cells.check_move(paths, sides, here.folder / "explicit.plan", "replay")
    return "5 rules"


def expert_orders() -> str:
    """Experts in flat buffers: grouped by module, one by one, or stacked as one tensor of all."""
    tensors = [weight("layer.{i}.e.{e}.fc1.weight", 10, 6, dim=0), weight("layer.{i}.e.{e}.fc2.weight", 6, 10, dim=1)]
    with room(*tensors, layers=1, experts=2) as here:
        starts = {}
        for how in ("grouped", "sequential", "stacked"):
            old = layout({"dp": 2}, shard={"rule": "megatron", "experts": how})
            spot = rules.Spot(dict.fromkeys(rules.AXES, 0), dict.fromkeys(rules.AXES, 0))
            found = rules.rank_instances(here.model, old, spot)
            places = rules.flat_places(found, old, {i.name: 60 for i in found})
            starts[how] = [places[f"layer.0.e.{e}.{fc}.weight"].start for fc in ("fc1", "fc2") for e in (0, 1)]
            here.move(old, layout({"dp": 3}, shard={"rule": "megatron"}))
        same(starts["grouped"], [192, 128, 64, 0], "fc1 of 0 and 1, fc2 of 0 and 1, from the end, at multiples of 64")
        same(starts["sequential"], [192, 64, 128, 0], "fc2 of 1, fc1 of 1, fc2 of 0, fc1 of 0")
        same(starts["stacked"], [128, 188, 0, 60], "each stack runs forward, without gaps")
    with room(*expert_model(), layers=2, experts=4) as here:
        for rule in ("megatron", "zero1"):
            for how in ("sequential", "stacked"):
                shard = {"rule": rule, "experts": how}
                old = layout({"tp": 2, "dp": 4, "ep": 2}, shard=shard) | LEGACY
                new = layout({"dp": 4, "ep": 4}, shard={"rule": rule})
                here.move(old, new)
                here.move(new, old)
        here.move(layout({"dp": 3}, shard={"rule": "fsdp1", "experts": "stacked"}), layout({"tp": 2}))
        fsdp2 = layout({"dp": 2}, shard={"rule": "fsdp2", "experts": "stacked"})
        here.refused(layout({}), fsdp2, "shard.experts: found it with rule `fsdp2`", "`megatron`, `zero1`")
    return "3 orders"


def other_orders() -> None:
    """Three dimensions in any order, fused q, k, v with copies, and what stays where it is."""
    tensors = [weight("layer.{i}.block", 2, 8, 3, dim=1), made_of_heads("layer.{i}.qkv", 8, 5, kind="qkv", width=1)]
    with room(*tensors, layers=2, heads=4, kv_heads=2) as here:
        orders = ([0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0])
        layouts = []
        for number, order in enumerate(orders):
            storage = [{"tensor": "layer.{i}.block", "dims": order}, {"tensor": "layer.{i}.qkv", "dims": [1, 0]}]
            rule = ("none", "megatron", "fsdp2", "zero3", "fsdp1")[number]
            copies = REPLICATE if number % 2 else {}
            layouts.append(layout({"tp": 4, "dp": 2}, shard={"rule": rule}) | {"storage": storage} | copies)
        for old, new in zip(layouts, layouts[1:] + [layout({"tp": 2})]):
            here.move(old, new)
        plan = here.folder / "same.plan"
        programs.plan(here.write(layouts[0]), here.write(layouts[0]), plan)
        same(programs.inspect(plan)["bytes"]["moved"], 0, "bytes moved where nothing changes")


def storage_refused() -> None:
    """Entries that do not fit the model."""
    vocabulary = toys.embedding("embed", 8, 2, stage="first")
    with room(vocabulary, weight("layer.{i}.w", 8, 4, dim=0), scalars=[STEP]) as here:
        for storage, words in (
            (transposed("layer.{i}.v"), 'storage[0].tensor: found "layer.{i}.v", expected a tensor as'),
            (transposed("optimizer.step"), 'storage[0].tensor: found "optimizer.step"'),
            (transposed("embed"), "not supported: pads"),
            ({"storage": [{"tensor": "layer.{i}.w", "dims": [0, 2, 1]}]}, "found 3 dimensions, expected the 2 of"),
        ):
            here.refused(layout({}), layout({}) | storage, words)
            here.refused(layout({}) | storage, layout({}), words)


# ---- weights that are a step behind -------------------------------------------------------


OWNER = {"current": "owner"}


def owners_of(side: Side, current: Side, name: str) -> list[list[int]]:
    """Elements of a parameter that are current on each rank that holds all of it."""
    assert all(local["param", name].index.size for local in side)
    return [[e for e in local["param", name].index.reshape(-1).tolist() if e >= 0] for local in current]


def owner_bytes() -> str:
    """Between a step and a deferred all-gather only the owner of an optimizer shard has a weight's new bytes."""
    tensors = [weight("emb", 1000, stage="first"), weight("layer.{i}.w", 24, 3, dim=0), weight("layer.{i}.norm", 5)]
    with room(*tensors, layers=2) as here:
        old = layout({"dp": 4}, shard={"rule": "megatron", "bucket": 100}) | OWNER
        side = here.side(old)
        found = owners_of(side, rules.current_side(old, side), "emb")
        same([(f[0], len(f)) for f in found], [(0, 256), (256, 256), (512, 256), (768, 232)], "owners of emb")
        sides = cells.sides_of(here.model, old, layout({}))
        stale = sum(int((~np.isin(w.index, c.index)).sum()) for w, c in
                    zip((a["param", "emb"] for a in side), (a["param", "emb"] for a in sides.current)))
        same(stale, 3000, "old copies of emb")
        whole, current = side[1]["param", "emb"], sides.current[1]["param", "emb"]
        rank = cells.old_values(np.arange(1, 1001, dtype="u2"), whole, current)
        same((int(rank[0]), int(rank[300])), (0xFFFE, 301), "a byte of the step before, and a new one")
        for rule in ("megatron", "zero1", "zero2"):
            shard = {"shard": {"rule": rule}}
            for degrees in ({"dp": 4}, {"tp": 2, "dp": 3}, {"pp": 2, "dp": 2, "cp": 2}, {"dp": 1}):
                behind = layout(degrees, **shard) | OWNER
                here.move(behind, layout({"tp": 3}))
                here.move(behind, layout(degrees, **shard))  # the same ranks: no buffer may stay as it is
                here.move(behind, layout({"dp": 5}, **shard) | OWNER)
        copies = layout({"dp": 4}, shard={"rule": "megatron", "instances": 2}) | OWNER
        here.move(copies, layout({"tp": 2}))
    with room(*expert_model(), layers=1, experts=4) as here:
        old = layout({"tp": 2, "dp": 4, "ep": 2, "etp": 1}, shard={"rule": "megatron"}) | OWNER
        here.move(old, layout({"tp": 2, "dp": 2, "ep": 4, "etp": 1}))
    with room(*head_forms(), layers=1, heads=6, kv_heads=2) as here:
        old = layout({"tp": 6, "dp": 2}, shard={"rule": "megatron"}) | REPLICATE | OWNER
        here.move(old, layout({"tp": 2}))
    return "3000 of 4000 copies left alone"


def owner_of_tied() -> None:
    """A tied embedding has owners on every stage that keeps it; a prediction block too."""
    model = toys.dense() | {"layers": 4}
    with room(*model["tensors"], layers=4, heads=4, scalars=[STEP]) as here:
        old = layout({"pp": 2, "dp": 2}, shard={"rule": "megatron"}) | OWNER
        here.move(old, layout({"tp": 2, "pp": 4}))
        paths = (cells.explicit(here.write(old), here.folder / "explicit.yaml"), here.write(layout({"tp": 2})))
        sides = cells.sides_of(here.model, old, layout({"tp": 2}))
        cells.check_move(paths, sides, here.folder / "explicit.plan", "replay")


def owner_on_mesh() -> None:
    """The same with placements: weights everywhere, the optimizer's states in rows."""
    with room(weight("layer.{i}.w", 10, 3, dim=0), weight("layer.{i}.v", 4)) as here:
        states = {"states": ["master", "exp_avg"], "placements": ["Shard(0)"]}
        rules_of = [{"states": ["param"], "placements": ["Replicate"]}, states]
        old = mesh(["dp"], [4], rules_of) | OWNER
        side = here.side(old)
        found = owners_of(side, rules.current_side(old, side), "layer.0.w")
        same([len(f) for f in found], [9, 9, 9, 3], "rows 3, 3, 3, 1")
        here.move(old, layout({"tp": 2}))
        here.refused(mesh(["dp"], [4], [{"placements": ["Replicate"]}]) | OWNER, layout({}), "current: found owner")


def owner_refused() -> None:
    """Without optimizer states that are cut there is no owner."""
    one = layout({})
    with room(weight("layer.{i}.w", 8, dim=0)) as here:
        lie = ("current: found owner in a layout whose optimizer states lie as its weights do", "shard.rule megatron")
        here.refused(layout({"dp": 2}) | OWNER, one, *lie)
        here.refused(layout({"dp": 2}, shard={"rule": "fsdp2"}) | OWNER, one, *lie)
        here.refused(layout({"dp": 2}, shard={"rule": "zero3"}) | OWNER, one, *lie)
        here.refused(one, layout({"dp": 2}) | OWNER, *lie)
        bare = {"state": {"param": "bf16"}}
        behind = layout({"dp": 2}, shard={"rule": "megatron"}) | OWNER | bare
        here.refused(behind, one | bare, "current: found owner in a layout without optimizer states")
        plan = here.folder / "current.plan"
        paths = [here.write(layout({"dp": 2}, shard={"rule": "megatron"}) | more) for more in (OWNER, {})]
        target = here.write(one)
        programs.plan(paths[0], target, plan)
        said = programs.refused("shunt", "verify", plan, paths[1], target)
        if "param/layer.0.w" not in said:
            raise OracleError(f"verify against the layout without the key: {said}")


# ---- packed tensors, vocabulary, refusals --------------------------------------------------


def packed_mixers() -> str:
    """Mamba-2 and gated delta net tensors under tp 1 -> 2 -> 4 -> 1, plain and cut over dp."""
    tensors = [
        weight("layer.{i}.mamba.in_proj", 44, 3, dim=0, segments=[16, 16, 4, 4, 4]),
        weight("layer.{i}.mamba.conv1d", 24, 1, 4, dim=0, segments=[16, 4, 4]),
        weight("layer.{i}.mamba.conv1d_bias", 24, dim=0, segments=[16, 4, 4]),
        weight("layer.{i}.mamba.out_proj", 3, 16, dim=1),
        weight("layer.{i}.gdn.in_proj", 56, 3, dim=0, segments=[8, 8, 16, 16, 4, 4]),
        weight("layer.{i}.gdn.conv1d", 32, 1, 3, dim=0, segments=[8, 8, 16]),
        weight("layer.{i}.gdn.A_log", 4, dim=0),
    ]
    shards = ("none", "fsdp2", "megatron", "zero3")
    with room(*tensors) as here:
        side = here.side(layout({"tp": 4}))
        rows = (side[1]["param", "layer.0.mamba.in_proj"].index[:, 0] // 3).tolist()
        same(rows, [4, 5, 6, 7, 20, 21, 22, 23, 33, 37, 41], "rows of in_proj on rank 1 of 4")
        for shard in shards:
            layouts = [layout({"tp": tp, "dp": 2}, shard={"rule": shard}) for tp in (1, 2, 4, 1)]
            for old, new in zip(layouts, layouts[1:]):
                here.move(old, new)
    return f"{len(shards)} rules"


def vocabularies() -> str:
    """Rows padded otherwise on each side; flat shards include the pads of the tensor-parallel array."""
    embed = toys.embedding("embed", 57, 2, stage="first")
    with room(embed, weight("layer.{i}.w", 8, dim=0)) as here:
        rows = {}
        for tp in (1, 2, 8):
            side = here.side(layout({"tp": tp}) | {"vocab": {"divisible_by": 16}})
            rows[tp] = sum(len(p or []) for p in param(side, "embed")) // 2
        same(rows, {1: 64, 2: 64, 8: 128}, "padded rows")
        for rule in ("none", "megatron", "zero1", "zero3", "fsdp2", "fsdp1"):
            shard = {"shard": {"rule": rule}}
            old = layout({"tp": 2, "dp": 2}) | shard | {"vocab": {"divisible_by": 1}}
            new = layout({"tp": 4, "dp": 3}) | shard | {"vocab": {"padded": 72}}
            here.move(old, new)
            here.move(new, old)
    return "6 rules"


def unlike_sides() -> str:
    """Hidden sizes or dtypes that differ are refused."""
    with room(weight("layer.{i}.w", 8, 4, dim=0)) as here:
        other = here.model | {"tensors": [weight("layer.{i}.w", 8, 6, dim=0)]}
        cells.write(here.folder / "other.yaml", other)
        here.refused(layout({"tp": 2}), layout({"tp": 4}) | {"model": "other.yaml"}, "other.yaml")
        half = layout({}) | {"state": families.STATE | {"param": "fp16"}}
        here.refused(layout({"tp": 2}), half, "state.param", "fp16", "bf16")
        here.refused(layout({"tp": 2}), layout({}) | {"state": families.STATE | {"momentum": "fp32"}}, "momentum")
    return "model, dtype, state"


def uneven_pipelines() -> str:
    """Unlike numbers of layers on the first and the last stage, with the head's stages."""
    spreads = [{"first": 1, "last": 3}, {"first": 2}, {"last": 4}, {"count_embedding": True, "count_loss": True}]
    count = 0
    with room(*toys.dense()["tensors"], layers=6, heads=4) as here:
        even = layout({"tp": 2})
        for spread, pp in zip(spreads, (3, 3, 2, 4)):
            for rule in ("none", "fsdp2"):
                document = layout({"pp": pp, "dp": 2}, pipeline=spread, shard={"rule": rule})
                here.move(even, document)
                here.move(document, layout({"pp": 3}))
                count += 2
    return f"{count} moves"


def changed(old: Document, new: Document) -> list[tuple[Document, Document]]:
    """Moves between unlike layouts whose sides keep these states."""
    pairs = [
        (layout({"tp": 4, "dp": 2}), layout({"tp": 2, "pp": 2, "dp": 2})),
        (layout({"dp": 4}, shard={"rule": "megatron"}), layout({"tp": 2, "dp": 3}, shard={"rule": "megatron"})),
        (layout({"tp": 2, "dp": 2}, shard={"rule": "zero1"}), layout({"dp": 3}, shard={"rule": "fsdp2"})),
        (layout({"dp": 3}, shard={"rule": "zero3"}), layout({"tp": 4}, devices=[2, 3, 4, 5])),
        (layout({"pp": 3}), layout({"tp": 2, "dp": 2}, shard={"rule": "fsdp1"}, devices=[6, 7, 8, 9])),
    ]
    return [(a | {"state": old}, b | {"state": new}) for a, b in pairs]


def states_change(old: Document, new: Document) -> str:
    """Moves whose sides keep unlike states, bit for bit in numpy and by the executor."""
    with room(*toys.dense()["tensors"], layers=6, heads=4) as here:
        for first, second in changed(old, new):
            here.move(first, second)
    return "5 moves"


def to_bf16() -> str:
    """fp32 is narrowed where the new side asks."""
    return states_change({"param": "fp32", "exp_avg": "fp32"}, {"param": "bf16", "exp_avg": "bf16"})


def to_fp32() -> str:
    """bf16 is widened where the new side asks."""
    return states_change({"param": "bf16", "exp_avg": "bf16"}, {"param": "fp32", "exp_avg": "fp32"})


def weights_alone() -> str:
    """The new side keeps no optimizer state."""
    return states_change(ADAM, {"param": "bf16"})


def scales_dropped() -> str:
    """A scaled state goes with its scales; another one stays where its shards stay."""
    scaled = {"dtype": "fp16", "scale": "per-shard"}
    states_change({"param": "bf16", "exp_avg": scaled, "exp_avg_sq": scaled}, {"param": "bf16"})
    with room(*toys.dense()["tensors"], layers=6, heads=4) as here:
        old = layout({"dp": 2}) | {"state": {"param": "bf16", "exp_avg": scaled, "exp_avg_sq": scaled}}
        here.move(old, layout({"dp": 4}) | {"state": {"param": "bf16", "exp_avg_sq": scaled}})
        here.move(old, layout({"dp": 4}) | {"state": {"param": "bf16", "exp_avg": scaled}})
    return "7 moves"


def from_master() -> str:
    """The new weights are made from the old masters, which the new side keeps."""
    return states_change(ADAM, ADAM | {"param": "from-master"})


def from_master_alone() -> str:
    """The same, and nothing else is kept."""
    return states_change(ADAM, {"param": "from-master"})


def from_param() -> str:
    """New masters are made from the weights."""
    return states_change({"param": "bf16"}, {"param": "bf16", "master": "from-param"})


def bytes_not_sent() -> str:
    """One [8,6] weight, tp 2 -> tp 4 on other devices: each element moves as master alone, 4 bytes and not 6."""
    with room(weight("w", 8, 6, dim=0, stage="first"), layers=1) as here:
        found = []
        for word in ("bf16", "from-master"):
            state = {"param": "bf16", "master": "fp32"}
            old = layout({"tp": 2}) | {"state": state}
            new = layout({"tp": 4}, devices=[4, 5, 6, 7]) | {"state": state | {"param": word}}
            here.move(old, new)
            found.append(programs.inspect(here.folder / f"move-{here.count}.plan")["bytes"])
        plain, made = found
        assert (plain["moved"], plain["saved"]) == (48 * 6, 0), plain
        assert (made["moved"], made["saved"], made["needed_remote"]) == (48 * 4, 48 * 2, 48 * 4), made
    return "288 bytes become 192, 96 saved"


def bytes_of_casts() -> str:
    """The narrower form crosses the network, whichever way the cast goes."""
    with room(weight("w", 8, 6, dim=0, stage="first"), layers=1) as here:
        for old, new in (("fp32", "bf16"), ("bf16", "fp32")):
            first = layout({"tp": 2}) | {"state": {"param": old}}
            second = layout({"tp": 4}, devices=[4, 5, 6, 7]) | {"state": {"param": new}}
            here.move(first, second)
            moved = programs.inspect(here.folder / f"move-{here.count}.plan")["bytes"]["moved"]
            assert moved == 48 * 2, moved
    return "2 bytes an element"


def bias_beside_casts() -> str:
    """H6 where the weights are cast: 256 distinct fp32 values of a bias stay what they are."""
    values = np.linspace(6.817, 7.063, 256, dtype=np.float32).view(np.uint32)
    bias = weight("layer.{i}.router.bias", 256, kind="buffer", dtype="fp32")
    norm = weight("layer.{i}.norm", 4, dtype="fp32")
    with room(weight("layer.{i}.w", 8, 4, dim=0), bias, norm) as here:
        wide, narrow = {"param": "fp32", "master": "fp32"}, {"param": "bf16", "master": "fp32"}
        old, new = layout({"tp": 2}) | {"state": wide}, layout({"tp": 4}) | {"state": narrow}
        sides = cells.sides_of(here.model, old, new)
        paths = (here.write(old), here.write(new))
        plan = here.folder / "cast.plan"
        cells.check_move(paths, sides, plan, "verify")
        whole = cells.contents(sides)
        whole["buffer", "layer.0.router.bias"] = values
        cells.execute(plan, here.folder / "run", sides, whole)
        for rank in range(4):
            got = cells.tensorfile.read(here.folder / "run" / "new" / f"rank-{rank:05d}.safetensors")
            assert got["buffer/layer.0.router.bias"][0] == "F32" and got["param/layer.0.norm"][0] == "F32"
            assert got["param/layer.0.w"][0] == "BF16"
            assert np.array_equal(got["buffer/layer.0.router.bias"][1], values)
            assert len(np.unique(got["buffer/layer.0.router.bias"][1])) == 256
    return "256 distinct values"


CASES: list[tuple[str, Callable[[], str | None]]] = [
    ("worked example: ranks of both grids", worked_ranks),
    ("worked example: pipelines", worked_pipelines),
    ("worked example: buffers of the distributed optimizer", worked_buffers),
    ("worked example: a tied embedding's bucket", tied_buffers),
    ("tied, with a prediction block on the last stage", unused_output_layer),
    ("copies of a tied tensor that are cut unlike", copies_cut_unlike),
    ("experts among dense tensors", experts_among_dense),
    ("a weight of another dtype has a flat buffer of its own", buffers_by_dtype),
    ("H1 experts keep their identity", renumbered_experts),
    ("H2 a norm on sixteen ranks", norm_on_sixteen),
    ("H5 an embedding on two stages", embedding_on_two_stages),
    ("H6 an fp32 buffer stays fp32", fp32_router_bias),
    ("H8 every tensor keeps its own states", own_states),
    ("H10 peers in the report", peers_in_report),
    ("H11 chunks that do not divide", indivisible_chunks),
    ("H14 global layer numbers", global_layers),
    ("H15 57 elements", fifty_seven),
    ("H18 FSDP on top of TP, odd dimension", strided_table),
    ("several strided axes", strided_orders),
    ("H19 rank cuts inside heads", heads_across_ranks),
    ("H19 query heads on two ranks", split_query_heads),
    ("H19 key/value heads replicated by a rule", heads_by_rule),
    ("key/value heads replicated in all forms", heads_in_all_forms),
    ("key/value heads that are refused", heads_refused),
    ("H20 empty shards", empty_shards),
    ("empty shards keep their dimensions", empty_shapes),
    ("empty shards of columns in holdings form", explicit_columns),
    ("stored transposed: legacy experts", legacy_experts),
    ("experts in flat buffers: grouped, sequential, stacked", expert_orders),
    ("stored in any order of dimensions", other_orders),
    ("stored otherwise: refused entries", storage_refused),
    ("current weights: only the owner's bytes", owner_bytes),
    ("current weights: tied embeddings", owner_of_tied),
    ("current weights: placements", owner_on_mesh),
    ("current weights: refused without owners", owner_refused),
    ("refit: expert biases under an ep change", expert_biases),
    ("refit: gated experts under an etp change", gated_experts),
    ("refit: per-expert storage under ep", expert_storage),
    ("refit: Mamba and GDN packed tensors under tp", packed_mixers),
    ("refit: vocabulary padded differently", vocabularies),
    ("refit: sides that differ are refused", unlike_sides),
    ("refit: uneven pipelines", uneven_pipelines),
    ("states: fp32 to bf16", to_bf16),
    ("states: bf16 to fp32", to_fp32),
    ("states: weights alone", weights_alone),
    ("states: scales dropped with their states", scales_dropped),
    ("states: weights from masters", from_master),
    ("states: weights alone, from masters", from_master_alone),
    ("states: masters from weights", from_param),
    ("states: bytes not sent", bytes_not_sent),
    ("states: bytes of casts", bytes_of_casts),
    ("states: H6 beside casts", bias_beside_casts),
]


def groups() -> list[Group]:
    """One group for each case."""
    return [Group(name, check) for name, check in CASES]
