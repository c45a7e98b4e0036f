# SPDX-License-Identifier: Apache-2.0
"""Random models and pairs of layouts over all rules, compiled, verified and partly replayed or run."""

from __future__ import annotations

import json
import random
import tempfile
from collections import Counter
from math import prod
from pathlib import Path

import cells
import rules
from cells import BadCell, OracleError
from families import layout, mesh
from rules import Document
from tap import Group
from toys import STEP, embedding, weight

MAX_WORLD = 12
SHARE = 50  # moves of one group
STATES = (
    {"param": "bf16"},
    {"param": "fp32", "momentum": "fp32"},
    {"param": "bf16", "master": "fp32", "exp_avg": "bf16"},
    {"param": "bf16", "grad": "bf16", "exp_avg": {"dtype": "fp16", "scale": "none"}},
    {"param": "bf16", "master": "i16", "exp_avg": "bf16"},
)
MESH_NAMES = (("a", "b", "c"), ("pp", "dp", "tp"), ("dp", "tp", "cp"), ("dp_shard", "dp_replicate", "tp"))
WAYS_OUT = ("leave", "reseed", "recompute")
CHANGES = (
    ({"param": "fp32", "momentum": "fp32"}, {"param": "bf16", "momentum": "bf16"}),
    ({"param": "fp32", "momentum": "fp32"}, {"param": "bf16", "master": "from-param", "momentum": "fp32"}),
    ({"param": "bf16", "master": "fp32", "exp_avg": "bf16"}, {"param": "bf16"}),
    ({"param": "bf16", "master": "fp32", "exp_avg": "bf16"}, {"param": "fp32", "exp_avg": "fp32"}),
    ({"param": "bf16", "master": "fp32", "exp_avg": "bf16"}, {"param": "from-master", "master": "fp32"}),
    (
        {"param": "bf16", "master": "fp32", "exp_avg": "fp32"},
        {"param": "from-master", "master": {"dtype": "fp32", "tier": "host"}, "exp_avg": "bf16"},
    ),
    ({"param": "bf16", "master": "fp32"}, {"param": {"dtype": "from-master", "tier": "host"}, "master": "fp32"}),
    ({"param": "bf16", "master": "i16", "exp_avg": "bf16"}, {"param": "bf16"}),
    ({"param": "bf16", "master": "fp32"}, {"param": "from-master"}),
    ({"param": "bf16"}, {"param": "bf16", "master": "from-param"}),
)  # states of the old and the new side
RULES = ("none", "megatron", "megatron", "zero1", "zero3", "fsdp2", "fsdp1")


class Dice:
    """Random models and layouts of one seed."""

    def __init__(self, seed: int) -> None:
        self.draw = random.Random(seed)
        self.unit = self.draw.choice((4, 6))  # what every cut extent is a multiple of
        self.state = self.draw.choice(STATES)
        self.next_state = self.state
        change = random.Random(seed + 1)  # of its own, so that the rest is the same with and without
        if change.random() < 0.3:
            self.state, self.next_state = change.choice(CHANGES)
        self.moe = self.draw.random() < 0.4
        self.mtp = self.draw.random() < 0.3
        self.mixed = self.draw.random() < 0.2 and self.state.get("master") != "i16"
        self.tied = self.draw.choice(([], ["last"], ["mtp"], ["last", "mtp"]))
        if not self.mtp:
            self.tied = [stage for stage in self.tied if stage != "mtp"]
        self.layers = self.draw.choice((2, 3, 4, 6))
        self.kv_heads = self.draw.choice((0, 1, 2 if self.unit == 4 else 1))  # 0: no attention
        self.aside = random.Random(f"beside {seed}")  # leaves the other draws of a seed as they are
        self.whole = self.model() | self.beside()

    def chance(self, probability: float) -> bool:
        """True with a probability."""
        return self.draw.random() < probability

    def wide(self) -> int:
        """An extent that may be cut."""
        return self.unit * self.draw.randint(1, 3)

    def narrow(self) -> int:
        """Any small extent."""
        return self.draw.randint(1, 7)

    # -- models

    def some_layers(self) -> Document:
        """A `layers` key, or none."""
        if self.chance(0.6):
            return {}
        first = self.draw.randrange(self.layers)
        if self.chance(0.5):
            return {"layers": {"from": first}}
        return {"layers": sorted(self.draw.sample(range(self.layers), self.draw.randint(1, self.layers)))}

    def packed(self, name: str, *behind: int, **more: object) -> Document:
        """A tensor whose first dimension is cut in segments."""
        parts = [self.wide() for _ in range(self.draw.randint(1, 5))]
        return weight(name, sum(parts), *behind, dim=0, segments=parts, **more)

    def block(self) -> list[Document]:
        """Tensors of a layer."""
        where = self.some_layers()
        tensors = [weight("layer.{i}.norm", self.narrow())]
        tensors.append(self.packed("layer.{i}.in", self.narrow(), **where))
        tensors.append(weight("layer.{i}.out", self.narrow(), self.wide(), dim=1, **where))
        if self.chance(0.4):
            tensors.append(self.packed("layer.{i}.conv", 1, self.narrow(), **self.some_layers()))
        if self.chance(0.3):
            more = {"dtype": "fp32"} if self.mixed else {}
            tensors.append(weight("layer.{i}.block", 2, self.wide(), 3, dim=1, **more))
        if self.chance(0.3):
            tensors.append(weight("layer.{i}.bias", self.narrow(), kind="buffer", dtype="fp32", **where))
        if self.kv_heads:
            tensors += self.attention()
        if self.moe:
            tensors += self.experts("layer.{i}.expert.{e}.", self.some_layers())
        return tensors

    def attention(self) -> list[Document]:
        """Fused q, k and v, or some of them apart."""
        kv, size, queries = self.kv_heads, self.draw.randint(1, 2), self.unit * self.draw.randint(1, 2)
        fused = {"qkv": queries + 2 * kv, "qgkv": 2 * queries + 2 * kv, "q-k-v": queries + 2 * kv, "kv": kv}
        kind = self.draw.choice(sorted(fused))
        parts = [queries, kv, kv] if kind == "q-k-v" else [fused[kind]]
        extent = size if all(part * size % 12 == 0 for part in parts) else size * 12  # a plain cut goes round too
        found = weight("layer.{i}.attn.qkv", extent * fused[kind], self.narrow(), dim=0)
        found["cut"] |= {"heads": kind, "head_dim": extent}
        if len(parts) > 1:
            found["cut"] |= {"segments": [part * extent for part in parts]}
        return [found, weight("layer.{i}.attn.o", self.narrow(), queries * size, dim=1)]

    def experts(self, prefix: str, where: Document) -> list[Document]:
        """Tensors of an expert."""
        tensors = [self.packed(prefix + "up.weight", self.narrow(), **where)]
        if self.chance(0.5):
            tensors.append(self.packed(prefix + "up.bias", **where))
        return [*tensors, weight(prefix + "down.weight", self.narrow(), self.wide(), dim=1, **where)]

    def model(self) -> Document:
        """A model."""
        rows, hidden = self.draw.randint(1, 30), self.narrow()
        tensors = [embedding("embed", rows, hidden, stage="first", **({"tied": self.tied} if self.tied else {}))]
        tensors += self.block()
        tensors.append(weight("final_norm", hidden, stage="final"))
        if self.mtp:
            tensors.append(self.packed("mtp.proj", hidden, stage="mtp"))
            tensors += self.experts("mtp.expert.{e}.", {"stage": "mtp"}) if self.moe else []
        if "last" not in self.tied:
            tensors.append(embedding("head", rows, hidden, stage="last"))
        head = {"kind": "model", "name": "random", "layers": self.layers, "scalars": [STEP]}
        counts = {"heads": self.unit, "kv_heads": self.kv_heads} if self.kv_heads else {}
        return head | {"tensors": tensors} | ({"experts": 4} if self.moe else {}) | counts

    def beside(self) -> Document:
        """State beside the tensors: some entries of every policy, and what a framework has."""
        kinds = [["pp", "dp", "cp", "tp"]] + [["pp", "ep", "etp"]] * self.moe
        entries: list[Document] = []
        for number in range(self.aside.randint(0, 4)):
            entry: Document = {"name": f"other.{number}", "bytes": self.aside.randint(1, 40)}
            if self.aside.random() < 0.3:
                entry = {"name": entry["name"], "dtype": "i16", "count": self.aside.randint(1, 9)}
            if self.aside.random() < 0.7:
                keys = self.aside.choice(kinds)
                per = self.aside.sample(keys, self.aside.randint(1, len(keys)))
                entry |= {"policy": "copy-if-same", "per": per, "otherwise": self.aside.choice(WAYS_OUT)}
            entries.append(entry)
        entries += [{"name": "derived", "policy": self.aside.choice(("recompute", "leave"))}] * (len(entries) > 2)
        return {"other_state": entries} | ({"include": "megatron-state"} if self.aside.random() < 0.2 else {})

    # -- layouts

    def degrees(self) -> Document:
        """Degrees of the dense grid."""
        choices = {
            "tp": [n for n in (1, 2, 3, 4) if self.unit % n == 0],
            "pp": [1, 2, 3, 4],
            "dp": [1, 2, 3, 4, 5, 7],
            "cp": [1, 1, 2],
        }
        result, room = {}, MAX_WORLD
        for axis in self.draw.sample(sorted(choices), 4):
            result[axis] = self.draw.choice([n for n in choices[axis] if n <= room])
            room //= result[axis]
        return result

    def expert_degrees(self, parallel: Document) -> Document:
        """Degrees of the expert grid that fit."""
        stage = prod(parallel[axis] for axis in ("tp", "cp", "dp"))
        pairs = [
            (etp, ep)
            for etp in (1, 2, 3, 4)
            for ep in (1, 2, 4)
            if self.unit % etp == 0 and stage % (etp * ep) == 0
        ]
        etp, ep = self.draw.choice(pairs)
        return {"etp": etp, "ep": ep}

    def pipeline(self, pp: int) -> tuple[Document, int] | None:
        """A way to spread the layers, and vpp; None if this try does not fit."""
        vpp = self.draw.choice((1, 1, 1, 2, 3))
        kind = self.draw.choice(("even", "uneven", "counted", "string"))
        if pp == 1 and kind == "uneven":
            return None
        if kind == "even":
            return ({}, vpp) if self.layers % (pp * vpp) == 0 else None
        if kind == "uneven":
            return self.uneven(pp)
        if kind == "counted":
            return self.counted(pp, vpp)
        return self.string(pp, vpp)

    def uneven(self, pp: int) -> tuple[Document, int] | None:
        """First and last stage with numbers of their own."""
        keys = self.draw.choice((["first"], ["last"], ["first", "last"]))
        given = {key: self.draw.randint(1, self.layers) for key in keys}
        middle, rest = pp - len(given), self.layers - sum(given.values())
        fits = rest == 0 if middle == 0 else rest >= middle > 0 and rest % middle == 0
        return (given, 1) if fits else None

    def counted(self, pp: int, vpp: int) -> tuple[Document, int] | None:
        """Embedding and loss counted as layers."""
        keys = self.draw.choice((["count_embedding"], ["count_loss"], ["count_embedding", "count_loss"]))
        fits = (self.layers + len(keys)) % (pp * vpp) == 0 and pp * vpp > 1
        return (dict.fromkeys(keys, True), vpp) if fits else None

    def string(self, pp: int, vpp: int) -> tuple[Document, int] | None:
        """Chunks written out; the prediction block stands with the last layers or with the loss."""
        count = pp * vpp
        cuts = sorted(self.draw.randint(0, self.layers) for _ in range(count - 1))
        chunks = ["t" * (b - a) for a, b in zip([0, *cuts], [*cuts, self.layers])]
        chunks[0] = "E" + chunks[0]
        last = max(k for k in range(count) if "t" in chunks[k])
        if self.mtp:
            k = self.draw.choice((last, count - 1))
            if k // pp != vpp - 1 or (k % pp == 0 and pp > 1):
                return None
            chunks[k] += "m"
        chunks[-1] += "L"
        return {"layout": "|".join(chunks)}, vpp

    def shard(self, parallel: Document) -> Document | None:
        """A rule with its options; None if this try does not fit."""
        shard: Document = {"rule": self.draw.choice(RULES)}
        rule = shard["rule"]
        if rule in ("zero1", "fsdp1") and self.mixed:
            return None  # refused: one flat group of two dtypes
        if rule == "fsdp1" and self.moe and rules.expert_buffer({"parallel": parallel}):
            return None  # refused: flat parameters would mix dense tensors and spread experts
        group = parallel["dp"] * parallel["cp"]
        edp = rules.expert_sizes({"parallel": parallel})["dp"]
        copies = [n for n in (1, 2, 3) if group % n == 0 and (not self.moe or edp % n == 0)]
        if rule in ("megatron", "fsdp2", "fsdp1") and self.chance(0.5):
            shard["instances"] = self.draw.choice(copies)
        if rule == "megatron" and self.chance(0.5):
            shard["bucket"] = self.draw.choice((1, 64, 200, 1000))
        if rule in ("megatron", "zero1", "fsdp1") and self.moe and self.chance(0.5):
            shard["experts"] = self.draw.choice(("grouped", "sequential", "stacked"))
        if rule in ("megatron", "zero1", "fsdp1") and self.chance(0.3):
            shard["order"] = self.registration()
        if rule == "megatron" and self.chance(0.1):
            shard["pad_high_bandwidth"] = True
        if rule == "megatron" and self.moe and self.chance(0.4):
            if parallel["ep"] > 1 or parallel["tp"] % parallel["etp"] == 0:  # else refused: unlike parts in a group
                shard["expert_buffer"] = "ep"
        if rule == "fsdp1" and self.chance(0.5):
            shard["use_orig_params"] = False
        return shard

    def order(self, parallel: Document) -> Document:
        """An order of the axes, or none."""
        if self.chance(0.6):
            return {}
        if self.moe:  # both grids must have the same stages
            even = parallel["etp"] * parallel["ep"] == parallel["tp"] * parallel["cp"]
            return {"order": "tp-cp-ep-pp-dp"} if even else {}
        axes = self.draw.sample(("tp", "cp", "dp", "pp"), 4)
        return {"order": "-".join(axes)}

    def registration(self) -> list[str]:
        """Weights in another order; those of the layers stay together."""
        names = [tensor["name"] for tensor in self.whole["tensors"] if tensor.get("kind") != "buffer"]
        layered = [name for name in names if "{i}" in name]
        others = [name for name in names if "{i}" not in name]
        cut = self.draw.randint(0, len(others))
        others, layered = (self.draw.sample(part, len(part)) for part in (others, layered))
        return others[:cut] + layered + others[cut:]

    def parallel(self) -> Document:
        """A layout made of degrees of parallelism."""
        while True:
            degrees = self.degrees()
            if self.moe:
                degrees |= self.expert_degrees(degrees)
            spread, shard = self.pipeline(degrees["pp"]), self.shard(degrees)
            if spread is None or shard is None:
                continue
            pipeline, vpp = spread
            more: Document = {"shard": shard} | self.order(degrees)
            if pipeline:
                more["pipeline"] = pipeline
            if self.kv_heads and self.chance(0.5):
                more["attention"] = {"kv": "replicate"}
            if shard["rule"] in ("megatron", "zero1") and len(self.state) > 1 and self.chance(0.3):
                more["current"] = "owner"
            if self.chance(0.2):
                more["storage"] = self.storage()
            document = layout(degrees | {"vpp": vpp}, **more) | {"state": self.homes()}
            return document | {"vocab": {"divisible_by": self.draw.randint(1, 5)}} | self.devices(document)

    def homes(self) -> Document:
        """The states, some of them in host memory."""
        if self.chance(0.6):
            return dict(self.state)
        kept = {s: {"dtype": v} if isinstance(v, str) else v for s, v in self.state.items()}
        tiers = {s: self.draw.choice(("device", "host")) for s in kept}
        return {s: v | {"tier": tiers[s]} for s, v in kept.items()}

    def storage(self) -> list[Document]:
        """Some tensors with their dimensions in another order; padded vocabularies stay as they are."""
        found = [t for t in self.whole["tensors"] if len(t["shape"]) > 1 and "pad" not in t.get("cut", {})]
        some = self.draw.sample(found, self.draw.randint(1, len(found)))
        return [{"tensor": t["name"], "dims": self.draw.sample(range(len(t["shape"])), len(t["shape"]))} for t in some]

    def devices(self, document: Document) -> Document:
        """A choice of devices, or none."""
        if self.chance(0.7):
            return {}
        world = rules.world(document)
        return {"devices": self.draw.sample(range(world + 3), world)}

    def mesh(self, model: Document) -> Document:
        """A layout made of placements."""
        shape = [self.draw.randint(1, 3) for _ in range(self.draw.randint(1, 3))]
        found = [t for t in model["tensors"] if t.get("kind") != "buffer"]
        placements = [{"tensor": t["name"], "placements": self.placements(shape, len(t["shape"]))} for t in found]
        names = list(self.aside.choice(MESH_NAMES))
        return mesh(names[: len(shape)], shape, placements) | {"state": self.homes()}

    def placements(self, shape: list[int], ndim: int) -> list[str]:
        """Placements of one tensor; a strided one goes behind some of the axes to its right, in the order of cuts."""
        texts: list[str] = []
        cuts: list[list[int]] = [[] for _ in range(ndim)]  # sizes of the axes to the right, in that order
        for size in reversed(shape):
            d = self.draw.randrange(ndim)
            kind = self.draw.choice(("Replicate", "Shard", "Strided"))
            place = self.draw.randint(0, len(cuts[d])) if kind == "Strided" else 0
            parts = prod(cuts[d][:place])
            while place > 0 and cuts[d][place - 1] == 1:  # behind fewer there are as many parts: the rule takes that
                place -= 1
            texts.insert(0, f"_StridedShard({d}, {parts})" if kind == "Strided" else f"Shard({d})")
            if kind == "Replicate":
                texts[0] = "Replicate"
            else:
                cuts[d].insert(place, size)
        return texts


def empty_columns(side: rules.Side) -> bool:
    """Whether a shard is empty in another dimension than the first: test_cases.py has a case for that."""
    return any(0 in local.index.shape[1:] for arrays in side for local in arrays.values())


def one_move(folder: Path, seed: int, how: str, placed: bool) -> str:
    """One random move, the new ranks where the layout has them or where the compiler puts them; returns what was done."""
    dice = Dice(seed)
    model = dice.whole
    documents = [dice.mesh(model) if dice.chance(0.12) else dice.parallel() for _ in range(2)]
    documents[1]["state"] = dice.next_state
    if len(dice.next_state) == 1:  # without optimizer states nothing tells owners apart
        documents[1].pop("current", None)
    cells.write_model(folder, model)
    paths = [cells.write(folder / f"{side}.yaml", document) for side, document in zip(("old", "new"), documents)]
    sides = cells.sides_of(model, documents[0], documents[1])
    for side in (0, 1):
        if dice.chance(0.1) and not empty_columns(sides.maps[side]):
            paths[side] = cells.explicit(paths[side], folder / f"explicit-{side}.yaml")
    pair, options = (paths[0], paths[1]), ("--place", "optimal") if placed else ()
    try:
        if placed:
            documents[1]["devices"] = cells.placed_devices(pair, folder / "placed.yaml")
            sides = cells.sides_of(model, documents[0], documents[1])
        return cells.check_move(pair, sides, folder / "p.plan", how, *options)
    except BadCell as error:
        texts = "\n".join(json.dumps(document) for document in (model, *documents))
        raise BadCell(error.letter, f"seed {seed}, {how}: {error}\n{texts}") from None


def way(number: int) -> str:
    """Of 25 moves 3 are run, 5 replayed, and the others planned and verified. Devices are chosen for each fourth."""
    return "execute" if number % 25 in (3, 11, 19) else "replay" if number % 5 == 0 else "verify"


def moves(seed: int, begin: int, count: int) -> str:
    """Some random moves."""
    done: Counter[str] = Counter()
    failures = []
    with tempfile.TemporaryDirectory(prefix="shunt-families-") as name:
        for number in range(begin, begin + count):
            try:
                done[one_move(Path(name), seed * 1_000_003 + number, way(number), number % 4 == 3)] += 1
            except OracleError as error:
                failures.append(str(error))
    if failures:
        raise OracleError("\n\n".join(failures[:4]) + f"\n\n{len(failures)} of {count} moves")
    return f"{count} moves verified, {done['r']} replayed, {done['x']} run"


def groups(seed: int, cases: int) -> list[Group]:
    """Random moves in groups of SHARE."""
    starts = range(0, cases, SHARE)
    return [Group(f"random moves from {begin}", moves, (seed, begin, min(SHARE, cases - begin))) for begin in starts]
