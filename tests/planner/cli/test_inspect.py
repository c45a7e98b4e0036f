# SPDX-License-Identifier: Apache-2.0
"""What `shunt inspect`, `verify` and `diff` print, and how the command ends; TAP on stdout.

    SHUNT_BIN=build/planner/shunt python3 test_inspect.py [PLAN...] [--update]

A small plan is written without the compiler (tiny_plan.py); plans named on the command line get
the checks that hold for every plan. --update rewrites the expected pages beside this file.
"""

from __future__ import annotations

import hashlib
import json
import os
import struct
import subprocess
import sys
import tempfile
import traceback
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import tiny_plan

HERE = Path(__file__).resolve().parent
SHUNT = os.environ.get("SHUNT_BIN", "build/planner/shunt")
WIDTH = 100
Line = dict[str, Any]

COUNT, NUMBER, TEXT, FLAG, MAYBE = "count", "number", "text", "flag", "number or null"
KEYS: dict[str, dict[str, str]] = {
    "": {
        "plan_id": TEXT, "format_version": TEXT, "model": TEXT, "from": TEXT, "to": TEXT,
        "devices": COUNT, "from_ranks": COUNT, "to_ranks": COUNT,
    },
    "bytes": dict.fromkeys(
        ["needed_remote", "moved", "relayed", "forwarded", "local", "inter_node", "intra_node", "filled", "inter_node_lower_bound",
         "max_send", "max_recv"], COUNT),
    "time": {"predicted": NUMBER, "lower_bound": NUMBER, "gap": MAYBE, "lower_bound_rounds": NUMBER,
             "gap_rounds": MAYBE},
    "memory": dict.fromkeys(
        ["cap", "peak", "peak_device", "peak_lower_bound", "least_cap", "staging", "from_max", "to_max"], COUNT),
    "place": {"method": TEXT, "moved_fixed": COUNT, "cost": MAYBE, "bound": MAYBE, "gap": MAYBE},
    "schedule": {
        "method": TEXT, "rounds": COUNT, "max_group_messages": COUNT, "max_peers": COUNT, "ops": COUNT,
        "solver": TEXT, "solver_status": TEXT, "plan_seconds": MAYBE,
    },
    "safety": {"rollback_until_round": COUNT, "replicas_checked": FLAG},
}
BUFFER_KEYS = ["device", "side", "buffer", "tier", "bytes", "tensor", "state", "dtype", "region", "box", "rank", "name",
               "local_shape", "kept"]
BOX_OP = ["src", "dst", "elem_bytes", "tensor", "state"]
OP_KEYS = {
    "alloc": ["buffer", "bytes"], "free": ["buffer", "bytes"], "copy": BOX_OP, "pack": BOX_OP, "unpack": BOX_OP,
    "fill": BOX_OP[1:], "send": ["peer", "bytes", "src", "elem_bytes"], "recv": ["peer", "bytes", "dst", "elem_bytes"],
}
PHASES = {"alloc": 0, "copy": 0, "pack": 0, "fill": 0, "send": 1, "recv": 2, "unpack": 3, "free": 4}
VERBS = ["plan", "inspect", "verify", "layout", "diff", "precompile", "simulate"]
PLANNED = ["salvage", "serve"]


# ---- running ------------------------------------------------------------------------


def run(*arguments: object, code: int = 0, stdout: Any = subprocess.PIPE) -> subprocess.CompletedProcess[str]:
    """Run shunt, which must end with `code`."""
    command = [SHUNT, *map(str, arguments)]
    done = subprocess.run(command, stdout=stdout, stderr=subprocess.PIPE, text=True, check=False, timeout=60)
    assert done.returncode == code, f"{command}: exit {done.returncode}, want {code}: {done.stdout} {done.stderr}"
    return done


def out(*arguments: object) -> str:
    """Results of a run that succeeds and says nothing on stderr."""
    done = run(*arguments)
    assert done.stderr == "", done.stderr
    return done.stdout


def lines(*arguments: object) -> list[Line]:
    """JSON lines of a run."""
    return [json.loads(line) for line in out(*arguments).splitlines()]


def same(got: object, want: object) -> None:
    """Equality with both sides in the report."""
    assert got == want, f"got  {got}\nwant {want}"


# ---- checks of any plan -----------------------------------------------------------------


def has_type(value: object, kind: str) -> bool:
    """Whether a value of the report is of a kind."""
    if kind == TEXT:
        return isinstance(value, str)
    if kind == FLAG:
        return isinstance(value, bool)
    if kind == COUNT:
        return isinstance(value, int) and not isinstance(value, bool) and value >= 0
    return (value is None and kind == MAYBE) or (isinstance(value, (int, float)) and not isinstance(value, bool))


def check_keys(plan: Path) -> None:
    """All keys of design.md 10.2 with their types."""
    report = json.loads(out("inspect", plan, "--json"))
    for section, keys in KEYS.items():
        values = report[section] if section else report
        for key, kind in keys.items():
            assert key in values, f"{section}.{key} is missing"
            assert has_type(values[key], kind), f"{section}.{key} is {values[key]!r}, want a {kind}"
    same(report["plan_id"], plan.read_bytes()[32:64].hex())
    assert report["format_version"] in ("1.0", "1.1", "1.2", "1.3"), report["format_version"]
    for gap, bound in (("gap", "lower_bound"), ("gap_rounds", "lower_bound_rounds")):
        if report["time"][bound] > 0:
            want = report["time"]["predicted"] / report["time"][bound] - 1
            assert abs(report["time"][gap] - want) < 1e-12, report["time"]


def extent(region: Line, elem_bytes: int) -> int:
    """Bytes up to the end of a region."""
    same(len(region["shape"]), len(region["strides"]))
    return region["offset"] + sum((n - 1) * s for n, s in zip(region["shape"], region["strides"])) + elem_bytes


def check_buffers(plan: Path) -> None:
    """Lines of design.md 10.3, --buffers."""
    sizes: dict[tuple[int, str], int] = {}
    sides: dict[tuple[int, str], set[str]] = {}
    kept = set()
    for line in lines("inspect", plan, "--buffers"):
        same([key for key in line if key not in ("from_state", "from_dtype")], BUFFER_KEYS)
        key = (line["device"], line["buffer"])
        same(sizes.setdefault(key, line["bytes"]), line["bytes"])
        sides.setdefault(key, set()).add(line["side"])
        if line["side"] == "scratch":
            assert line["buffer"].startswith("scratch:") and line["rank"] is None and not line["kept"], line
        else:
            same(line["buffer"], ("from:" if line["kept"] else f"{line['side']}:") + line["name"])
        same(line["name"], f"{line['state']}/{line['tensor']}")
        if line["kept"]:
            kept.add(key)
        if line["region"] is None or line["box"] is None:
            same((line["region"], line["box"]), (None, None))
            continue
        same(line["region"]["shape"], [high - low for low, high in line["box"]])
        assert extent(line["region"], 1) <= line["bytes"], line
    same({key for key, value in sides.items() if len(value) == 2}, kept)


def check_op_line(line: Line) -> None:
    """Keys and regions of one operation."""
    keys = ["device", "round", "op", *OP_KEYS[line["op"]]]
    if line["op"] in ("alloc", "free") and line["buffer"].startswith("scratch:"):
        keys.append("tier")
    same([key for key in line if key != "cast"], keys)
    slots = {"pack": ["dst"], "send": ["src"], "recv": ["dst"], "unpack": ["src"]}.get(line["op"], [])
    for end in ("src", "dst"):
        if end not in line:
            continue
        same(line[end]["buffer"].startswith("staging:"), end in slots)
        if line["op"] in ("send", "recv"):
            same(line[end], {"buffer": line[end]["buffer"], "offset": line[end]["offset"], "shape": [line["bytes"]],
                             "strides": [1]})
            assert line[end]["offset"] % 16 == 0 and line["bytes"] % 16 == 0, line


def check_ops(plan: Path) -> None:
    """Lines of design.md 10.3, --ops, and their order."""
    sizes = {(line["device"], line["buffer"]): line["bytes"] for line in lines("inspect", plan, "--buffers")}
    before = (0, 0, 0)
    messages: Counter[tuple[int, int, int, int]] = Counter()
    for line in lines("inspect", plan, "--ops"):
        check_op_line(line)
        now = (line["round"], PHASES[line["op"]], line["device"])
        assert before <= now, f"{line} stands behind {before}"
        before = now
        if line["op"] in ("alloc", "free"):
            same(line["bytes"], sizes[line["device"], line["buffer"]])
        if line["op"] in ("send", "recv"):
            ends = (line["device"], line["peer"]) if line["op"] == "send" else (line["peer"], line["device"])
            messages[(line["round"], *ends, line["bytes"])] += 1 if line["op"] == "send" else -1
        for end in ("src", "dst"):
            if end in line and not line[end]["buffer"].startswith("staging:"):
                assert extent(line[end], line["elem_bytes"]) <= sizes[line["device"], line[end]["buffer"]], line
    assert not any(messages.values()), messages


def check_counts(plan: Path) -> None:
    """The number of operations, and each device's rows against its lines."""
    report = json.loads(out("inspect", plan, "--json"))
    all_ops = lines("inspect", plan, "--ops")
    same(sum(line["op"] not in ("send", "recv") for line in all_ops), report["schedule"]["ops"])
    devices = sorted({line["device"] for line in lines("inspect", plan, "--buffers")})
    peers = [json.loads(out("inspect", plan, "--json", "--device", device))["peers"] for device in devices]
    same(max(peers), report["schedule"]["max_peers"])
    for device in (devices[0], devices[-1]):
        check_device(plan, device, [line for line in all_ops if line["device"] == device])


def check_device(plan: Path, device: int, own: list[Line]) -> None:
    """--device narrows --ops and --buffers, and its rows count the same lines."""
    same(lines("inspect", plan, "--ops", "--device", device), own)
    everything = lines("inspect", plan, "--buffers")
    same(lines("inspect", plan, "--buffers", "--device", device), [b for b in everything if b["device"] == device])
    report = json.loads(out("inspect", plan, "--json", "--device", device))
    counted: Counter[tuple[int, str]] = Counter()
    for line in own:
        counted[line["round"], "copies" if line["op"] == "copy" else line["op"] + "s"] += 1
    same(report["device"], device)
    same(report["peers"], len({line["peer"] for line in own if "peer" in line}))
    for row in report["rounds"]:
        for key in ("allocs", "copies", "packs", "fills", "sends", "recvs", "unpacks", "frees"):
            same((row["round"], key, row[key]), (row["round"], key, counted[row["round"], key]))
        sent = sum(line["bytes"] for line in own if line["op"] == "send" and line["round"] == row["round"])
        same(row["bytes_sent"], sent)
        assert row["live_bytes"] <= report["peak_bytes"], row


def check_dropped(plan: Path) -> None:
    """States that only the old side has, with the bytes of its buffers, in both reports."""
    buffers = {(b["device"], b["side"], b["buffer"]): b for b in lines("inspect", plan, "--buffers")}.values()
    kept = {b["state"] for b in buffers if b["side"] == "to"}
    want: Counter[str] = Counter()
    for buffer in buffers:
        if buffer["side"] == "from" and buffer["state"] not in kept:
            want[buffer["state"]] += buffer["bytes"]
    same({s["state"]: s["bytes"] for s in json.loads(out("inspect", plan, "--json"))["dropped_states"]}, dict(want))
    said = [line for line in out("inspect", plan).splitlines() if line.startswith("  states ")]
    same(len(said), 1 if want else 0)
    assert all(state in said[0] for state in want), said


def check_page(plan: Path) -> None:
    """The people's page fits, and so does the page of a device."""
    device = lines("inspect", plan, "--buffers")[0]["device"]
    for page in (out("inspect", plan), out("inspect", plan, "--device", device)):
        for line in page.splitlines():
            assert len(line) <= WIDTH and line == line.rstrip(), repr(line)


def check_verified(plan: Path) -> None:
    """The plan verifies, in words and as JSON."""
    report = json.loads(out("verify", plan, "--json"))
    same((report["ok"], report["problems"], report["problem_total"]), (True, [], 0))
    same(report["plan_id"], plan.read_bytes()[32:64].hex())
    assert out("verify", plan).startswith("verified: ")


# ---- checks of the tiny plan --------------------------------------------------------------


def scratch(folder: Path, name: str, data: bytes) -> Path:
    """A file for one check."""
    path = folder / name
    path.write_bytes(data)
    return path


def seed(folder: Path, name: str) -> Path:
    """A seed of the fuzzer, which has no plan id: the test of the reader wrote it."""
    data = with_header((HERE.parents[1] / "schemas/corpus_plan" / name).read_bytes(), 32, bytes(32))
    bare = data[:20] + bytes(4) + data[24:]
    return scratch(folder, name, with_header(data, 32, hashlib.sha256(bare).digest()))


def check_scratch(folder: Path) -> None:
    """Scratch buffers have lines and names of their own, and figures."""
    plan = seed(folder, "scratch.plan")
    found = {(b["device"], b["buffer"]): b for b in lines("inspect", plan, "--buffers") if b["side"] == "scratch"}
    same({key: (b["name"], b["tier"], b["bytes"]) for key, b in found.items()},
         {(0, "scratch:1"): ("master/w", "host", 32), (0, "scratch:5"): ("param/norm", "host", 16),
          (1, "scratch:1"): ("exp_avg/w", "device", 32)})
    same(found[1, "scratch:1"]["from_dtype"], "fp32")
    same([(op["round"], op["op"], op["buffer"], op["tier"]) for op in lines("inspect", plan, "--ops", "--device", 0)
          if op["op"] in ("alloc", "free") and op["buffer"].startswith("scratch:")],
         [(0, "alloc", "scratch:1", "host"), (0, "alloc", "scratch:5", "host"), (2, "free", "scratch:5", "host"),
          (4, "free", "scratch:1", "host")])
    report = json.loads(out("inspect", plan, "--json"))
    same((report["bytes"]["relayed"], report["bytes"]["parked"], report["memory"]["host_peak"]), (32, 48, 48))
    same(json.loads(out("inspect", plan, "--device", 0, "--json"))["buffers"]["scratch"],
         {"count": 2, "bytes": 48, "host_bytes": 48})
    assert "  scratch         2 buffers" in out("inspect", plan, "--device", 0)


def check_golden(folder: Path) -> None:
    """Pages of the tiny plan, word for word."""
    plan = scratch(folder, "tiny.plan", tiny_plan.build())
    other = scratch(folder, "other.plan", tiny_plan.build(4.5e-5, "tp2-other"))
    pages = {
        "page": ["inspect", plan], "device": ["inspect", plan, "--device", 0], "json": ["inspect", plan, "--json"],
        "ops": ["inspect", plan, "--ops"], "buffers": ["inspect", plan, "--buffers"], "verify": ["verify", plan],
        "diff": ["diff", plan, other],
    }
    for name, arguments in pages.items():
        expected = HERE / "expected" / f"tiny-{name}.txt"
        got = out(*arguments).replace(f"{folder}/", "")
        if "--update" in sys.argv:
            expected.parent.mkdir(exist_ok=True)
            expected.write_text(got)
        same(got, expected.read_text())


def check_diff(folder: Path) -> None:
    """Equal plans are said to be equal; unequal ones differ where they do."""
    plan = scratch(folder, "a.plan", tiny_plan.build())
    copy = scratch(folder, "b.plan", tiny_plan.build())
    other = scratch(folder, "c.plan", tiny_plan.build(4.5e-5, "tp2-other"))
    assert "identical: the same plan" in out("diff", plan, copy)
    same(json.loads(out("diff", plan, copy, "--json"))["identical"], True)
    report = json.loads(out("diff", plan, other, "--json"))
    same(report["identical"], False)
    same(report["same"], {"model": True, "from": True, "to": False, "cluster": True})
    changed = [figure for figure in report["figures"] if figure["a"] != figure["b"]]
    same([(f["section"], f["key"]) for f in changed], [("time", "predicted"), ("time", "gap"), ("time", "gap_rounds")])
    assert abs(changed[0]["percent"] - 50) < 1e-9, changed[0]
    run("diff", plan, folder / "missing", code=3)
    run("diff", plan, scratch(folder, "bad.plan", plan.read_bytes()[:200]), code=1)


def check_control_characters(folder: Path) -> None:
    """Names of a plan cannot steer a terminal or feign a line; JSON has them as they are."""
    name = "to\x1b[2J\x9b\nidentical: \x7f\u00e9" + "x\u009d" * 100
    shown = "to\\x1B[2J\\xC2\\x9B\\x0Aidentical: \\x7F\u00e9" + "x\\xC2\\x9D" * 100
    plan = scratch(folder, "evil.plan", tiny_plan.build(4.5e-5, name))
    other = scratch(folder, "good.plan", tiny_plan.build())
    for text in out("inspect", plan), out("diff", other, plan), out("diff", plan, other):
        assert shown in text, text
        assert not any(c in text for c in "\x1b\x7f\x9b\x9d"), text
    same(json.loads(out("inspect", plan, "--json"))["to"], name)


def with_header(data: bytes, offset: int, value: bytes) -> bytes:
    """Overwrite bytes of the header, and make its checksum right again."""
    changed = bytearray(data)
    changed[offset : offset + len(value)] = value
    changed[20:24] = bytes(4)
    changed[20:24] = struct.pack("<I", tiny_plan.crc32c(bytes(changed[:256])))
    return bytes(changed)


def check_damage(folder: Path) -> None:
    """Damaged plans are refused with exit code 1, and --json still says what is wrong."""
    good = tiny_plan.build()
    flipped = bytearray(good)
    flipped[-200] ^= 1
    damaged = {
        "file": [good[:-64], good[:100], b"", b"SHUNTPLN", b"\0" * 4096, with_header(good, 8, struct.pack("<I", 2))],
        "part": [bytes(flipped)],
        "plan_id": [with_header(good, 32, hashlib.sha256(b"other").digest())],
    }
    for rule, files in damaged.items():
        for data in files:
            path = scratch(folder, "damaged.plan", data)
            assert f"shunt: verify: {rule}: " in run("verify", path, code=1).stderr
            report = json.loads(run("verify", path, "--json", code=1).stdout)
            same((report["ok"], rule in [problem["rule"] for problem in report["problems"]]), (False, True))
    part = scratch(folder, "damaged.plan", bytes(flipped))
    for view in (["--ops"], ["--buffers"], ["--device", "3"]):
        done = run("inspect", part, *view, code=1)
        same(done.stdout, "")
        assert done.stderr.startswith("shunt: "), done.stderr
    assert "states     not known: a part of the plan does not read" in out("inspect", part)
    same(json.loads(out("inspect", part, "--json"))["dropped_states"], None)


def check_exits(folder: Path) -> None:
    """Exit codes and where the words go."""
    plan = scratch(folder, "tiny.plan", tiny_plan.build())
    run("inspect", folder / "missing", code=3)
    run("inspect", folder, code=3)
    assert "device 1 is not in this plan of 2 devices, 0 to 3" in run("inspect", plan, "--device", 1, code=1).stderr
    for arguments in ([], ["inspct", plan], ["inspect"], ["inspect", plan, plan], ["inspect", plan, "--jsn"],
                      ["inspect", plan, "--device", "x"], ["verify", plan, "one.yaml"], ["diff", plan], ["help", "x"]):
        done = run(*arguments, code=2)
        same(done.stdout, "")
        assert "usage: shunt" in done.stderr, done.stderr
    assert "the nearest is \"inspect\"" in run("inspct", code=2).stderr
    for verb in PLANNED:
        want = f'shunt: not supported: the verb "{verb}" is not in this version\n'
        same(run(verb, "a", "--b", code=1).stderr, want)


def check_full_disk(_: Path) -> None:
    """Output that cannot be written is an error of the environment."""
    with tempfile.TemporaryDirectory() as folder, open("/dev/full", "w", encoding="utf-8") as full:
        plan = scratch(Path(folder), "tiny.plan", tiny_plan.build())
        for arguments in (["--help"], ["inspect", plan], ["inspect", plan, "--json"], ["inspect", plan, "--ops"],
                          ["verify", plan], ["diff", plan, plan]):
            assert "write to stdout: No space left" in run(*arguments, code=3, stdout=full).stderr


def check_closed_streams(folder: Path) -> None:
    """A stdout that is closed is one that cannot be written; what is opened does not take its place."""
    plan = scratch(folder, "tiny.plan", tiny_plan.build())
    layouts = Path(__file__).parents[3] / "plans" / "layouts"
    made = folder / "made.plan"
    planning = ("plan", layouts / "gpt2-tp4-pp2.yaml", layouts / "gpt2-tp2-pp4.yaml", "-o", made)
    for code, said, arguments in [
            (3, "write to stdout: Bad file descriptor", ("inspect", plan)), (3, "Bad file descriptor", ("--help",)),
            (1, "verify: file", ("verify", scratch(folder, "bad.plan", b"x"))),
            (3, "write to stdout", (*planning, "--json")), (0, "the plan is written", planning)]:
        made.unlink(missing_ok=True)
        done = subprocess.run([SHUNT, *map(str, arguments)], stderr=subprocess.PIPE, text=True, check=False,
                              preexec_fn=lambda: (os.close(0), os.close(1)))
        same((done.returncode, said in done.stderr), (code, True))
        assert arguments[0] != "plan" or "verified" in out("verify", made)


def check_help(_: Path) -> None:
    """Help and man pages of every verb, from the same tables."""
    listing = out("--help")
    same(listing, out("help"))
    for verb in VERBS:
        text, page = out(verb, "--help"), out("help", "--man", verb)
        same(text, out("help", verb))
        same(text.splitlines()[0].split()[:3], ["usage:", "shunt", verb])
        assert all(len(line) <= WIDTH for line in text.splitlines()), text
        assert page.startswith(f".TH SHUNT-{verb.upper()} 1 "), page
        assert f"  {verb} " in listing
        for option in [word for line in text.splitlines() for word in line.split()[:3] if word.startswith("--")]:
            assert option.replace("-", "\\-") in page, f"{verb}: {option} is not in the man page"
    run("help", "--man", code=2)
    assert out("--version").startswith("shunt ")


# ---- report --------------------------------------------------------------------------------


def main() -> int:
    """Run all checks."""
    every_plan = [check_keys, check_buffers, check_ops, check_counts, check_dropped, check_page, check_verified]
    once = [check_golden, check_scratch, check_diff, check_control_characters, check_damage, check_exits,
            check_full_disk, check_closed_streams, check_help]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        plans = [scratch(folder, "tiny.plan", tiny_plan.build()), seed(folder, "scratch.plan")]
        plans += [Path(argument) for argument in sys.argv[1:] if not argument.startswith("--")]
        jobs: list[tuple[Callable[[Path], None], Path]] = [(check, plan) for plan in plans for check in every_plan]
        jobs += [(check, folder) for check in once]
        print(f"TAP version 13\n1..{len(jobs)}", flush=True)
        return int(sum(failed(number, *job) for number, job in enumerate(jobs, 1)) > 0)


def failed(number: int, check: Callable[[Path], None], path: Path) -> bool:
    """Run one check and print its line."""
    title = f"{check.__name__.removeprefix('check_')} {path.name if path.is_file() else ''}".strip()
    try:
        check(path)
    except Exception:  # a fault of the check itself fails the check, not the run
        print("".join(f"# {row}\n" for row in traceback.format_exc(limit=-2).splitlines()), end="")
        print(f"not ok {number} - {title}", flush=True)
        return True
    print(f"ok {number} - {title}", flush=True)
    return False


if __name__ == "__main__":
    sys.exit(main())
