#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The benchmarks themselves: the case generator, the reader of ladders, the arithmetic, a quick run of all sections.

usage: test_bench.py BUILD_DIR   (TAP on stdout)
"""

from __future__ import annotations

import dataclasses
import json
import os
import re
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
BENCH = ROOT / "tools" / "bench"
sys.path.insert(0, str(BENCH))
sys.dont_write_bytecode = True

import case_table
import cases
import exact
import growth
import ladder
import prototype
import scale
import section
import shell
from cases import CASES, LLAMA_70B, LLAMA_405B, QWEN_235B, Case, Grid, Model

BUILTIN = {LLAMA_70B: "llama-3-70b", LLAMA_405B: "llama-3.1-405b", QWEN_235B: "qwen3-235b-a22b"}
SECTIONS = {"plan", "execute", "transport", "ladder", "cases", "scale", "exact", "memory", "growth", "refit"}
DEVICES = {
    "A": 64, "A1": 64, "B": 64, "C": 64, "C2": 64, "D": 64, "E": 128, "F": 128, "G": 128, "G2": 128, "H": 64, "I": 1024,
    "J": 1024, "K": 1024, "L": 4096, "M": 4096, "N": 16384, "O": 16384, "P": 16384,
}  # fmt: skip
TOY_DENSE = Model("toy-dense", 4, 64, 8, 2, 96, 128)
TOY_EXPERTS = Model("toy-experts", 4, 64, 8, 2, 96, 128, experts=8)
TOYS = (
    Case("dense z0", TOY_DENSE, Grid(8, 2), Grid(2, 4, 3), 0),
    Case("dense z1", TOY_DENSE, Grid(4, 2, 3), Grid(2, 4, 5), 1),
    Case("dense z2", TOY_DENSE, Grid(2, 2, 4), Grid(4, 1, 3), 2),
    Case("dense, a node lost", TOY_DENSE, Grid(2, 2, 6), Grid(2, 2, 3), 0, lost_node=1),
    Case("experts z0", TOY_EXPERTS, Grid(2, 2, 4, 4), Grid(4, 1, 2, 8), 0),
    Case("experts z1", TOY_EXPERTS, Grid(2, 2, 4, 4), Grid(4, 1, 3, 2), 1),
    Case("uneven stages z1", dataclasses.replace(TOY_DENSE, layers=6), Grid(2, 4, 2), Grid(2, 2, 2), 1),
)


def same(got: object, want: object, what: str) -> None:
    """Two values must be equal."""
    assert got == want, f"{what}: {got}, want {want}"


def shunt(*words: object) -> str:
    """Output of the compiler, which must succeed."""
    command = [os.environ["SHUNT_BIN_DIR"] + "/planner/shunt", *map(str, words)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, f"{' '.join(command)}: exit {done.returncode}: {done.stderr[-2000:]}"
    return done.stdout


def bench(*words: object, env: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    """A run of the tool."""
    command = [sys.executable, str(BENCH / "run"), *map(str, words)]
    return subprocess.run(command, capture_output=True, text=True, check=False, env=os.environ | (env or {}))


# ---- the generator --------------------------------------------------------------------


def totals() -> None:
    """The generator's models have as many parameters as the built-in ones of the same name."""
    for model, name in BUILTIN.items():
        head = (ROOT / "plans" / "models" / f"{name}.yaml").read_text().splitlines()[1]
        same(model.parameters(), int(re.search(r"([\d,]+) parameters", head)[1].replace(",", "")), name)


def devices() -> None:
    """All cases are there, on as many devices as the prototype had."""
    same({case.name: case.devices for case in CASES}, DEVICES, "devices")
    same(list(prototype.FIGURES), list(DEVICES), "rows of the prototype")


def tables_agree() -> None:
    """Layouts by rule spread the layers as layouts box by box do."""
    for case in CASES:
        for grid in (case.old, case.new):
            stages = [cases.stage_of_layer(case.model, grid, k) for k in range(case.model.layers)]
            same(sorted(stages), stages, f"{case.name}: stages in order")
            same(sorted(set(stages)), list(range(grid.pp)), f"{case.name}: no stage is empty")


def bytes_of(case: Case, grid: Grid) -> int:
    """Bytes of all ranks of a side, by counting copies."""
    total = 0
    for place in cases.places(case.model, grid):
        tensor = place.tensor
        copies = grid.expert_dp if tensor.expert else grid.dp
        tp_copies = grid.tp if tensor.dim is None else 1
        optimizer = copies if case.zero == 0 else 1
        total += tensor.size * tp_copies * (2 * copies + 12 * optimizer)
    return total


def accepted(case: Case) -> str:
    """`shunt` takes both layouts of a case and sees the ranks and bytes that belong there."""
    with tempfile.TemporaryDirectory() as name:
        for path, grid, old in zip(cases.write(case, Path(name)), (case.old, case.new), (True, False)):
            said = json.loads(shunt("layout", path, "--json"))
            lost = cases.NODE if old and case.lost_node is not None else 0
            same(said["ranks"], grid.ranks - lost, f"{case.name}: ranks")
            same(said["parameters"], case.model.parameters(), f"{case.name}: parameters")
            if case.zero < 2 and case.form != "flat, not rows" and not lost:
                same(sum(said["rank_bytes"]), bytes_of(case, grid), f"{case.name}: bytes")
    return f"{case.devices} devices, {case.form}"


def lost_node() -> None:
    """A lost node has no rank on either side; the others keep their devices."""
    case = next(case for case in TOYS if case.lost_node is not None)
    with tempfile.TemporaryDirectory() as name:
        old, new = (json.loads(path.read_text()) for path in cases.write(case, Path(name)))
        same(old["devices"], [*range(8), *range(16, 24)], "devices of the old side")
        same(new["devices"], [*range(8), *range(16, 20)], "devices of the new side")
        paths = (Path(name) / "old.yaml", Path(name) / "new.yaml")
        shunt("plan", *paths, "-o", Path(name) / "p.plan")
        held = json.loads(shunt("layout", paths[0], "--rank", 8, "--json"))
        whole = json.loads(shunt("layout", write_whole(case, Path(name) / "whole"), "--rank", 16, "--json"))
        same(boxes(held), boxes(whole), "rank 8 of those left is rank 16 of all")


def write_whole(case: Case, folder: Path) -> Path:
    """The old layout of a case before it lost a node."""
    return cases.write(dataclasses.replace(case, lost_node=None), folder)[0]


def boxes(report: dict, states: tuple[str, ...] = ("param", *cases.OPTIMIZER)) -> dict:
    """What a rank holds, by state and tensor."""
    held = [item for item in report["tensors"] if item["state"] in states]
    return {(item["state"], item["tensor"]): (item["local_shape"], item["boxes"]) for item in held}


def weights_by_rule() -> str:
    """Box by box each rank has the weights that the rule gives it."""
    count = 0
    for case in [case for case in TOYS if case.form == "boxes" and case.lost_node is None]:
        with tempfile.TemporaryDirectory() as first, tempfile.TemporaryDirectory() as second:
            listed, ruled = cases.write(case, Path(first)), cases.write(dataclasses.replace(case, zero=0), Path(second))
            for one, other, grid in zip(listed, ruled, (case.old, case.new)):
                for rank in range(0, grid.ranks, 3):
                    held = [json.loads(shunt("layout", path, "--rank", rank, "--json")) for path in (one, other)]
                    same(boxes(held[0], ("param",)), boxes(held[1], ("param",)), f"{case.name} rank {rank}")
                    count += 1
    return f"{count} ranks"


def z1_rows() -> None:
    """Rows of a rank's tensor of two segments, spread over three: 2 x 12 rows in chunks of 8."""
    tensor = cases.Tensor("w", (48, 5), 0, 2)
    local = cases.part(tensor, 1, 2)
    same(local, [[(12, 24), (0, 5)], [(36, 48), (0, 5)]], "rank 1 of 2")
    chunks = [cases.rows_of(local, k, 3) for k in range(3)]
    same(chunks, [[[(12, 20), (0, 5)]], [[(20, 24), (0, 5)], [(36, 40), (0, 5)]], [[(40, 48), (0, 5)]]], "chunks")
    place = cases.Place("w", tensor, 0)
    item = cases.entry([3, 7], place, ["master"], chunks[1])
    same((item["ranks"], item["shape"], item["boxes"]), ("3,7", [8, 5], ["20:24, 0:5", "36:40, 0:5 @ 20"]), "entry")
    same("boxes" in cases.entry([1], place, ["master"], []), False, "an empty shard")


# ---- arithmetic -----------------------------------------------------------------------


def read_ladder() -> str:
    """Every step of the standard ladder, with layouts that are there."""
    steps, text = ladder.steps(), ladder.LADDER.read_text()
    same(len(steps), len(re.findall(r"^  - name:", text, re.MULTILINE)), "steps")
    assert all(Path(step[end]).is_file() for step in steps for end in ("from", "to"))
    return f"{len(steps)} steps"


def ladder_caps() -> None:
    """Caps are of the larger side, with what is set apart on top."""
    memory = {"from_max": 900, "to_max": 1000, "reserve": 30, "transport": 4}
    first = {"memory": memory, "schedule": {"max_peers": 7}}
    same(ladder.caps(first), {"1.02": 1054, "1.05": 1084, "1.25": 1284}, "caps")
    first["memory"] = memory | {"transport_per_peer": 10}
    same(ladder.caps(first)["1.02"], 1124, "seven peers")


def ladder_misses() -> None:
    """What is above the wanted gaps is named; short moves may have a gap."""
    time = {"gap_rounds": 0.015, "gap": 0.06, "predicted": 0.1}
    rows = {"memory": {"time": time | {"gap_rounds": 0.0}}, "1.02": {"time": time},
            "1.05": {"time": time | {"predicted": 0.3}}, "1.25": {"refused": "no"}}
    found = ladder.misses({"caps": rows, "staging_cost": 0.2})
    same([text.split(":")[0] for text in found], ["cap 1.05", "cap 1.05", "cap 1.25", "256 MiB of staging"], "misses")


def laws() -> None:
    """Each broken law of a plan is named."""
    good = {"bytes": {"moved": 7, "needed_remote": 5, "relayed": 2}, "memory": {"peak": 9, "cap": 9},
            "time": {"predicted": 2.0, "lower_bound": 1.0, "lower_bound_rounds": 2.0}}
    same(section.broken_laws(good), [], "a good plan")
    for part, key, value in (("bytes", "moved", 8), ("memory", "peak", 10), ("time", "predicted", 1.5)):
        same(len(section.broken_laws(good | {part: good[part] | {key: value}})), 1, f"{part}.{key}")


def refusals() -> None:
    """What does not fit is a figure, what is wrong with a document a fault."""
    same(section.refused(shell.Refused("infeasible: 1 B short"))["faults"], [], "no room")
    same(list(section.refused(shell.Refused("not supported: --place"))), [section.UNSUPPORTED], "not in this version")
    same(len(section.refused(shell.Refused("a.yaml:1:2: found x"))["faults"]), 1, "a bad document")


def exponents() -> None:
    """The slope of a power law."""
    rows = {str(n): {"plan_cpu_seconds": 0.01 * n**1.5} for n in (64, 128, 512)}
    assert abs(scale.exponent(rows) - 1.5) < 1e-9
    same(scale.exponent({"64": {"plan_cpu_seconds": 1.0}}), None, "one point")


def random_moves() -> None:
    """The same numbers give the same moves, and all kinds come up."""
    drawn = [exact.random_case(number) for number in range(exact.COUNT)]
    same(drawn, [exact.random_case(number) for number in range(exact.COUNT)], "drawn again")
    same({case.zero for case, _ in drawn}, {0, 1, 2}, "optimizers")
    same({bool(case.model.experts) for case, _ in drawn}, {False, True}, "models")
    same(exact.spread([float(k) for k in range(100)]),
         {"median": 50.0, "p90": 90.0, "p99": 99.0, "most": 99.0, "count": 100}, "spread")


def relays() -> None:
    """Seconds of relayed growth: 400 GB into one node take a second."""
    same(growth.relay_seconds(7 * 400 * 10**9, 1, 8), 1.0, "1 to 8")
    same(growth.relay_seconds(56 * 800 * 10**9, 8, 64), 2.0, "8 to 64")


def worse_rows() -> None:
    """A figure above the prototype's is worse, an equal one as printed there is not."""
    def entry(predicted: float, gap: float, rounds: int) -> dict:
        return {"bytes": {}, "moved_share": 0.9834, "plan_seconds": 0.1,
                "time": {"predicted": predicted, "gap_rounds": gap},
                "schedule": {"rounds": rounds}}
    row = {"fixed": {"1.02": entry(0.3, 0.002, 17)}, "optimal": {"1.02": entry(0.7, 0.002, 18)}}
    found = {pair["column"]: pair["worse"] for pair in case_table.compare("A", row)}
    same([name for name, worse in found.items() if worse],
         ["moved %, optimal", "T s, optimal, 1.02", "rounds, optimal, 1.02"], "worse")
    same(len(found), 9, "pairs")
    row["optimal"]["1.02"]["time"] |= {"predicted": 0.0, "gap_rounds": None}  # nothing crosses a link
    same(len(case_table.compare("A", row)), 8, "pairs without a gap")


def resumed() -> None:
    """Rows of the same program are taken from the file, those of another are made anew."""
    with tempfile.TemporaryDirectory() as name:
        path, made = Path(name) / "rows", []

        def make() -> dict:
            made.append(1)
            return {"figure": len(made)}
        same(section.Done(path).get("a", make), {"figure": 1}, "made")
        same(section.Done(path).get("a", make), {"figure": 1}, "kept")
        path.write_text(path.read_text().replace('"program": "', '"program": "0'))
        same(section.Done(path).get("a", make), {"figure": 2}, "made by another program")
        same(section.Done(path, "peer 1").get("a", make), {"figure": 3}, "the peer's")
        same(section.Done(path, "peer 1").get("a", make), {"figure": 3}, "the peer's, kept")


# ---- the tool --------------------------------------------------------------------------


def quick_run() -> str:
    """Every section of a quick run has figures and no fault."""
    done = bench("--quick", "--json", "--runs", 1)
    assert done.returncode == 0, f"exit {done.returncode}: {done.stderr[-3000:]}"
    result = json.loads(done.stdout)
    same(set(result) - {"cores", "runs"}, set(SECTIONS) - {"refit"}, "sections")
    for part in ("ladder", "cases"):
        assert result[part]["plans"], result[part]
    same(len(result["growth"]["rows"]), 1, "growths")
    assert all(result["scale"][title][method]["exponent"] is not None
               for title in ("ranks", "tensors") for method in scale.METHODS)
    same(len(result["exact"]["rows"]), exact.QUICK_COUNT, "random moves")
    faults = {part: result[part]["faults"] for part in ("ladder", "cases", "exact", "memory", "growth")}
    same({part: found for part, found in faults.items() if found}, {}, "faults")
    return f"{result['ladder']['plans']} plans of the ladder, {result['cases']['plans']} of the cases"


def one_section() -> None:
    """One section as text; an unknown one is refused."""
    done = bench("--quick", "--only", "growth")
    assert done.returncode == 0 and "== growth" in done.stdout and "1 to 8" in done.stdout, done
    done = bench("--only", "grwth")
    assert done.returncode == 2 and "no section grwth" in done.stderr, done


def peer_missing() -> None:
    """Without the peer's packages the tool says how to get them."""
    with tempfile.TemporaryDirectory() as name:
        done = bench("--quick", "--json", "--only", "refit", env={"SHUNT_BENCH_VENV": name})
    assert done.returncode == 3 and "pip install" in done.stderr and "megatron-core" in done.stderr, done


CASES_OF_THIS: list[tuple[str, Callable[[], str | None]]] = [
    ("parameters of the generator's models", totals),
    ("devices of the cases", devices),
    ("stages of the cases", tables_agree),
    ("rows of ZeRO-1", z1_rows),
    ("a lost node", lost_node),
    ("weights box by box and by rule", weights_by_rule),
    *((f"layouts of {case.name}", lambda case=case: accepted(case)) for case in TOYS),
    *((f"layouts of case {case.name}", lambda case=case: accepted(case)) for case in CASES if case.devices <= 64),
    ("steps of the ladder", read_ladder),
    ("caps of the ladder", ladder_caps),
    ("what the ladder misses", ladder_misses),
    ("laws of plans", laws),
    ("refusals", refusals),
    ("exponents of growth", exponents),
    ("random moves", random_moves),
    ("bound of relays", relays),
    ("rows worse than the prototype", worse_rows),
    ("a run that goes on", resumed),
    ("a quick run", quick_run),
    ("one section", one_section),
    ("the peer is not installed", peer_missing),
]


def main() -> int:
    """Run all."""
    os.environ["SHUNT_BIN_DIR"] = str(Path(sys.argv[1]).resolve())
    failed = 0
    print(f"1..{len(CASES_OF_THIS)}", flush=True)
    for number, (name, check) in enumerate(CASES_OF_THIS, 1):
        try:
            remark = check()
            print(f"ok {number} - {name}" + (f" ({remark})" if remark else ""), flush=True)
        except Exception:  # any of them is a failure of this test alone
            failed += 1
            print(f"not ok {number} - {name}")
            print("# " + traceback.format_exc().strip().replace("\n", "\n# "), flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
