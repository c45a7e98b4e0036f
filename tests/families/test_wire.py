# SPDX-License-Identifier: Apache-2.0
"""Faults of transports that other projects had: buffers for each peer, unlike chunks, limits of groups."""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections import defaultdict
from pathlib import Path

import cells
import programs
from cells import Line
from families import layout
from rules import Document
from tap import Group, Skip
from test_cases import held, holdings, room, same
from toys import weight

MIB, KIB = 2**20, 2**10
GROUP_LIMIT = 2048  # calls in one group of NCCL
WEIGHTS = {"param": "bf16"}


# ---- H10 -----------------------------------------------------------------------------


def buffers_by_peer() -> str:
    """H10: what the transport takes for each peer is in the cap, and in the refusal."""
    with room(weight("layer.{i}.w", 64, 8, dim=0)) as here:
        paths, plan = (here.write(layout({"tp": 8})), here.write(layout({"dp": 8}))), here.folder / "p.plan"
        programs.plan(*paths, plan)
        plain = programs.inspect(plan)["memory"]
        cap = plain["from_max"] + plain["to_max"] + 2**30
        options = ("--cluster", here.folder / "peers.yaml", "--cap", f"{cap} B")
        for per_peer, fits in ((469 * 10**6 // KIB * KIB, False), (73 * MIB, True)):  # 7 peers: 3.28 GB, 511 MiB
            device = {"memory": "80 GB", "transport_per_peer": f"{per_peer} B"}
            cells.write(here.folder / "peers.yaml", cells.CLUSTER | {"device": device})
            if fits:
                programs.succeed("shunt", "plan", *paths, "-o", plan, *options)
                memory = programs.inspect(plan)["memory"]
                same(memory["transport_per_peer"], per_peer, "transport_per_peer")
                least = 7 * per_peer + max(plain["from_max"], plain["to_max"])
                same(least <= memory["peak"] <= cap, True, f"buffers of seven peers are in the peak: {memory}")
            else:
                said = programs.refused("shunt", "plan", *paths, "-o", plan, *options)
                same(str(7 * per_peer) in said, True, said)
    return "7 peers: refused with 3.28 GB in all, kept with 511 MiB"


# ---- H22 -----------------------------------------------------------------------------


def messages(ops: list[Line], op: str) -> dict[tuple[int, int, int], list[int]]:
    """Bytes of all messages, in order, by round, sender and receiver."""
    found: dict[tuple[int, int, int], list[int]] = defaultdict(list)
    for line in ops:
        if line["op"] == op:
            ends = (line["device"], line["peer"]) if op == "send" else (line["peer"], line["device"])
            found[line["round"], *ends].append(line["bytes"])
    return found


def one_list_of_chunks() -> str:
    """H22: three tensors of 200 MiB; both ends have the same chunks, none above the staging."""
    tensors = [weight(f"w{k}", 102400, 1024, dim=k % 2, stage="first") for k in range(3)]
    counts = []
    with room(*tensors) as here:
        cells.write(here.folder / "cluster.yaml", cells.CLUSTER | {"device": {"memory": "8 GiB"}})
        paths = [here.write(layout({"tp": 2}) | {"state": WEIGHTS}),
                 here.write(layout({"tp": 4}, devices=[2, 3, 4, 5]) | {"state": WEIGHTS})]
        for staging in (512 * MIB, 256 * MIB):
            plan = here.folder / f"{staging}.plan"
            programs.plan(*paths, plan, "--staging", f"{staging} B")
            programs.succeed("shunt", "verify", plan, *paths)
            ops = programs.lines(plan, "--ops")
            sent, received = messages(ops, "send"), messages(ops, "recv")
            same(sent, received, f"staging {staging}: chunks of both ends")
            sizes = [size for chunks in sent.values() for size in chunks]
            moved = programs.inspect(plan)["bytes"]
            same(sum(sizes), moved["moved"], "bytes of all chunks")
            same(moved["moved"] - moved["relayed"], 600 * MIB, "bytes that are needed elsewhere")
            same(max(sizes) <= staging, True, f"the largest chunk, {max(sizes)}, fits into {staging}")
            same(programs.inspect(plan)["memory"]["staging"] <= staging, True, "slots of a device")
            counts.append(len(sizes))
    return f"{counts[0]} chunks with 512 MiB, {counts[1]} with 256 MiB"


def ranks_with_unlike_plans() -> str:
    """H22: ranks that run plans of unlike staging end at once, and nothing moves."""
    listed = programs.succeed("shunt-exec", "--list").out
    if any("ucx" in line and "not supported" in line for line in listed.splitlines()):
        raise Skip("built without UCX")
    tensors = [weight(f"w{k}", 1024, 100, dim=k % 2, stage="first") for k in range(3)]
    with room(*tensors) as here:
        paths = [here.write(layout(parallel) | {"state": WEIGHTS}) for parallel in ({"tp": 2}, {"pp": 1, "dp": 2})]
        plans = []
        for staging in (512 * KIB, 64 * KIB):
            plans.append(here.folder / f"{staging}.plan")
            programs.plan(*paths, plans[-1], "--staging", f"{staging} B")
        ids = {programs.inspect(plan)["plan_id"] for plan in plans}
        same(len(ids), 2, "plans of unlike staging")
        for code, said in run_members(here.folder, plans):
            same(code, 1, f"exit code: {said}")
            same("has another plan" in said and "nothing was moved" in said, True, said)
        for code, said in run_members(here.folder, [plans[1], plans[1]]):
            same(code, 0, f"the same plan on both: {said}")
    return "refused at the start"


def run_members(folder: Path, plans: list[Path]) -> list[tuple[int, str]]:
    """Run each rank with a plan of its own, as a launcher would; exit codes and what was said."""
    with tempfile.TemporaryDirectory(dir=folder) as meeting:
        running = []
        for rank, plan in enumerate(plans):
            own = {"SHUNT_RANK": str(rank), "SHUNT_WORLD_SIZE": str(len(plans)), "SHUNT_JOB": "h22"}
            command = [str(programs.binary("shunt-exec")), str(plan), "--meet", meeting, "--fill", "7", "--check"]
            running.append(subprocess.Popen(command, env=os.environ | own, stdout=subprocess.PIPE,
                                            stderr=subprocess.PIPE, text=True))
        said = [process.communicate(timeout=programs.TIMEOUT_SECONDS) for process in running]
    return [(process.returncode, out + err) for process, (out, err) in zip(running, said)]


# ---- H24 -----------------------------------------------------------------------------


def small_tensors() -> tuple[list[Document], list[Document], list[Document]]:
    """3000 tensors of 1 to 8 bytes, and their buffers: all on one rank, then halves; 100 halves are empty."""
    tensors, whole, halves = [], [], []
    for k in range(3000):
        size = 1 if k % 30 == 7 else 2 + k % 7
        name, half = f"t{k}", (size + 1) // 2
        tensors.append(weight(name, size, stage="first", dtype="u8"))
        whole.append(held(0, name, [size], f"0:{size}"))
        halves.append(held(0, name, [half], f"0:{half}"))
        halves.append(held(1, name, [size - half], *([f"{half}:{size}"] if size > half else [])))
    return tensors, whole, halves


def thousands_of_small_tensors() -> str:
    """H24: groups stay under the limit, end at the same places on both ranks, and the report counts them."""
    tensors, whole, halves = small_tensors()
    same(sum(not item["boxes"] for item in halves), 100, "empty halves")
    with room(*tensors) as here:
        old, new = holdings(1, whole, WEIGHTS), holdings(2, halves, WEIGHTS)
        here.move(old, new)
        plan = here.folder / f"move-{here.count}.plan"
        schedule, ops = programs.inspect(plan)["schedule"], programs.lines(plan, "--ops")
        sent, received = messages(ops, "send"), messages(ops, "recv")
        same(sent, received, "messages of both ends")
        same({ends[1:] for ends in sent}, {(0, 1)}, "sender and receiver")
        calls = {number: len(chunks) for (number, _, _), chunks in sent.items()}
        same(schedule["max_group_messages"], max(calls.values()), "the largest group in the report")
        same(max(calls.values()) <= GROUP_LIMIT, True, f"calls in a group: {max(calls.values())}")
        same(len({line["round"] for line in ops}) <= schedule["rounds"], True, "groups in the report")
        here.move(new, old)
    return f"{len(calls)} groups, at most {max(calls.values())} calls in one"


CASES = [
    ("H10 transport buffers by peer", buffers_by_peer),
    ("H22 one list of chunks", one_list_of_chunks),
    ("H22 ranks with plans of unlike staging", ranks_with_unlike_plans),
    ("H24 thousands of small tensors", thousands_of_small_tensors),
]


def groups() -> list[Group]:
    """One group for each case."""
    return [Group(name, check) for name, check in CASES]
