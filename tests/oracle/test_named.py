# SPDX-License-Identifier: Apache-2.0
"""Moves with known right values: public bug cases (H numbers) and worlds of awkward sizes."""

from __future__ import annotations

import copy
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import numpy as np
from safetensors import safe_open

import programs
import tensorfile
from layout import Cluster, Layout, Model, Scalar, Tensor
from moves import Move, compare_side, execute, file_name, sides, staging_options, store_side
from programs import OracleError
from replay import Replay
from tap import Group
from test_ops import check_new, old_buffers, put_boxes, replay_plan
from values import Space

ADAM = (("param", "bf16"), ("master", "fp32"), ("exp_avg", "fp32"), ("exp_avg_sq", "fp32"))
CLUSTER = Cluster(4)

MLP = (
    Tensor("layer.{i}.norm.weight", (6,)),
    Tensor("layer.{i}.fc1.weight", (60, 6), cut_dim=0),
    Tensor("layer.{i}.fc2.weight", (6, 60), cut_dim=1),
)
TIED = (
    Tensor("embed.weight", (37, 6), stage="first", cut_dim=0, pad_vocab=True, tied=True),
    Tensor("final_norm.weight", (6,), stage="last"),
)


@contextmanager
def moved(model: Model, first: Layout, second: Layout, staging: int | None = None) -> Iterator[Move]:
    """A planned move in a temporary folder; a failure inside reports the documents."""
    with tempfile.TemporaryDirectory(prefix="shunt-oracle-") as name:
        move = Move(Path(name), model, (first, second), CLUSTER).write()
        try:
            yield move.make(*staging_options(move, staging))
        except OracleError as error:
            raise OracleError(f"{error}\n{move.described()}") from None


def both_ways(model: Model, first: Layout, second: Layout, staging: int | None = None) -> None:
    """Execute and replay a move."""
    with moved(model, first, second, staging) as move:
        execute(move, "--transport", "loopback")
        replay_plan(move)


def chain(model: Model, layouts: list[Layout], folder: Path) -> list[Path]:
    """Move through all layouts, each side loaded from the files of the one before; returns the folders."""
    space = Space(model, layouts[0])
    folders = [folder / "side-0"]
    store_side(folders[0], layouts[0], sides(space, layouts[0], True))
    for number in range(1, len(layouts)):
        work = folder / f"move-{number}"
        work.mkdir()
        move = Move(work, model, (layouts[number - 1], layouts[number]), CLUSTER).write().make()
        folders.append(folder / f"side-{number}")
        programs.succeed(
            "shunt-exec", move.plan, "--transport", "loopback", "--load", folders[-2], "--store", folders[-1]
        )
        compare_side(folders[-1], layouts[number], sides(space, layouts[number], False))
    return folders


def odd_vocabulary() -> str:
    """H9: 50257 rows, no rounding, tp 1 -> 2 -> 1."""
    model = Model(1, (Tensor("word_embeddings.weight", (50257, 128), stage="first", cut_dim=0, pad_vocab=True),))
    one, two = (Layout(tp=tp, divisible_by=1, state=ADAM) for tp in (1, 2))
    with tempfile.TemporaryDirectory(prefix="shunt-oracle-") as name:
        folders = chain(model, [one, two, one], Path(name))
        start, back = (tensorfile.read(folders[i] / file_name(0)) for i in (0, 2))
        halves = [tensorfile.read(folders[1] / file_name(rank)) for rank in range(2)]
        for state, _ in ADAM:
            key = f"{state}/word_embeddings.weight"
            whole = start[key][1]
            assert whole.shape == (50257, 128)
            assert [half[key][1].shape[0] for half in halves] == [25129, 25129], key
            assert np.array_equal(halves[0][key][1], whole[:25129]), key
            assert np.array_equal(halves[1][key][1][:-1], whole[25129:]), key
            assert not halves[1][key][1][-1].any(), f"{key}: pad row is not zero"
            assert np.array_equal(back[key][1], whole), key
    return "25129 rows on each rank, one zero pad row, back bit-equal"


def rounded_vocabulary() -> str:
    """H9: the same with rows rounded up to multiples of 128 x tp."""
    model = Model(1, (Tensor("word_embeddings.weight", (50257, 2), stage="first", cut_dim=0, pad_vocab=True),))
    degrees = {1: 50304, 2: 50432, 8: 51200}
    layouts = [Layout(tp=tp, divisible_by=128, state=ADAM) for tp in (1, 2, 8, 1)]
    with tempfile.TemporaryDirectory(prefix="shunt-oracle-") as name:
        folders = chain(model, layouts, Path(name))
        for folder, layout in zip(folders, layouts):
            files = [tensorfile.read(folder / file_name(rank)) for rank in range(layout.tp)]
            rows = sum(file["param/word_embeddings.weight"][1].shape[0] for file in files)
            assert rows == degrees[layout.tp], (layout.tp, rows)
    return "padded rows 50304, 50432, 51200"


def global_layers() -> None:
    """H14: four layers, pp 1 dp 2 -> pp 2 dp 1 -> pp 1."""
    model = Model(4, MLP)
    layouts = [Layout(dp=2, state=ADAM), Layout(pp=2, state=ADAM), Layout(state=ADAM)]
    with tempfile.TemporaryDirectory(prefix="shunt-oracle-") as name:
        folders = chain(model, layouts, Path(name))
        for rank, numbers in ((0, (0, 1)), (1, (2, 3))):
            names = set(tensorfile.read(folders[1] / file_name(rank)))
            want = {f"{s}/{t.name.replace('{i}', str(i))}" for s, _ in ADAM for t in MLP for i in numbers}
            assert names == want, sorted(names ^ want)


def many_stages() -> None:
    """H11: 80 layers over 16 stages hold every layer once."""
    model = Model(80, (Tensor("layer.{i}.norm.weight", (3,)),))
    with moved(model, Layout(pp=8), Layout(pp=16)) as move:
        execute(move, "--transport", "loopback")
        seen: list[str] = []
        for rank in range(16):
            names = list(tensorfile.read(move.folder / "new" / file_name(rank)))
            assert len(names) == 5, names
            seen += names
        assert len(set(seen)) == 80, len(set(seen))


def tied_embedding() -> None:
    """H5 and one or two holders: pp 2 -> 1 -> 4, always on the first and the last stage alone."""
    model = Model(4, MLP + TIED)
    layouts = [Layout(pp=pp, divisible_by=4, state=ADAM) for pp in (2, 1, 4)]
    with tempfile.TemporaryDirectory(prefix="shunt-oracle-") as name:
        folders = chain(model, layouts, Path(name))
        for folder, layout in zip(folders, layouts):
            files = [tensorfile.read(folder / file_name(rank)) for rank in range(layout.pp)]
            for state, _ in ADAM:
                key = f"{state}/embed.weight"
                holders = [rank for rank, file in enumerate(files) if key in file]
                assert holders == sorted({0, layout.pp - 1}), (key, holders)
                first, last = (files[rank][key][1][:37] for rank in (holders[0], holders[-1]))
                assert np.array_equal(first, last), key


def small_buffer_keeps_bits() -> None:
    """H6: an fp32 buffer beside bf16 weights keeps its 256 distinct values."""
    bias = Tensor("layer.{i}.router.expert_bias", (256,), kind="buffer", dtype="fp32")
    model = Model(2, MLP + (bias,))
    values = np.linspace(6.817, 7.063, 256, dtype=np.float32)
    with moved(model, Layout(tp=4, state=ADAM), Layout(tp=2, pp=2, state=ADAM)) as move:
        old, new = move.folder / "old", move.folder / "new"
        store_side(old, move.layouts[0], sides(Space(model, move.layouts[0]), move.layouts[0], True))
        for path in sorted(old.iterdir()):
            arrays = tensorfile.read(path)
            arrays["buffer/layer.1.router.expert_bias"] = ("F32", values.view(np.uint32))
            tensorfile.write(path, arrays)
        programs.succeed("shunt-exec", move.plan, "--transport", "loopback", "--load", old, "--store", new)
        got = tensorfile.read(new / file_name(3))["buffer/layer.1.router.expert_bias"]
        assert got[0] == "F32" and np.array_equal(got[1].view(np.float32), values) and len(np.unique(got[1])) == 256


def many_small_tensors() -> str:
    """H24: 3000 tensors of a few bytes; small pieces share messages."""
    tensors = (Tensor("layer.{i}.a", (4,), cut_dim=0), Tensor("layer.{i}.b", (2, 1), cut_dim=0))
    model = Model(1500, tensors)
    with moved(model, Layout(), Layout(tp=2)) as move:
        execute(move, "--transport", "loopback")
        most = move.report["schedule"]["max_group_messages"]
        assert most <= 2048, most
        return f"at most {most} messages in a group"


def library_reads_files() -> None:
    """The safetensors package reads what the executor stores, and sees the same."""
    model = Model(2, MLP, (Scalar("step"), Scalar("scale", "fp32", 3)))
    state = (("param", "fp32"), ("exp_avg", "fp16"))
    with moved(model, Layout(tp=2, state=state), Layout(pp=2, state=state)) as move:
        execute(move, "--transport", "loopback")
        for path in sorted((move.folder / "new").glob("rank-*")):
            own = tensorfile.read(path)
            with safe_open(path, framework="numpy") as file:
                assert set(file.keys()) == set(own)
                for key in file.keys():
                    array = file.get_tensor(key)
                    assert array.shape == own[key][1].shape and array.tobytes() == own[key][1].tobytes(), key


WORLDS: dict[str, tuple[Layout, Layout]] = {
    "3 ranks, tp to pp": (Layout(tp=3), Layout(pp=3)),
    "5 ranks, tp to pp": (Layout(tp=5), Layout(pp=5)),
    "6 ranks, tp3 pp2 to tp2 dp3": (Layout(tp=3, pp=2), Layout(tp=2, dp=3)),
    "7 ranks, dp to pp": (Layout(dp=7), Layout(pp=7, first=54)),
    "12 ranks, tp6 dp2 to tp2 cp2 pp3": (Layout(tp=6, dp=2), Layout(tp=2, cp=2, pp=3)),
    "shrink to other devices": (Layout(tp=2, dp=2, pp=2), Layout(tp=4, devices=(8, 9, 10, 11))),
    "shrink inside": (Layout(tp=3, dp=4), Layout(tp=5)),
    "growth from 2 to 12 ranks": (Layout(pp=2), Layout(tp=3, dp=2, pp=2)),
    "growth from 1 to 7 ranks, devices 5 to 11": (Layout(), Layout(dp=7, devices=tuple(range(5, 12)))),
    "nothing changes": (Layout(tp=2, pp=2), Layout(tp=2, pp=2)),
    "only the ranks' order changes": (
        Layout(tp=2, dp=2, pp=2),
        Layout(tp=2, dp=2, pp=2, order=("pp", "tp", "dp")),
    ),
}


def world(name: str, staging: int | None) -> None:
    """One row of the table of worlds."""
    model = Model(60, MLP + TIED, (Scalar("step"),))
    first, second = (replace(layout, state=ADAM[:2], divisible_by=3) for layout in WORLDS[name])
    both_ways(model, first, second, staging)


def same_bytes() -> None:
    """The same documents give the same plan, byte for byte."""
    model = Model(6, MLP + TIED)
    with moved(model, Layout(tp=2, pp=3, state=ADAM), Layout(tp=3, dp=2, state=ADAM)) as move:
        first = move.plan.read_bytes()
        move.make()
        assert move.plan.read_bytes() == first


def replay_notices() -> str:
    """The ops replay fails when any single op is left out, or reads from one element further on."""
    model = Model(2, MLP + TIED)
    noticed = 0
    with moved(model, Layout(tp=2, divisible_by=4), Layout(tp=3, divisible_by=4), 256) as move:
        ops, lines = programs.lines(move.plan, "--ops"), programs.lines(move.plan, "--buffers")
        space = Space(model, move.layouts[0])
        old, new = (sides(space, layout, False) for layout in move.layouts)
        for broken in broken_ops(ops):
            replay = Replay(broken)
            old_buffers(replay, lines, move.layouts[0], old)
            put_boxes(replay, lines, space)
            try:
                replay.run(False)
                check_new(replay, lines, move.layouts[1], new)
            except OracleError:
                noticed += 1
                continue
            raise OracleError("a broken list of ops passed the replay")
    return f"{noticed} broken lists"


def broken_ops(ops: list[dict[str, object]]) -> Iterator[list[dict[str, object]]]:
    """Copies of the list, each with one fault."""
    step = max(1, len(ops) // 60)
    for index in range(0, len(ops), step):
        yield ops[:index] + ops[index + 1 :]
    for index, op in enumerate(ops):
        if op["op"] in ("copy", "pack") and index % step == 0:
            changed = copy.deepcopy(ops)
            changed[index]["src"]["offset"] += changed[index]["elem_bytes"]  # type: ignore[index]
            yield changed


def groups() -> list[Group]:
    """Groups of this file."""
    named = [
        ("H5, tied embedding: one holder or two", tied_embedding),
        ("H6, fp32 buffer among bf16 weights", small_buffer_keeps_bits),
        ("H9, 50257 rows over tp 1, 2, 1", odd_vocabulary),
        ("H9, rows rounded to 128 x tp", rounded_vocabulary),
        ("H11, 80 layers over 16 stages", many_stages),
        ("H14, layer numbers are global", global_layers),
        ("H24, many small tensors", many_small_tensors),
        ("stored files read by the safetensors package", library_reads_files),
        ("same input, same plan", same_bytes),
        ("the replay notices broken ops", replay_notices),
    ]
    result = [Group(name, check) for name, check in named]
    for name in WORLDS:
        result.append(Group(f"world: {name}", world, (name, None)))
        result.append(Group(f"world: {name}, least staging", world, (name, 64)))
    return result
