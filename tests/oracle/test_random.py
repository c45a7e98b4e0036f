# SPDX-License-Identifier: Apache-2.0
"""Random moves: planned, verified, executed, and replayed from the printed ops."""

from __future__ import annotations

import tempfile
from collections import Counter
from pathlib import Path

import programs
from cases import Case, for_each
from moves import Move, execute, make_case
from programs import OracleError, run
from tap import Group, Skip
from test_ops import replay_plan

CASES_PER_GROUP = 25
POOLED_PER_GROUP = 25  # they have many ops; the first group is large enough that some of its moves do go over neighbours


def traits(case: Case, move: Move, depth: int) -> list[str]:
    """Words that tell what a case exercises; counted in the group's line."""
    first, second = case.layouts
    lines = programs.lines(move.plan, "--buffers")
    on = [{layout.device_of(rank) for rank in range(layout.world())} for layout in case.layouts]
    words = {
        "tp changes": first.tp != second.tp,
        "pp changes": first.pp != second.pp,
        "grows": first.world() < second.world(),
        "shrinks": first.world() > second.world(),
        "disjoint": not on[0] & on[1],
        "capped": case.cap is not None,
        "casts": any("from_dtype" in line for line in lines),
        "made from another state": any("from_state" in line for line in lines),
        "drops": bool(set(dict(first.state)) - set(dict(second.state))),
        "forwards": move.report["bytes"]["forwarded"] > 0,
        "pools": move.report["bytes"]["relayed"] > 0,
        "overlapped": depth > 1,
        "spilled": move.report["bytes"]["parked"] > 0,
        "many rounds": move.report["schedule"]["rounds"] > 3,
    }
    return [word for word, present in words.items() if present]


def run_case(case: Case, ucx: bool) -> list[str]:
    """One case from documents to compared files."""
    with tempfile.TemporaryDirectory(prefix="shunt-oracle-") as name:
        move = Move(Path(name), case.model, case.layouts, case.cluster)
        try:
            make_case(case, move)
            devices = move.report["devices"]
            execute(move, "--transport", *(("ucx", "--launch", devices) if ucx else ("loopback",)))
            depth = replay_plan(move)
        except OracleError as error:
            raise OracleError(f"{error}\n{move.described()}") from None
        return traits(case, move, depth)


def random_cases(seed_value: int, count: int, ucx: bool, shrink: bool, pooled: bool = False,
                 must_pool: bool = False) -> str:
    """A group of random cases."""
    seen: Counter[str] = Counter()
    total = for_each(seed_value, count, lambda case: seen.update(run_case(case, ucx)), shrink, pooled)
    if must_pool and seen["pools"] == 0:
        raise OracleError(f"none of {total} moves goes over neighbours")
    return f"{total} cases; " + ", ".join(f"{number} {word}" for word, number in sorted(seen.items()))


def ucx_cases(seed_value: int, count: int, pooled: bool = False) -> str:
    """Some cases over processes and the network transport."""
    if "ucx" not in run("shunt-exec", "--list").out:
        raise Skip("built without UCX")
    return random_cases(seed_value, count, True, False, pooled)


def split(count: int, most: int) -> list[int]:
    """Sizes of groups of so many cases at most."""
    return [most] * (count // most) + ([count % most] if count % most else [])


def groups(seed_value: int, count: int, shrink: bool) -> list[Group]:
    """Groups of this file."""
    result = []
    sizes = split(count, CASES_PER_GROUP)
    for number, size in enumerate(sizes):
        own_seed = 1000 * (seed_value + 1) + number
        name = f"random moves {number + 1} of {len(sizes)}: executor and ops replay"
        result.append(Group(name, random_cases, (own_seed, size, False, shrink)))
    for number, size in enumerate(split(count // 20, POOLED_PER_GROUP)):
        own_seed = 1000 * (seed_value + 1) + len(sizes) + number
        name = f"random moves over neighbours {number + 1}"
        must_pool = number == 0 and size == POOLED_PER_GROUP
        result.append(Group(name, random_cases, (own_seed, size, False, shrink, True, must_pool)))
    result.append(Group("random moves over UCX", ucx_cases, (seed_value, 5)))
    result.append(Group("random moves over UCX and neighbours", ucx_cases, (1000 * (seed_value + 1), 5, True)))
    return result
