# SPDX-License-Identifier: Apache-2.0
"""Section `ladder`: every step of the standard ladder, on three clusters, under four caps, beside its bounds."""

from __future__ import annotations

import functools
import re
from pathlib import Path

import shell
from section import UNSUPPORTED, Done, Options, Row, above, in_parallel, plan_move, refused, table

LADDER = shell.ROOT / "plans" / "ladders" / "standard.yaml"
CLUSTERS = ("a800", "h100", "h800")
FACTORS = (1.02, 1.05, 1.25)  # of the larger side
MEMORY = 80 * 10**9  # of a device of each of these clusters
RESERVED = 10 << 30
STAGING = 256 << 20
WANTED_ROUNDS = {"1.02": 0.02, "1.05": 0.01, "1.25": 0.01, "memory": 0.01}
WANTED_GAP, LONG_SECONDS, WANTED_STAGING_COST = 0.05, 0.2, 0.1
QUICK_STEPS = ("1-gpt2-to-tp2pp4",)

Step = dict[str, str]


def steps(path: Path = LADDER) -> list[Step]:
    """Steps of a ladder, layouts as paths."""
    found: list[Step] = []
    for line in path.read_text().splitlines():
        if match := re.fullmatch(r"\s+(- )?(name|from|to): (\S+)", line):
            dash, key, value = match.groups()
            if dash:
                found.append({})
            found[-1][key] = value if key == "name" else str((path.parent / value).resolve())
    return found


def caps(first: Row) -> dict[str, int]:
    """Caps by name: of the larger side and what is set apart, and of the memory."""
    memory = first["memory"]
    by_peer = memory.get("transport_per_peer", 0) * first["schedule"]["max_peers"]
    apart = memory["reserve"] + memory["transport"] + by_peer
    larger = max(memory["from_max"], memory["to_max"])
    return {f"{factor:.2f}": int(factor * larger) + apart for factor in FACTORS}


def plan(step: Step, cluster: str, cap: int, staging: int, options: Options) -> Row:
    """One plan of a step, or what was said against it."""
    out = options.folder / f"{step['name']}-{cluster}-{cap}-{staging}.plan"
    words = ("--cluster", cluster, "--cap", f"{cap} B", "--staging", f"{staging} B")
    try:
        return plan_move(step["from"], step["to"], out, *words)
    except shell.Refused as refusal:
        return refused(refusal)
    finally:
        out.unlink(missing_ok=True)


def measure_step(step: Step, cluster: str, options: Options, done: Done) -> Row:
    """All caps of a step on a cluster."""

    def made(cap: int, staging: int) -> Row:
        key = f"ladder {step['name']} {cluster} {cap} {staging}"
        return done.get(key, lambda: plan(step, cluster, cap, staging, options))

    shell.note(f"ladder: {step['name']} on {cluster}")
    rows = {"memory": made(MEMORY - RESERVED, STAGING)}
    row: Row = {"step": step["name"], "cluster": cluster, "caps": rows}
    if "time" not in rows["memory"]:
        return row
    for name, cap in caps(rows["memory"]).items():
        if options.wanted_cap(name):
            rows[name] = made(min(cap, MEMORY), STAGING)
    free = made(MEMORY - RESERVED, MEMORY)
    if "time" in free:
        row["free_staging_predicted"] = free["time"]["predicted"]
        row["staging_cost"] = rows["memory"]["time"]["predicted"] / free["time"]["predicted"] - 1
    return row


def misses(row: Row) -> list[str]:
    """What a step does not reach."""
    found = []
    for name, entry in row["caps"].items():
        if "time" not in entry:
            if name != "memory":
                found.append(f"cap {name}: refused")
            continue
        time = entry["time"]
        if above(time["gap_rounds"], WANTED_ROUNDS[name]):
            found.append(f"cap {name}: gap_rounds {time['gap_rounds']:.4f} > {WANTED_ROUNDS[name]}")
        if above(time["gap"], WANTED_GAP) and time["predicted"] > LONG_SECONDS:
            found.append(f"cap {name}: gap {time['gap']:.4f} > {WANTED_GAP}")
    if row.get("staging_cost", 0) >= WANTED_STAGING_COST:
        found.append(f"256 MiB of staging: +{row['staging_cost']:.1%}")
    return found


def measure(options: Options) -> Row:
    """All steps on all clusters."""
    pairs = [(step, cluster) for step in steps() for cluster in CLUSTERS
             if options.wanted(f"{step['name']} {cluster}")]
    if options.quick:
        pairs = [(step, cluster) for step, cluster in pairs if step["name"] in QUICK_STEPS][:1]
    done = Done(options.resume)
    rows = in_parallel(pairs, functools.partial(measure_pair, options=options, done=done), options.jobs)
    plans = [e for row in rows for e in row["caps"].values()]
    return {
        "rows": rows,
        "plans": sum("time" in entry for entry in plans),
        "faults": [f"{r['step']} {r['cluster']} {n}: {f}" for r in rows for n, e in r["caps"].items()
                   for f in e.get("faults", ())],
        "missed": [f"{r['step']} {r['cluster']}: {miss}" for r in rows for miss in misses(r)],
    }


def measure_pair(pair: tuple[Step, str], options: Options, done: Done) -> Row:
    """A step and a cluster of a list."""
    return measure_step(*pair, options, done)


HEAD = ("step, cluster, cap", "predicted", "bound", "gap", "rounds bound", "gap_rounds", "rounds", "plan s", "verify s")


def line(row: Row, name: str) -> list[object]:
    """Cells of one plan."""
    entry, title = row["caps"][name], f"{row['step']} {row['cluster']} {name}"
    time = entry["time"]
    return [title, time["predicted"], time["lower_bound"], time["gap"], time["lower_bound_rounds"], time["gap_rounds"],
            entry["schedule"]["rounds"], entry["plan_seconds"], entry.get("verify_seconds")]


def show(result: Row) -> list[str]:
    """A line for each plan, then what does not fit, what staging costs and what was missed."""
    rows = result["rows"]
    cells = [line(r, name) for r in rows for name, e in r["caps"].items() if "time" in e]
    unfit = [f"{r['step']} {r['cluster']} {n}: {(e.get('refused') or e[UNSUPPORTED]).splitlines()[0]}"
             for r in rows for n, e in r["caps"].items() if "time" not in e]
    costs = [[f"{r['step']} {r['cluster']}", r["staging_cost"]] for r in rows if "staging_cost" in r]
    return [
        *table(HEAD, cells),
        "", "does not fit:", *unfit,
        "", *table(("256 MiB of staging over unlimited", "cost"), costs),
        "", f"{result['plans']} plans, {len(result['faults'])} faults", *result["faults"],
        f"{len(result['missed'])} missed", *result["missed"],
    ]
