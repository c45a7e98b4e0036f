# SPDX-License-Identifier: Apache-2.0
"""Section `growth`: one stage copied from 1 to 8 and from 8 to 64 replicas, beside the bound of relays."""

from __future__ import annotations

import dataclasses

import shell
from cases import LLAMA_70B, NODE, Case, Grid, write
from section import Options, Row, plan_move, table

STAGE = dataclasses.replace(LLAMA_70B, name="stage", layers=20)
GROWTHS = ((1, 8), (8, 64))
NIC_BYTES_PER_SECOND = 50e9  # of the cases' cluster
WANTED = 1.05


def relay_seconds(inter_node_bytes: int, old: int, new: int) -> float:
    """Least time in which each new node receives all once, when those that have it send it on.

    Bytes enter a new node over its own NICs; all nodes together send them; the old nodes send
    each byte once at least.
    """
    node = NODE * NIC_BYTES_PER_SECOND
    copy = inter_node_bytes / (new - old)
    return max(copy / node, copy * (new - old) / (new * node), copy / (old * node))


def measure_growth(old: int, new: int, options: Options) -> Row:
    """One growth."""
    shell.note(f"growth: {old} to {new}")
    case = Case(f"{old}-{new}", STAGE, Grid(NODE, 1, old), Grid(NODE, 1, new), 0)
    folder = options.folder / f"growth-{case.name}"
    first, second = write(case, folder)
    row = plan_move(first, second, folder / "move.plan")
    bound = relay_seconds(row["bytes"]["inter_node_lower_bound"], old, new)
    return row | {"relay_bound": bound, "predicted_to_bound": row["time"]["predicted"] / bound}


def measure(options: Options) -> Row:
    """Both growths; the small one if it must be quick."""
    growths = GROWTHS[: 1 if options.quick else None]
    rows = {f"{old} to {new}": measure_growth(old, new, options) for old, new in growths}
    return {
        "rows": rows,
        "faults": [f"{name}: {fault}" for name, row in rows.items() for fault in row["faults"]],
        "missed": [name for name, row in rows.items() if row["predicted_to_bound"] > WANTED],
    }


def show(result: Row) -> list[str]:
    """A line for each."""
    cells = [[name, row["time"]["predicted"], row["relay_bound"], row["predicted_to_bound"],
              row["time"]["lower_bound"], row["bytes"]["relayed"], row["schedule"]["rounds"], row["plan_seconds"]]
             for name, row in result["rows"].items()]
    head = ("replicas", "predicted", "relay bound", "ratio", "any-plan bound", "relayed B", "rounds", "plan s")
    return [*table(head, cells), f"{len(result['faults'])} faults", *result["faults"]]
