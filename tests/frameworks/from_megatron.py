# SPDX-License-Identifier: Apache-2.0
"""Tables of Megatron-Core: rank grids, pipelines, vocabulary slices."""

from __future__ import annotations

import random
from itertools import permutations
from typing import Any

from megatron.core import parallel_state as ps
from megatron.core.parallel_state import RankGenerator
from megatron.core.tensor_parallel.utils import VocabUtility
from megatron.core.transformer import TransformerConfig
from megatron.core.transformer import multi_token_prediction as mtp
from megatron.core.transformer.transformer_block import TransformerBlock, get_num_layers_to_build
from megatron.core.transformer.transformer_layer import get_transformer_layer_offset

import fake_world
from fake_world import as_rank
from runs import padded_rows

Entry = dict[str, Any]
DIGITS = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ-_"
TRAINER_ORDERS = ("tp-cp-ep-dp-pp", "tp-cp-ep-pp-dp")

# ---- rank grids -------------------------------------------------------------------


def index_in_group(generator: RankGenerator, token: str) -> str:
    """Place of every rank in its group of a token."""
    place = {rank: i for group in generator.get_ranks(token) for i, rank in enumerate(group)}
    return "".join(DIGITS[place[rank]] for rank in range(len(place)))


def start_groups(entry: Entry) -> None:
    """Megatron's groups of the current rank."""
    parallel = entry["layout"]["parallel"]
    ps.initialize_model_parallel(
        tensor_model_parallel_size=parallel.get("tp", 1),
        pipeline_model_parallel_size=parallel.get("pp", 1),
        virtual_pipeline_model_parallel_size=parallel.get("vpp"),
        context_parallel_size=parallel.get("cp", 1),
        expert_model_parallel_size=parallel.get("ep", 1),
        expert_tensor_parallel_size=parallel.get("etp"),
        num_distributed_optimizer_instances=entry["layout"].get("shard", {}).get("instances", 1),
        order=entry["layout"].get("order", TRAINER_ORDERS[0]),
        create_gloo_process_groups=False,
    )


def refusal(entry: Entry, world: int) -> str | None:
    """How Megatron refuses to make its groups, if it does."""
    with as_rank(0, world):
        try:
            start_groups(entry)
        except (RuntimeError, AssertionError) as error:
            return type(error).__name__
        finally:
            ps.destroy_model_parallel()
    return None


def grid_want(entry: Entry, world: int) -> dict[str, str]:
    """Coordinates of all ranks on both grids."""
    p = {axis: entry["layout"]["parallel"].get(axis, 1) for axis in ("tp", "cp", "ep", "dp", "pp")}
    etp = entry["layout"]["parallel"].get("etp", p["tp"])
    order = entry["layout"].get("order", TRAINER_ORDERS[0])
    dense = RankGenerator(tp=p["tp"], ep=1, dp=p["dp"], pp=p["pp"], cp=p["cp"], order=order)
    edp = world // (etp * p["ep"] * p["pp"])
    expert = RankGenerator(tp=etp, ep=p["ep"], dp=edp, pp=p["pp"], cp=1, order=order)
    want = {token: index_in_group(dense, token) for token in ("tp", "cp", "dp", "pp")}
    want["dpcp"] = index_in_group(dense, "dp-cp")
    want |= {
        "ep": index_in_group(expert, "ep"),
        "etp": index_in_group(expert, "tp"),
        "edp": index_in_group(expert, "dp"),
    }
    return want


def random_grid(pick: random.Random) -> tuple[Entry, int]:
    """Sizes and an order; sizes of 1 are left out, and so are their axes sometimes."""
    sizes = {
        axis: pick.choice(choice)
        for axis, choice in {"tp": (1, 2, 4), "cp": (1, 1, 2), "dp": (1, 2, 3, 4), "pp": (1, 2, 3)}.items()
    }
    world = sizes["tp"] * sizes["cp"] * sizes["dp"] * sizes["pp"]
    inner = world // sizes["pp"]
    ep = pick.choice([n for n in (1, 2, 3, 4, 6, 8) if inner % n == 0])
    etp = pick.choice([n for n in (1, 2, 4) if inner // ep % n == 0])
    parallel = {axis: n for axis, n in {**sizes, "ep": ep}.items() if n > 1}
    if etp != sizes["tp"] or pick.random() < 0.3:
        parallel["etp"] = etp
    order = pick.choice([*TRAINER_ORDERS, "-".join(pick.choice(list(permutations(("tp", "cp", "ep", "dp", "pp")))))])
    layout: dict[str, Any] = {"parallel": parallel}
    if order != TRAINER_ORDERS[0]:
        layout["order"] = order
    return {"layout": layout}, world


def refused_entry(entry: Entry, world: int, error: str) -> Entry:
    """A grid that Megatron refuses. Where both numberings still agree on the stages, its coordinates are kept."""
    want = grid_want(entry, world)
    order = entry["layout"].get("order", TRAINER_ORDERS[0])
    p = {axis: entry["layout"]["parallel"].get(axis, 1) for axis in ("tp", "ep", "pp")}
    etp = entry["layout"]["parallel"].get("etp", p["tp"])
    edp = world // (etp * p["ep"] * p["pp"])
    expert = RankGenerator(tp=etp, ep=p["ep"], dp=edp, pp=p["pp"], cp=1, order=order)
    if index_in_group(expert, "pp") == want["pp"]:
        return {"want": want, "megatron": error}
    return {"refused": error}


def grids(pick: random.Random, total: int) -> list[Entry]:
    """Grids that Megatron takes, and one in eight that it refuses."""
    entries: list[Entry] = []
    refused = 0
    while len(entries) < total:
        entry, world = random_grid(pick)
        if world > 64 or "parallel" not in entry["layout"] or any(entry == {"layout": e["layout"]} for e in entries):
            continue
        error = refusal(entry, world)
        if error is None:
            entry["want"] = grid_want(entry, world)
        elif refused < total // 8:
            entry |= refused_entry(entry, world, error)
            refused += 1
        else:
            continue
        entries.append(entry)
    return entries


# ---- pipelines -----------------------------------------------------------------------


def pipeline_config(entry: Entry) -> TransformerConfig:
    """Megatron's own reading of the options, which may refuse them."""
    options = entry["layout"].get("pipeline", {})
    parallel = entry["layout"]["parallel"]
    return TransformerConfig(
        num_layers=entry["layers"], hidden_size=8, num_attention_heads=1,
        pipeline_model_parallel_size=parallel["pp"], pipeline_dtype=fake_world.torch.float32,
        virtual_pipeline_model_parallel_size=parallel.get("vpp"),
        num_layers_in_first_pipeline_stage=options.get("first"),
        num_layers_in_last_pipeline_stage=options.get("last"),
        account_for_embedding_in_pipeline_split=options.get("count_embedding", False),
        account_for_loss_in_pipeline_split=options.get("count_loss", False),
        pipeline_model_parallel_layout=options.get("layout"),
        mtp_num_layers=1 if entry.get("mtp") else None)  # fmt: skip


class Stub:
    """An object with some attributes, in place of a module that is too large to build."""

    def __init__(self, **attributes: Any) -> None:
        self.__dict__.update(attributes)


def has_final_norm(config: TransformerConfig, layers: range, last: bool) -> bool:
    """Megatron's rule for the final norm, asked of a block with these layers."""
    block = Stub(config=config, submodules=Stub(layer_norm=True), post_process=last, post_layer_norm=True)
    block.layers = [Stub(layer_number=i + 1) for i in layers]
    return bool(TransformerBlock.has_final_layernorm_in_this_stage(block))


def chunk_facts(config: TransformerConfig, stage: int, chunk: int, chunks: int) -> tuple[list[int], str]:
    """First layer and layers of a chunk, and which other modules it has (E, F, L, m)."""
    ps.set_pipeline_model_parallel_rank(stage)
    virtual = chunk if chunks > 1 else None
    n = get_num_layers_to_build(config, vp_stage=virtual, pp_rank=stage)
    at = get_transformer_layer_offset(config, vp_stage=virtual, pp_rank=stage)
    last = ps.is_pipeline_last_stage(ignore_virtual=False, vp_stage=virtual)
    flags = {
        "E": ps.is_pipeline_first_stage(ignore_virtual=False, vp_stage=virtual),
        "F": has_final_norm(config, range(at, at + n), last),
        "L": last,
        "m": mtp.mtp_on_this_rank(config, ignore_virtual=False, vp_stage=virtual),
    }
    return [at, n], "".join(letter for letter, here in flags.items() if here)


def pipeline_want(entry: Entry) -> list[list[Any]]:
    """Facts of all chunks, in the order in which data passes through them."""
    pp = entry["layout"]["parallel"]["pp"]
    config = pipeline_config(entry)
    chunks = config.virtual_pipeline_model_parallel_size or 1
    with as_rank(0, pp):
        try:
            ps.initialize_model_parallel(
                pipeline_model_parallel_size=pp, create_gloo_process_groups=False,
                virtual_pipeline_model_parallel_size=chunks if chunks > 1 else None)  # fmt: skip
            facts = [[*chunk_facts(config, s % pp, s // pp, chunks)] for s in range(pp * chunks)]
        finally:
            ps.destroy_model_parallel()
    if sum(n for (_, n), _ in facts) != entry["layers"]:
        raise ValueError("layers of the chunks do not add up to the model's")
    return facts


def random_layout_string(pick: random.Random, pp: int, with_mtp: bool) -> tuple[str, int]:
    """A layout text, and its number of layers."""
    vpp = pick.choice((1, 1, 2, 3))
    counts = [pick.choice((0, 1, 1, 2, 2, 3, 4)) for _ in range(pp * vpp)]
    parts = ["t" * n if pick.random() < 0.5 or n < 2 else f"t*{n}" for n in counts]
    parts[0] = "E" + parts[0]
    if with_mtp and pp > 1:
        holder = (vpp - 1) * pp + pick.randrange(1, pp)
        parts[holder] += pick.choice(("m", ",m"))
        for k in range(holder + 1, pp * vpp):
            counts[k], parts[k] = 0, ""
    elif with_mtp:
        parts[-1] += "m"
    parts[-1] += "L"
    return "|".join(parts), sum(counts)


def grouped_layout_string(pick: random.Random, pp: int) -> tuple[str, int]:
    """A layout text with repeated brackets."""
    vpp, each = pick.choice((1, 2)), pick.choice((1, 2, 3))
    if pp * vpp < 3:
        return random_layout_string(pick, pp, False)
    middle = pp * vpp - 2
    return f"E{'t' * each}|({'t' * each}|)*{middle}{'t' * each},L", each * pp * vpp


def random_pipeline(pick: random.Random) -> Entry:
    """Sizes and options; some of them do not fit together."""
    pp, vpp = pick.choice((2, 2, 3, 4, 5, 8)), pick.choice((1, 1, 2, 3, 4))
    with_mtp = pick.random() < 0.25
    parallel = {"pp": pp}
    kind = pick.choice(("even", "ends", "ends", "count", "text", "text", "brackets"))
    options: dict[str, Any] = {}
    if kind in ("text", "brackets"):
        with_mtp = with_mtp and kind == "text"
        text, layers = random_layout_string(pick, pp, with_mtp) if kind == "text" else grouped_layout_string(pick, pp)
        options["layout"] = text
    else:
        if vpp > 1:
            parallel["vpp"] = vpp
        layers = pp * vpp * pick.randrange(1, 4)
    if kind == "ends":
        ends = pick.choice((("first",), ("last",), ("first", "last")))
        options = {key: vpp * pick.randrange(1, 4) for key in ends}
        layers = sum(options.values()) + max(pp - len(ends), 0) * vpp * pick.randrange(1, 4)
    if kind == "count":
        options = {
            key: True for key in pick.choice((("count_embedding",), ("count_loss",), ("count_embedding", "count_loss")))
        }
        layers -= len(options)
    if pick.random() < 0.12:
        layers += pick.choice((-1, 1))
    entry: Entry = {"layers": layers, "layout": {"parallel": parallel}}
    if options:
        entry["layout"]["pipeline"] = options
    return entry | ({"mtp": True} if with_mtp else {})


def pipelines(pick: random.Random, total: int) -> list[Entry]:
    """Pipelines that Megatron takes, and one in six that it refuses."""
    entries: list[Entry] = []
    refused = 0
    while len(entries) < total:
        entry = random_pipeline(pick)
        if entry["layers"] < 1 or entry in [{k: e[k] for k in e if k not in ("want", "refused")} for e in entries]:
            continue
        try:
            entry["want"] = pipeline_want(entry)
        except (ValueError, AssertionError, ZeroDivisionError, RuntimeError) as error:
            if refused >= total // 6:
                continue
            entry["refused"] = type(error).__name__
            refused += 1
        entries.append(entry)
    return entries


# ---- vocabulary ----------------------------------------------------------------------


def vocabularies(pick: random.Random, total: int) -> list[Entry]:
    """Rows of each slice. The padded size is the trainer's rule, restated: the package has no trainer."""
    entries: list[Entry] = []
    for number in range(total):
        rows = pick.choice((50257, 32000, 128256, 151936, 7, pick.randrange(2, 200000)))
        tp, multiple = pick.choice((1, 2, 3, 4, 8, 16)), pick.choice((None, 1, 2, 64, 128, 1000))
        vocab = {} if multiple is None else {"divisible_by": multiple}
        if number % 5 == 4:
            vocab = {"padded": tp * pick.randrange(-(-rows // tp), -(-rows // tp) + 300)}
        size = padded_rows(rows, tp, vocab)
        slices = [VocabUtility.vocab_range_from_global_vocab_size(size, t, tp) for t in range(tp)]
        entries.append({"rows": rows, "layout": {"parallel": {"tp": tp}, **({"vocab": vocab} if vocab else {})},
                        "want": [size, [list(s) for s in slices]]})  # fmt: skip
    return entries
