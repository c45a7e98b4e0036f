# SPDX-License-Identifier: Apache-2.0
"""Layouts on the command line: names and clusters, states that are dropped, and what `verify` says of other layouts.

    SHUNT_BIN=build/planner/shunt python3 test_layouts.py
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Callable
from pathlib import Path

SHUNT = os.environ.get("SHUNT_BIN", "build/planner/shunt")
OLD, NEW = "gpt2-tp4-pp2", "gpt2-tp2-pp4"  # built-in layouts
MASTERLESS = "{param: bf16}"


class Room:
    """A folder with documents and plans."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def layout(self, name: str, parallel: str = "tp: 2, dp: 1", **more: str) -> Path:
        """Write a layout of GPT-2."""
        path = self.folder / f"{name}.yaml"
        fields = {"kind": "layout", "name": name, "model": "gpt2-124m", "parallel": f"{{{parallel}}}"} | more
        path.write_text("".join(f"{key}: {value}\n" for key, value in fields.items()), encoding="utf-8")
        return path

    def shunt(self, *words: object, code: int = 0) -> subprocess.CompletedProcess[str]:
        """Run shunt, which must end with `code`."""
        command = [SHUNT, *map(str, words)]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
        assert done.returncode == code, f"{command}: exit {done.returncode}, want {code}: {done.stdout} {done.stderr}"
        return done

    def plan(self, old: object, new: object, *words: object, code: int = 0) -> subprocess.CompletedProcess[str]:
        """Make the plan `self.made`."""
        return self.shunt("plan", old, new, "-o", self.made, *words, code=code)

    @property
    def made(self) -> Path:
        return self.folder / "made.plan"


def has(text: str, *parts: str) -> None:
    """All parts are in the text."""
    missing = [part for part in parts if part not in text]
    assert not missing, f"no {missing} in: {text}"


def check_built_in(room: Room) -> None:
    """A name that is no file is a built-in's, for every verb that takes layouts; a path is not."""
    has(room.plan(OLD, NEW).stdout, f"move     {OLD} -> {NEW} of gpt2-124m", "\ncluster  local\n")
    has(room.shunt("verify", room.made, OLD, NEW).stdout, "both sides are what the layouts say")
    has(room.shunt("layout", OLD).stdout, f"layout      {OLD} (")
    has(room.plan(OLD[:-1], NEW, code=3).stderr, f'found no document for "{OLD[:-1]}" (did you mean `{OLD}`?)')
    room.plan(f"./{OLD}", NEW, code=3)
    room.plan(f"{OLD}.yaml", NEW, code=3)


def check_cluster(room: Room) -> None:
    """One cluster for a plan: what both say, what one says, what the option says, or the default, which is named."""
    one, two = room.layout("one", cluster="h100"), room.layout("two", "tp: 1, dp: 2", cluster="a100")
    none = room.layout("none", "tp: 1, dp: 2")
    has(room.plan(one, two, code=1).stderr, "two.yaml:5:10: cluster: found a100 (", "expected the cluster of", ", h100 (",
        "or --cluster")
    has(room.plan(one, two, "--cluster", "b200").stdout, "\ncluster  b200\n")
    room.shunt("verify", room.made, one, two)
    has(room.plan(one, none).stdout, "\ncluster  h100\n")
    has(room.plan(none, one).stdout, "\ncluster  h100\n")
    has(room.plan(none, none).stdout, "\ncluster  local (the layouts name none)\n", ", 1 round (")
    copy = Path(__file__).parents[3] / "plans" / "clusters" / "h100.yaml"
    (room.folder / "same.yaml").write_text(copy.read_text(encoding="utf-8"), encoding="utf-8")
    room.plan(one, room.layout("three", cluster="same.yaml"))


def check_dropped(room: Room) -> None:
    """States that the new side does not keep are named."""
    old = room.layout("old", "tp: 2, pp: 2, dp: 1")
    done = room.plan(old, room.layout("new", "tp: 4, dp: 1", state=MASTERLESS))
    has(done.stdout, "\nstates   master, exp_avg, exp_avg_sq are dropped, ", ": the new layout does not keep them\n")
    report = json.loads(room.plan(old, room.folder / "new.yaml", "--json").stdout)
    assert [state["state"] for state in report["dropped_states"]] == ["master", "exp_avg", "exp_avg_sq"], report
    one = room.layout("one", "tp: 4, dp: 1", state="{param: bf16, master: fp32, exp_avg: fp32}")
    has(room.plan(old, one).stdout, "\nstates   exp_avg_sq is dropped, ", ": the new layout does not keep it\n")
    assert "states " not in room.plan(old, room.layout("all", "tp: 4, dp: 1")).stdout
    assert json.loads(room.shunt("inspect", room.made, "--json").stdout)["dropped_states"] == []


def check_states(room: Room) -> None:
    """A state that only the new side has: where that is said, or that it is a default."""
    bare, full = room.layout("bare", state=MASTERLESS), room.layout("full", "tp: 1, dp: 2")
    has(room.plan(bare, full, code=1).stderr, "full.yaml:1:1: state.master: found it in",
        "a layout without `state` keeps param, master, exp_avg and exp_avg_sq")
    made = room.layout("made", state="{param: bf16, master: from-param}")
    has(room.plan(full, made, code=1).stderr, "made.yaml:5:8: state.master: found from-param, expected `master: fp32`")
    room.plan(bare, made)


def check_others(room: Room) -> None:
    """What `verify` says of layouts that the plan was not made from."""
    room.plan(OLD, NEW)
    has(room.shunt("verify", room.made, NEW, OLD, code=1).stderr,
        f"layout `{NEW}` is not the plan's old layout `{OLD}`; are the two swapped?")
    has(room.shunt("verify", room.made, OLD, "gpt2-tp1-dp8", code=1).stderr,
        f"layout `gpt2-tp1-dp8` is not the plan's new layout `{NEW}`: ")
    copy = (Path(__file__).parents[3] / "plans" / "layouts" / f"{NEW}.yaml").read_text(encoding="utf-8")
    other = room.folder / "renamed.yaml"
    other.write_text(copy.replace(f"name: {NEW}", "name: renamed"), encoding="utf-8")
    room.shunt("verify", room.made, OLD, other)


def check_kinds(room: Room) -> None:
    """Buffers that lie as the plan says, but are something else."""
    old = room.layout("old")
    keep = "master: fp32"
    room.plan(old, room.layout("new", "tp: 1, dp: 2", state=f"{{param: bf16, {keep}}}"))
    bf16 = "the plan has bf16 on the device, the layout "
    for state, said in (
        (f"{{param: fp32, {keep}}}", bf16 + "fp32 on the device made from param in bf16"),
        (f"{{param: from-master, {keep}}}", bf16 + "bf16 on the device made from master in fp32"),
        (f"{{param: {{dtype: bf16, tier: host}}, {keep}}}", bf16 + "bf16 on the host"),
        (MASTERLESS, "master/embed.weight: the plan has it, the layout does not"),
        (f"{{param: bf16, {keep}, exp_avg: fp32}}", "exp_avg/embed.weight: the layout has it, the plan does not"),
    ):
        new = room.layout("new", "tp: 1, dp: 2", state=state)
        has(room.shunt("verify", room.made, old, new, code=1).stderr, "new.yaml: rank 0: ", said)


def check_usage(room: Room) -> None:
    """Words of the command that help, or are refused."""
    bad = room.folder / "bad.yaml"
    bad.write_text("kind: layout\nfoo: 1\n", encoding="utf-8")
    assert room.plan(bad, bad, code=1).stderr.count("foo: found an unknown key") == 1
    has(room.shunt("-V").stdout, "shunt ", "(plan format ")
    assert "nearest" not in room.shunt("xyz", code=2).stderr
    has(room.shunt("verfy", code=2).stderr, 'the nearest is "verify"')
    has(room.shunt("lay", code=2).stderr, 'the nearest is "layout"')
    for words in (("--json",), ("--rank", "1"), ("--all-ranks",), ("--rank", "1", "--json")):
        has(room.shunt("layout", OLD, "--explicit", *words, code=2).stderr, "found --explicit beside --")
    has(room.shunt("layout", OLD, "--rank", 1, "--all-ranks", code=2).stderr, "found --rank beside --all-ranks")


def check_all_ranks(room: Room) -> None:
    """The maps of all ranks are those of each."""
    one = [room.shunt("layout", OLD, "--rank", rank) for rank in range(8)]
    assert room.shunt("layout", OLD, "--all-ranks").stdout == "\n".join(done.stdout for done in one)
    every = json.loads(room.shunt("layout", OLD, "--all-ranks", "--json").stdout)["ranks"]
    assert every == [json.loads(room.shunt("layout", OLD, "--rank", rank, "--json").stdout) for rank in range(8)]


def check_least_cap(room: Room) -> None:
    """Where nothing moves between devices, the least cap is met too, and what is a few bytes above it."""
    old, new = "gpt2-tp1-dp8", "gpt2-tp2-pp2-dp2"
    least = json.loads(room.plan(old, new, "--json").stdout)["memory"]["least_cap"]
    for more in (0, 1, 30, 31):
        memory = json.loads(room.plan(old, new, "--json", "--cap", f"{least + more} B").stdout)["memory"]
        assert memory["peak"] <= least + more, memory


def main() -> int:
    """Run all checks."""
    checks: list[Callable[[Room], None]] = [check_built_in, check_cluster, check_dropped, check_states, check_others,
                                            check_kinds, check_usage, check_all_ranks, check_least_cap]
    print(f"TAP version 13\n1..{len(checks)}", flush=True)
    failed = 0
    for number, check in enumerate(checks, 1):
        name = check.__name__.removeprefix("check_").replace("_", " ")
        with tempfile.TemporaryDirectory() as folder:
            try:
                check(Room(Path(folder)))
                print(f"ok {number} - {name}", flush=True)
            except Exception:  # whatever it is, the test fails and the others go on
                failed += 1
                lines = "\n".join("# " + line for line in traceback.format_exc().splitlines())
                print(f"{lines}\nnot ok {number} - {name}", flush=True)
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
