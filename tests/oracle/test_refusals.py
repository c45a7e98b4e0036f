# SPDX-License-Identifier: Apache-2.0
"""What must be refused, and what the message must say."""

from __future__ import annotations

import random
import re
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import programs
import tensorfile
from documents import dump, layout_document, model_document
from layout import Cluster, Layout, Model, Tensor
from moves import Move, file_name, sides, staging_options, store_side
from tap import Group
from test_named import ADAM, CLUSTER, MLP, TIED
from values import Space

MODEL = Model(10, MLP + TIED, heads=6, kv_heads=6)
PLAIN = Layout(state=ADAM, divisible_by=1)


@dataclass(frozen=True)
class Refusal:
    """A move that must be refused with exit 1, and words that the message must contain."""

    name: str
    first: Layout
    second: Layout
    words: tuple[str, ...]
    model: Model = MODEL


WIDE = Model(10, (Tensor("layer.{i}.fc1.weight", (10, 3), cut_dim=0),))
FUSED = Model(10, (Tensor("layer.{i}.gate_up.weight", (12, 3), cut_dim=0, segments=(4, 8)),))

REFUSALS = (
    Refusal("tp does not divide the heads", PLAIN, replace(PLAIN, tp=4), ("heads", "6", "4")),
    Refusal(
        "kv heads and tp do not fit",
        PLAIN,
        replace(PLAIN, tp=3),
        ("kv_heads", "2", "3"),
        replace(MODEL, kv_heads=2),
    ),
    Refusal("layers over stages leave a rest", PLAIN, replace(PLAIN, pp=4), ("layers", "10", "4")),
    Refusal(
        "H11: 80 layers over 3 stages",
        PLAIN,
        replace(PLAIN, pp=3),
        ("layers", "80", "3"),
        Model(80, MLP),
    ),
    Refusal("uneven pipeline leaves a rest", PLAIN, replace(PLAIN, pp=3, first=5), ("layers", "10", "5")),
    Refusal("tp does not divide a cut dimension", PLAIN, replace(PLAIN, tp=4), ("fc1.weight", "10", "4"), WIDE),
    Refusal("tp divides the sum but not a segment", PLAIN, replace(PLAIN, tp=3), ("gate_up.weight", "4", "3"), FUSED),
    Refusal("padded vocabulary below the rows", PLAIN, replace(PLAIN, padded=36), ("padded", "36", "37")),
    Refusal("padded vocabulary that tp does not divide", PLAIN, replace(PLAIN, tp=2, padded=41), ("41", "2")),
    Refusal("a state is missing on the old side", replace(PLAIN, state=ADAM[:3]), PLAIN, ("exp_avg_sq",)),
    Refusal(
        "a dtype differs",
        PLAIN,
        replace(PLAIN, state=(("param", "bf16"), ("master", "fp16"), *ADAM[2:])),
        ("state.master", "fp32", "fp16", "not supported"),
    ),
    Refusal(
        "weights from a master that is not there",
        replace(PLAIN, state=ADAM[:1]),
        replace(PLAIN, state=(("param", "from-master"),)),
        ("state.param", "from-master", "no master"),
    ),
    Refusal(
        "weights from the remainders of a master",
        replace(PLAIN, state=(("param", "bf16"), ("master", "i16"))),
        replace(PLAIN, state=(("param", "from-master"),)),
        ("state.param", "from-master", "i16", "not supported"),
    ),
    Refusal(
        "weights from a master that is no longer fp32",
        PLAIN,
        replace(PLAIN, state=(("param", "from-master"), ("master", "bf16"))),
        ("state.master", "from-master", "bf16"),
    ),
    Refusal("two ranks on one device", PLAIN, replace(PLAIN, dp=2, devices=(1, 1)), ("devices",)),
    Refusal(
        "devices for another number of ranks",
        PLAIN,
        replace(PLAIN, dp=2, devices=(1, 2, 3)),
        ("devices", "3", "2"),
    ),
)


def refusal(case: Refusal) -> None:
    """One row of the table."""
    with tempfile.TemporaryDirectory(prefix="shunt-oracle-") as name:
        move = Move(Path(name), case.model, (case.first, case.second), CLUSTER).write()
        message = programs.refused("shunt", "plan", *move.paths, "-o", move.plan)
        for word in case.words:
            assert word in message, f"no {word!r} in: {message}"
        assert not move.plan.exists(), "a refused plan leaves a file"


def other_model() -> None:
    """Two layouts of different models."""
    with tempfile.TemporaryDirectory(prefix="shunt-oracle-") as name:
        move = Move(Path(name), MODEL, (PLAIN, replace(PLAIN, tp=2)), CLUSTER).write()
        dump(move.folder / "other.yaml", model_document(replace(WIDE, name="other")))
        dump(move.paths[1], layout_document(move.layouts[1], "other.yaml", "cluster.yaml"))
        message = programs.refused("shunt", "plan", *move.paths, "-o", move.plan)
        assert "model" in message, message


def least_cap() -> str:
    """The least cap succeeds; one byte less is refused, naming rank, missing bytes and the least cap."""
    pairs = ((replace(PLAIN, tp=2), replace(PLAIN, pp=2)), (replace(PLAIN, dp=3), replace(PLAIN, tp=3)))
    checked = [one_least_cap(first, second, staging) for staging in (64, 1024) for first, second in pairs]
    return "least caps " + ", ".join(str(value) for value in checked)


def one_least_cap(first: Layout, second: Layout, staging: int) -> int:
    """One pair of the check above; returns the least cap."""
    with tempfile.TemporaryDirectory(prefix="shunt-oracle-") as name:
        move = Move(Path(name), MODEL, (first, second), Cluster(2, reserve=500, transport_buffers=300)).write()
        options = staging_options(move, staging)
        move.make(*options)
        least = move.report["memory"]["least_cap"]
        move.make(*options, "--cap", f"{least} B")
        assert move.report["memory"]["peak"] <= least, move.report["memory"]
        refuse_below(move, least, 1, options)
        refuse_below(move, least, 100, options)
        return least


def refuse_below(move: Move, least: int, missing: int, options: list[str]) -> None:
    """A cap that misses the least one by `missing` bytes."""
    cap = ("--cap", f"{least - missing} B")
    message = programs.refused("shunt", "plan", *move.paths, "-o", move.plan, *options, *cap)
    assert re.search(r"rank \d+", message), f"no rank in: {message}"
    numbers = {int(text) for text in re.findall(r"\d+", message)}
    assert {least, missing} <= numbers, f"want {missing} missing and the least cap {least}: {message}"


def damaged_plans() -> str:
    """A plan with any byte changed, or cut short, is refused by verify and by the executor."""
    generator = random.Random(20)
    with tempfile.TemporaryDirectory(prefix="shunt-oracle-") as name:
        move = Move(Path(name), MODEL, (replace(PLAIN, tp=2), replace(PLAIN, pp=2)), CLUSTER).write().make()
        good = move.plan.read_bytes()
        damaged = [flip(good, generator.randrange(len(good)), 1 << generator.randrange(8)) for _ in range(60)]
        damaged += [good[: generator.randrange(len(good))] for _ in range(20)] + [b"", good + b"\0"]
        bad = move.folder / "bad.plan"
        for content in damaged:
            bad.write_bytes(content)
            programs.refused("shunt", "verify", bad)
        for content in damaged[::8]:
            bad.write_bytes(content)
            programs.refused("shunt-exec", bad, "--transport", "loopback", "--fill", "1", "--check")
        return f"{len(damaged)} damaged plans"


def flip(content: bytes, index: int, bits: int) -> bytes:
    """A copy with some bits of one byte changed."""
    return content[:index] + bytes([content[index] ^ bits]) + content[index + 1 :]


def other_documents() -> None:
    """verify against documents that the plan was not made from."""
    with tempfile.TemporaryDirectory(prefix="shunt-oracle-") as name:
        move = Move(Path(name), MODEL, (replace(PLAIN, tp=2), replace(PLAIN, pp=2)), CLUSTER).write().make()
        programs.refused("shunt", "verify", move.plan, move.paths[1], move.paths[0])


def wrong_files() -> None:
    """Files to load that lack an entry, or have another shape or dtype; a missing file is exit 3."""
    with tempfile.TemporaryDirectory(prefix="shunt-oracle-") as name:
        move = Move(Path(name), MODEL, (replace(PLAIN, tp=2), replace(PLAIN, pp=2)), CLUSTER).write().make()
        old = move.folder / "old"
        space = Space(MODEL, move.layouts[0])
        key = "master/layer.3.fc1.weight"
        for change in (drop, reshape, retype):
            store_side(old, move.layouts[0], sides(space, move.layouts[0], True))
            path = old / file_name(1)
            arrays = tensorfile.read(path)
            change(arrays, key)
            tensorfile.write(path, arrays)
            message = load(move, old, 1)
            assert key in message, f"no {key} in: {message}"
        (old / file_name(1)).unlink()
        assert file_name(1) in load(move, old, 3)


def load(move: Move, old: Path, code: int) -> str:
    """Run the executor over files that it must refuse."""
    arguments = ("--transport", "loopback", "--load", old, "--store", move.folder / "new")
    return programs.refused("shunt-exec", move.plan, *arguments, code=code)


def drop(arrays: tensorfile.Arrays, key: str) -> None:
    """Leave an entry out."""
    del arrays[key]


def reshape(arrays: tensorfile.Arrays, key: str) -> None:
    """The same bytes in another shape."""
    dtype, array = arrays[key]
    arrays[key] = (dtype, array.reshape(array.shape[::-1]))


def retype(arrays: tensorfile.Arrays, key: str) -> None:
    """The same bytes under another dtype."""
    _, array = arrays[key]
    arrays[key] = ("I32", array)


NUMBERS = {  # H17: read by one documented rule or refused, never guessed
    "tp: 010": "tp: 010",
    "pp: 08": "pp: 08",
    "dp: -1": "dp: -1",
    "dp above 2^64": "dp: 18446744073709551617",
    "tp: 2.5": "tp: 2.5",
    "tp: 1:30": "tp: 1:30",
    "tp: yes": "tp: yes",
    "tp: 0": "tp: 0",
}


def odd_number(text: str) -> None:
    """A number that is not a plain positive integer is refused with file and line."""
    with tempfile.TemporaryDirectory(prefix="shunt-oracle-") as name:
        move = Move(Path(name), MODEL, (PLAIN, PLAIN), CLUSTER).write()
        document = move.paths[1].read_text()
        assert "parallel: {dp: 1}" in document, document
        move.paths[1].write_text(document.replace("parallel: {dp: 1}", f"parallel:\n  {text}"))
        line = 1 + move.paths[1].read_text().splitlines().index(f"  {text}")
        message = programs.refused("shunt", "plan", *move.paths, "-o", move.plan)
        assert f"layout-1.yaml:{line}:" in message, f"no layout-1.yaml:{line}: in: {message}"


def groups() -> list[Group]:
    """Groups of this file."""
    named: list[tuple[str, Callable[[], str | None]]] = [
        ("another model", other_model),
        ("a cap below the least cap", least_cap),
        ("damaged plans", damaged_plans),
        ("verify with the documents swapped", other_documents),
        ("tensor files that do not fit", wrong_files),
    ]
    result = [Group(f"refused: {case.name}", refusal, (case,)) for case in REFUSALS]
    result += [Group(f"refused: H17, {name}", odd_number, (text,)) for name, text in NUMBERS.items()]
    return result + [Group(f"refused: {name}", check) for name, check in named]
