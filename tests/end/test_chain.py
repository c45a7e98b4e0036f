#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Moves one after the other, from documents to files: what one plan leaves behind and the next one finds.

usage: test_chain.py BUILD_DIR   (TAP on stdout)
"""
from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
import traceback
from pathlib import Path

BUILD = Path(sys.argv[1])
SHUNT, EXEC = BUILD / "planner" / "shunt", BUILD / "executor" / "shunt-exec"

MODEL = """kind: model
name: small
layers: 2
heads: 4
tensors:
  - {name: "layer.{i}.fc.weight", shape: [8, 4], cut: {dim: 0}}
scalars:
  - {name: step, dtype: i64}
other_state:
  - {name: rng.mp, bytes: 9000001, policy: copy-if-same, per: [pp, tp], otherwise: reseed}
"""
LAYOUTS = {"a": (2, 1), "b": (2, 2), "c": (4, 1)}  # tp, dp: rng.mp goes from a to b, and not from b to c


def run(*words: object, code: int = 0) -> str:
    """stdout and stderr of a command that must end with that code."""
    done = subprocess.run([str(word) for word in words], capture_output=True, text=True, timeout=300, check=False)
    if done.returncode != code:
        raise AssertionError(f"{' '.join(map(str, words))}: exit {done.returncode}, want {code}: {done.stderr[-2000:]}")
    return done.stdout + done.stderr


HAS_UCX = not re.search(r"transport ucx .*not supported", run(EXEC, "--list"))


def replay(*words: object, code: int = 0) -> str:
    """shunt-exec in one process."""
    return run(EXEC, *words, "--transport", "loopback", code=code)


def make_plans(folder: Path, *moves: str) -> list[Path]:
    """Plans between layouts: "ab" leads from a to b."""
    (folder / "m.yaml").write_text(MODEL)
    for name, (tp, dp) in LAYOUTS.items():
        (folder / f"{name}.yaml").write_text(
            f"kind: layout\nname: {name}\nmodel: m.yaml\ncluster: local\nparallel: {{tp: {tp}, pp: 1, dp: {dp}}}\n"
            "state: {param: bf16, master: fp32}\n")
    plans = [folder / f"{move}.plan" for move in moves]
    for plan in plans:
        run(SHUNT, "plan", *(folder / f"{name}.yaml" for name in plan.stem), "-o", plan)
    return plans


def rank_files(folder: Path) -> dict[str, bytes]:
    """Name and contents of the rank files of a set."""
    return {path.name: path.read_bytes() for path in folder.glob("rank-*.safetensors")}


def passes_over_what_a_plan_leaves(folder: Path) -> None:
    """A stored set has an entry that the next plan does not copy: it counts for the checksum all the same."""
    ab, bc, ac = make_plans(folder, "ab", "bc", "ac")
    stored, last, direct = folder / "stored", folder / "last", folder / "direct"
    replay(ab, "--fill", 1, "--store", stored)
    path = stored / "rank-00001.safetensors"
    data = path.read_bytes()
    header = json.loads(data[8:8 + int.from_bytes(data[:8], "little")])
    assert "blob/rng.mp" in header, header
    replay(bc, "--load", stored, "--store", last)
    replay(ac, "--fill", 1, "--store", direct)
    assert len(rank_files(last)) == 4 and rank_files(last) == rank_files(direct)
    begin, end = header["blob/rng.mp"]["data_offsets"]
    for at in begin, end - 1:  # damage there is found as anywhere else
        bad = bytearray(data)
        bad[8 + int.from_bytes(data[:8], "little") + at] ^= 1
        path.write_bytes(bad)
        said = replay(bc, "--load", stored, code=1)
        assert "rank-00001.safetensors: checksum is " in said, said
    (stored / "shunt-store.json").unlink()
    replay(bc, "--load", stored)  # nobody says what it should be, and the plan does not look at it


def refuses_what_no_plan_before_leaves(folder: Path) -> None:
    """The second plan copies what the first reseeds: found before the first byte moves, filled or loaded."""
    bc, ca, ab = make_plans(folder, "bc", "ca", "ab")
    ba, = make_plans(folder, "ba")
    replay(ab, ba, ab, "--fill", 1, "--check")
    stored = folder / "stored"
    for plans, first, second in ((bc, ca, ab), ca, ab), ((ca, ab), ca, ab):
        for how in [], ["--fill", 1], ["--fill", 1, "--check"], ["--fill", 1, "--store", stored]:
            said = replay(*plans, *how, code=1)
            assert f"{first} and {second} are no chain" in said, said
            assert "reads blob/rng.mp on device 0, which the first does not leave (it is reseeded there)" in said, said
            assert "bytes moved" not in said and not stored.exists(), said
            if HAS_UCX and plans[1] == ab:  # one verdict, and not that somebody gave up
                lines = run(EXEC, *plans, *how, "--launch", 4, code=1).splitlines()
                assert len(lines) == 1 and "device 0, which the first does not leave (it is" in lines[0], lines
                assert not stored.exists()


def says_what_is_lost(folder: Path) -> None:
    """States that the plan drops, and moves that nobody keeps."""
    ab, bc = make_plans(folder, "ab", "bc")
    weights = folder / "weights.yaml"
    weights.write_text((folder / "c.yaml").read_text().replace("name: c", "name: w").replace(", master: fp32", ""))
    plan = folder / "weights.plan"
    run(SHUNT, "plan", folder / "b.yaml", weights, "-o", plan)
    line = "  dropped, as the new layout has none: master\n"
    note = "shunt-exec: note: --load without --store: what is moved is not written anywhere\n"
    stored, kept = folder / "stored", folder / "kept"
    for how in [["--transport", "loopback"]] + ([["--launch", 4]] if HAS_UCX else []):
        assert run(EXEC, ab, plan, "--fill", 1, *how).count(line) == 1
        report = json.loads(run(EXEC, ab, plan, "--fill", 1, "--json", *how))
        assert [each["dropped_states"] for each in report["plans"]] == [[], ["master"]], report
        assert line not in run(EXEC, plan, "--fill", 1, "--no-verify", *how)
        report = json.loads(run(EXEC, plan, "--fill", 1, "--json", "--no-verify", *how))
        assert report["plans"][0]["dropped_states"] is None, report
        said = run(EXEC, ab, "--fill", 1, "--store", stored, *how)
        assert line not in said and note not in said, said
        assert run(EXEC, bc, "--load", stored, *how).count(note) == 1
        assert note not in run(EXEC, bc, "--load", stored, "--store", kept, *how)


def checks_what_casts_have_left(folder: Path) -> None:
    """A check knows what the plans before have cast, or made of another state."""
    make_plans(folder)
    (folder / "m.yaml").write_text(MODEL[:MODEL.index("other_state")])
    states = {"wide": "param: bf16, master: fp32, exp_avg: fp32", "narrow": "param: bf16, master: fp32, exp_avg: bf16",
              "made": "param: from-master, master: fp32, exp_avg: bf16",
              "end": "param: fp32, master: fp32, exp_avg: bf16",
              "weights": "param: bf16", "anew": "param: bf16, master: from-param",
              "masters": "param: from-master, master: fp32"}
    for number, (name, state) in enumerate(states.items()):
        (folder / f"{name}.yaml").write_text((folder / f"{'bca'[number % 3]}.yaml").read_text().replace(
            "state: {param: bf16, master: fp32}", f"state: {{{state}}}"))

    def plan(first: str, second: str) -> Path:
        out = folder / f"{first}-{second}.plan"
        run(SHUNT, "plan", folder / f"{first}.yaml", folder / f"{second}.yaml", "-o", out)
        return out

    for names in (("wide", "narrow", "wide", "narrow", "wide", "narrow"), ("wide", "made", "wide", "narrow"),
                  ("wide", "end", "wide", "made", "end"), ("wide", "weights", "anew", "masters", "weights", "anew")):
        plans = [plan(*pair) for pair in zip(names, names[1:])]
        replay(*plans, "--fill", 1, "--check")
    if HAS_UCX:
        run(EXEC, *plans, "--fill", 1, "--check", "--launch", 4)


CASES = (checks_what_casts_have_left, passes_over_what_a_plan_leaves, refuses_what_no_plan_before_leaves, says_what_is_lost)


def main() -> int:
    failed = 0
    for number, case in enumerate(CASES, 1):
        with tempfile.TemporaryDirectory() as folder:
            try:
                case(Path(folder))
                print(f"ok {number} - {case.__name__}")
            except Exception:  # a failing case must not hide the others
                failed += 1
                print("# " + traceback.format_exc().replace("\n", "\n# "))
                print(f"not ok {number} - {case.__name__}")
    print(f"1..{len(CASES)}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
