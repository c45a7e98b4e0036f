# SPDX-License-Identifier: Apache-2.0
"""Section `cases`: cases A to P with ranks where the layouts put them and placed, beside a prototype's figures."""

from __future__ import annotations

import dataclasses
import functools
from pathlib import Path

import prototype
import shell
from cases import CASES, Case, write
from section import UNSUPPORTED, Done, Options, Row, above, in_parallel, plan_move, refused, table

PLACES = ("fixed", "optimal")
STAGING = 256 << 20
QUICK_CASE, QUICK_LAYERS = "B", 8


def plan(case: Case, folder: Path, place: str, cap: int) -> Row:
    """One plan of a case, or what was said against it."""
    out = folder / f"{place}-{cap}.plan"
    words = ("--cap", f"{cap} B", "--staging", f"{STAGING} B", "--place", place)
    try:
        row = plan_move(folder / "old.yaml", folder / "new.yaml", out, *words)
    except shell.Refused as refusal:
        return refused(refusal)
    finally:
        out.unlink(missing_ok=True)
    moved = row["bytes"]
    return row | {"moved_share": moved["needed_remote"] / max(1, moved["needed_remote"] + moved["local"])}


def larger(folder: Path) -> int:
    """Bytes of the fullest rank of both sides."""
    return max(max(shell.layout_figures(folder / f"{name}.yaml")["rank_bytes"]) for name in ("old", "new"))


def measure_case(case: Case, options: Options, done: Done) -> Row:
    """A case, both ways of placing, under each cap."""
    shell.note(f"cases: {case.name}")
    folder = options.folder / f"case-{case.name}"
    write(case, folder)
    most = larger(folder)
    row: Row = {"devices": case.devices, "form": case.form, "larger": most}
    for place in PLACES:
        row[place] = {}
        for name in prototype.CAPS:
            if options.wanted_cap(name):
                make = functools.partial(plan, case, folder, place, int(float(name) * most))
                row[place][name] = done.get(f"case {case.name} {place} {name}", make)
            if UNSUPPORTED in row[place].get(name, {}):
                break
    return row


def ours(entry: Row) -> bool:
    """Whether there is a plan."""
    return "bytes" in entry


def most_place_gap(devices: int) -> float:
    """How far a placement may be above its bound."""
    return 0.001 if devices <= 1024 else 0.002


def without_rounds(entry: Row) -> float:
    """Predicted seconds without the fixed cost of rounds, which the prototype leaves out."""
    return entry["time"]["predicted"] - 50e-6 * entry["schedule"]["rounds"]


def compare(name: str, row: Row) -> list[Row]:
    """Pairs of figures, ours and the prototype's, as printed there."""
    figures = prototype.FIGURES[name]
    found: list[Row] = []

    def pair(column: str, mine: float | None, other: float | None, grain: float) -> None:
        if other is not None and mine is not None:
            found.append({"column": column, "ours": mine, "prototype": other, "worse": mine > other + grain})

    for place, share, direct in (("fixed", figures.moved_fixed, figures.direct_fixed),
                                 ("optimal", figures.moved_placed, figures.direct)):
        plans = {cap: entry for cap, entry in row[place].items() if ours(entry)}
        for entry in list(plans.values())[:1]:
            pair(f"moved %, {place}", 100 * entry["moved_share"], share, 0.05 + 1e-9)
        for k, cap in enumerate(prototype.CAPS):
            if cap not in plans:
                continue
            gap = figures.gap[k] if figures.gap else 0.0
            if direct is not None:
                goal = direct * (1 + gap / 100)
                pair(f"T s, {place}, {cap}", without_rounds(plans[cap]), goal, 0.005 * goal)
            if figures.gap:
                reached = plans[cap]["time"]["gap_rounds"]
                pair(f"gap %, {place}, {cap}", None if reached is None else 100 * reached, gap, 0.005)
                pair(f"rounds, {place}, {cap}", plans[cap]["schedule"]["rounds"], figures.rounds[k], 0)
                pair(f"seconds, {place}, {cap}", plans[cap]["plan_seconds"], figures.seconds[k], 0.05)
    return found


def measure(options: Options) -> Row:
    """All cases."""
    wanted = [case for case in CASES if not options.steps or case.name in options.steps]
    if options.quick:
        wanted = [dataclasses.replace(case, model=dataclasses.replace(case.model, layers=QUICK_LAYERS))
                  for case in wanted if case.name == QUICK_CASE]
    done = Done(options.resume)
    rows = in_parallel(wanted, functools.partial(measure_case, options=options, done=done), options.jobs)
    named = {case.name: row | {"prototype": dataclasses.asdict(prototype.FIGURES[case.name])}
             for case, row in zip(wanted, rows)}
    worse = []
    for name, row in named.items():
        row["compared"] = compare(name, row)
        worse += [{"case": name} | pair | {"factor": pair["ours"] / pair["prototype"] if pair["prototype"] else None}
                  for pair in row["compared"] if pair["worse"]]
    plans = [(n, p, c, e) for n, r in named.items() for p in PLACES for c, e in r[p].items()]
    return {
        "rows": named,
        "sections": prototype.SECTIONS,
        "plans": sum(ours(entry) for *_, entry in plans),
        "worse": worse,
        "missed": [f"{n} {p} {c}: placement {e['place']['gap']:.5f} above its bound" for n, p, c, e in plans
                   if ours(e) and above(e.get("place", {}).get("gap"), most_place_gap(e["devices"]))],
        "faults": [f"{n} {p} {c}: {f}" for n, p, c, e in plans for f in e.get("faults", ())],
    }


HEAD = ("case, placement, cap", "moved %", "place gap", "T s", "bound", "gap", "gap_rounds", "rounds", "plan s",
        "| there: moved %", "direct", "once", "pool", "relay", "bound", "gap %", "rounds", "s")


def lines_of(name: str, row: Row, place: str) -> list[list[object]]:
    """Cells of one case and placement."""
    other, found = row["prototype"], []
    for cap, entry in row[place].items():
        k, title = prototype.CAPS.index(cap), f"{name} {place} {cap}"
        if not ours(entry):
            found.append([f"{title}: {next(iter(entry))}"] + [None] * (len(HEAD) - 1))
            continue
        time = entry["time"]
        share = other["moved_fixed" if place == "fixed" else "moved_placed"]
        direct = other["direct_fixed" if place == "fixed" else "direct"]
        rest = [other[key] if place == "optimal" else None for key in ("entered_once", "pooled", "relayed", "bound")]
        at_cap = [other[key][k] if other[key] else None for key in ("gap", "rounds", "seconds")]
        times = [time[key] for key in ("predicted", "lower_bound", "gap", "gap_rounds")]
        found.append([title, 100 * entry["moved_share"], entry.get("place", {}).get("gap"), *times,
                      entry["schedule"]["rounds"], entry["plan_seconds"], share, direct, *rest, *at_cap])
    return found


KNOWN_TIMES = ("predicted", "lower_bound", "gap", "lower_bound_rounds", "gap_rounds")


def other_times(name: str, row: Row) -> list[str]:
    """What a plan says of its time beside the columns."""
    return [f"{name} {place} {cap}: {key} {value:.6g}"
            for place in PLACES for cap, entry in row[place].items() if ours(entry)
            for key, value in entry["time"].items() if key not in KNOWN_TIMES and isinstance(value, float)]


def show(result: Row) -> list[str]:
    """The table and what is worse."""
    cells = [cell for name, row in result["rows"].items() for place in PLACES for cell in lines_of(name, row, place)]
    worse = [[f"{w['case']}: {w['column']}", w["ours"], w["prototype"], w["factor"]] for w in result["worse"]]
    forms = [f"{n}: layouts {r['form']}" for n, r in result["rows"].items() if "," in r["form"]]
    return [
        *table(HEAD, cells), *forms, *(line for name, row in result["rows"].items() for line in other_times(name, row)),
        "", *table((f"{len(worse)} worse than the prototype", "ours", "there", "factor"), worse),
        "", f"{len(result['missed'])} placements too far from their bound", *result["missed"],
        f"{result['plans']} plans, {len(result['faults'])} faults", *result["faults"],
    ]
