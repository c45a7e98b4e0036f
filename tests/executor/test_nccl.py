# SPDX-License-Identifier: Apache-2.0
"""shunt-exec over NCCL, with doubles of it and of the CUDA Runtime: the bytes of every move, and every failure named.

usage: test_nccl.py EXEC MAKE_PLAN DOUBLES_DIR"""

import json
import os
import re
import signal
import subprocess
import sys
import time

import process_rig as rig

DOUBLES = sys.argv[3]
LOOPBACK = ("--transport", "loopback")
NCCL = ("--transport", "nccl")
SHAPES = ((1, 2, 3, 8, 8, 1, 1), (2, 4, 6, 40, 36, 5, 2), (4, 2, 6, 40, 36, 5, 1), (3, 5, 4, 37, 41, 3, 2),
          (8, 8, 5, 64, 64, 4, 2), (4, 8, 2, 33, 129, 2, 2), (5, 3, 20, 7, 300, 30, 2), (2, 2, 2, 512, 520, 2, 2))
CALLS = ("ncclGetUniqueId", "ncclCommInitRankConfig", "init", "ncclCommGetAsyncError", "ncclGroupStart", "ncclSend",
         "ncclRecv", "ncclGroupEnd", "group")
SECONDS = 30  # from a fault to the end of everybody: against a hang


def doubled(env=None, **variables):
    return {"LD_LIBRARY_PATH": DOUBLES, "SHUNT_DOUBLE_DEVICES": "8", **(env or {}),
            **{"SHUNT_DOUBLE_" + name: str(value) for name, value in variables.items()}}


def launch(plan, devices, *args, **variables):
    plans = plan if isinstance(plan, list) else [plan]
    return rig.run(*plans, "--launch", devices, *NCCL, *args, env=doubled(**variables))


def start_members(plans, folder, *args, extra=None):
    """One process per plan, each with an environment of its own."""
    common = ("--meet", folder, "--job", "job", "--timeout", 20, *NCCL, *args)
    return [rig.start(plan, *common, env=doubled({"SHUNT_RANK": str(rank), "SHUNT_WORLD_SIZE": str(len(plans)),
                                                  "SHUNT_LOCAL_RANK": str(rank), **(extra or {}).get(rank, {})}))
            for rank, plan in enumerate(plans)]


def reports_agree(folder):
    """All figures are those of the host in one process, however late the jobs of the streams start."""
    for number, shape in enumerate(SHAPES):
        plan = rig.make_plan(folder, f"{number}.plan", *shape)
        seen = []
        for done in (rig.run(plan, *LOOPBACK, "--fill", 3, "--check", "--json"),
                     launch(plan, max(shape[:2]), "--fill", 3, "--check", "--json", JITTER=number + 1)):
            rig.expect(done, 0)
            report = json.loads(done.out)
            assert report.pop("transport") in ("loopback", "nccl"), report
            for part in [report["totals"], *report["plans"], *report["plans"][0]["devices"]]:
                part.pop("seconds")
                part.pop("table_bytes", None)
                part.pop("device_taken_bytes", None)
            seen.append(report)
        assert seen[0] == seen[1], f"{shape}: {seen}"
        assert seen[1]["totals"]["wrong"] == 0 < seen[1]["totals"]["checked"], shape


def files_are_the_same(folder):
    """A chain from files to files, against the host in one process."""
    plans = [rig.make_plan(folder, "there.plan", 3, 8, 6, 40, 36, 5, 2),
             rig.make_plan(folder, "back.plan", 3, 8, 6, 40, 36, 4, 1, "swap")]
    sets = [os.path.join(folder, name) for name in ("first", "host", "nccl")]
    rig.expect(rig.run(plans[1], *LOOPBACK, "--fill", 5, "--store", sets[0]), 0)
    rig.expect(rig.run(*plans, *LOOPBACK, "--load", sets[0], "--store", sets[1]), 0)
    rig.expect(launch(plans, 8, "--load", sets[0], "--store", sets[2], JITTER=3), 0)
    names = [name for name in os.listdir(sets[0]) if name.startswith("rank-")]
    assert len(names) == 3, names
    for name in names:
        contents = []
        for one in sets:
            with open(os.path.join(one, name), "rb") as file:
                contents.append(file.read())
        assert contents[0] == contents[1] == contents[2], name


def memory_is_the_plans(folder):
    """What the double of CUDA has counted on each device, connections of NCCL apart."""
    plan = rig.make_plan(folder, "m.plan", 4, 8, 6, 64, 64, 6, 2)
    stats = os.path.join(folder, "stats")
    done = launch(plan, 8, "--fill", 3, "--json", STATS=stats, CONNECTION=0)
    rig.expect(done, 0)
    with open(stats, encoding="ascii") as file:
        counted = [json.loads(line) for line in file]
    said = json.loads(done.out)["plans"][0]["devices"]
    assert sorted(c["peak"] for c in counted) == sorted(d["plan_peak_bytes"] + d["table_bytes"] for d in said), counted
    assert [c["left"] for c in counted] == [0] * 8, counted
    done = launch(plan, 8, "--fill", 3, CONNECTION=1 << 30, MEMORY=2 << 30)
    rig.expect(done, 3, "unhandled cuda error: out of memory for a connection")


def journals_are_kept(folder):
    plan = rig.make_plan(folder, "j.plan", 2, 4, 6, 40, 36, 5, 2)
    rig.expect(launch(plan, 4, "--fill", 3, "--check", "--journal", os.path.join(folder, "journals")), 0)
    done = rig.run(plan, "--read-journal", os.path.join(folder, "journals"))
    rig.expect(done, 0)
    assert done.out.count("5 of 5 rounds") == 4, done


def failed_calls_are_named(folder):
    """Whatever call fails, whenever: the run ends with its name, and with no misuse on the way out."""
    plan = rig.make_plan(folder, "f.plan", 2, 3, 4, 24, 36, 4, 2)
    for call in CALLS:
        failed = 0
        for number in (1, 4):
            done = launch(plan, 3, "--fill", 3, FAIL=f"{call}:{number}", JITTER=number)
            if done.code == 0:  # there are not so many calls
                assert number > 1, f"{call}:{number}: {done}"
                continue
            assert done.code == 3, f"{call}:{number}: {done}"
            assert "cuda double:" not in done.err and re.search(r"device \d", done.err), f"{call}:{number}: {done}"
            assert re.search("ncclCommInitRankConfig: |ncclGroupEnd: |ncclSend or ncclRecv: |NCCL: |" + call + ": ",
                             done.err), f"{call}:{number}: {done}"
            failed += 1
        assert failed > 0, call


def long_plan(folder):
    return rig.make_plan(folder, "long.plan", 2, 4, 400, 64, 640, 400, 2)


def hit_one(plan, device, number, delay, *args, **variables):
    """Launch four, send a signal to one of them after a while."""
    watch = rig.Watch()
    process = rig.start(plan, "--launch", 4, *NCCL, "--fill", 1, *args, env=doubled(**variables))
    pids = rig.wait_for_children(process, 4)
    watch.pids = pids + [process.pid]
    time.sleep(delay)
    try:
        os.kill(pids[device], number)
    except ProcessLookupError:
        pass
    begin = time.monotonic()
    done = rig.Done(process)
    assert time.monotonic() - begin < SECONDS, done
    watch.check()
    return done


def kills_are_named(folder):
    """At any moment, whether NCCL notices or not, and even if aborting it does not return."""
    plan = long_plan(folder)
    hits = 0
    for trial, variables in enumerate(({}, {"DEAD": "error"}, {}, {"ABORT": "hang"}, {}, {"DEAD": "error"})):
        device = (trial + 1) % 4
        done = hit_one(plan, device, signal.SIGKILL, 0.04 * trial, **variables)
        if done.code == 0:
            continue
        hits += 1
        assert done.code == 3 and f"device {device} (pid" in done.err and "is lost" in done.err, f"{trial}: {done}"
        assert "cuda double:" not in done.err or "ABORT" in variables, f"{trial}: {done}"
    assert hits >= 3, hits


def stopped_processes_time_out(folder):
    plan = long_plan(folder)
    done = hit_one(plan, 2, signal.SIGSTOP, 0.15, "--timeout", 2)
    if done.code != 0:
        rig.expect(done, 3, "timed out after 2 s")
        assert re.search(r"device 2 (\(pid|has not come to the meeting)", done.err), done


def the_missing_peer_is_named(folder):
    """A message that is lost: its receiver, its sender and its tensor; also where host memory is to be given back, which
    waits for the whole round."""
    for old, sender, kind in ((2, "1", ()), (4, r"\d", ("host",))):  # of host memory, whoever waits is in the circle
        meeting = os.path.join(folder, f"meeting-{old}")
        os.mkdir(meeting)
        plan = rig.make_plan(folder, "d.plan", old, 4, 40, 64, 64, 20, 2, *kind)
        processes = start_members([plan] * 4, meeting, "--fill", 3, "--timeout", 3,
                                  extra={1: {"SHUNT_SPOIL": "drop:20"}})
        ends = [rig.Done(process) for process in processes]
        assert [done.code for done in ends] == [3] * 4, [str(done) for done in ends]
        text = "".join(done.err for done in ends)
        assert re.search(r"timed out after 3 s in round \d+", text) and "device 1 (pid" in text, text
        assert re.search(rf"; param/layers.\d+.weight from device {sender} has not come", text), text


def devices_are_local_ranks(folder):
    plan = rig.make_plan(folder, "l.plan", 2, 3, 4, 24, 36, 4, 2)
    rig.expect(launch(plan, 3, "--fill", 3, "--device", "cuda"), 0)
    done = rig.run(plan, "--launch", 3, *NCCL, env=doubled(DEVICES=2))
    rig.expect(done, 2, "device cuda:2: there are 2 CUDA devices")
    done = launch(plan, 3, "--device", "cuda:0")
    rig.expect(done, 3, "ncclCommInitRankConfig: invalid usage: Duplicate GPU detected", "CUDA device 0")
    assert "cuda double:" not in done.err, done
    apart = {rank: {"NCCL_HOSTID": f"host-{rank}"} for rank in range(3)}
    for process in start_members([plan] * 3, folder, "--fill", 3, "--check", "--device", "cuda:0", extra=apart):
        rig.expect(rig.Done(process), 0)
    rig.expect(launch(plan, 3, "--device", "host"), 1, "transport nccl with device host: it moves cuda memory only")


def members_must_agree(folder):
    plan = rig.make_plan(folder, "p.plan", 2, 3, 4, 24, 36, 4, 2)
    other = rig.make_plan(folder, "q.plan", 2, 3, 4, 24, 36, 3, 2)
    for number, (plans, extra, text) in enumerate((
            ([plan, plan, other], {}, "device 2 has a plan file of the same id"),
            ([plan] * 3, {1: {"SHUNT_DOUBLE_NCCL": "22907"}}, "device 1 has another version of the transport's library"))):
        meeting = os.path.join(folder, str(number))
        os.mkdir(meeting)
        where = os.path.join(folder, "statistics")
        os.makedirs(where, exist_ok=True)
        for device in (1, 3):  # of an earlier run, with more devices
            with open(os.path.join(where, f"device-0000{device}.jsonl"), "w", encoding="ascii") as file:
                file.write("{}\n")
        for process in start_members(plans, meeting, "--fill", 3, "--statistics", where, extra=extra):
            rig.expect(rig.Done(process), 1, text)
        assert sorted(os.listdir(where)) == [f"device-0000{device}.jsonl" for device in range(3)], os.listdir(where)
        for device in range(3):
            with open(os.path.join(where, f"device-0000{device}.jsonl"), encoding="ascii") as file:
                rows = [json.loads(line) for line in file]
            seen = [(row["device"], row["round"], row["finished"]) for row in rows]
            assert seen == [(device, k, False) for k in range(len(rows))] and rows, seen


def machines_apart(folder):
    """Control connections between machines take the interface that is named, here the one that nobody else reaches."""
    plan = rig.make_plan(folder, "h.plan", 2, 3, 4, 24, 36, 4, 2)
    for name, code, text in (("lo", 0, ""), ("none", 2, 'SHUNT_INTERFACE: found "none", expected an interface')):
        meeting = os.path.join(folder, name)
        os.mkdir(meeting)
        apart = {rank: {"SHUNT_HOST": f"host-{rank}", "SHUNT_INTERFACE": name} for rank in range(3)}
        ends = [rig.Done(each) for each in start_members([plan] * 3, meeting, "--fill", 3, "--check", extra=apart)]
        rig.expect(ends[0], code, text)
        assert [end.code for end in ends] == ([0] * 3 if code == 0 else [2, 3, 3]), [str(end) for end in ends]


def other_libraries(folder):
    plan = rig.make_plan(folder, "o.plan", 2, 2, 2, 8, 8, 2, 2)
    with open(os.path.join(folder, "libnccl.so.2"), "w", encoding="ascii") as file:
        file.write("no library")
    done = rig.run(plan, "--launch", 2, *NCCL, env={"LD_LIBRARY_PATH": folder + ":" + DOUBLES})
    rig.expect(done, 3, "transport nccl: no NCCL library: libnccl.so.2 cannot be loaded")
    assert done.err.count("no NCCL library") == 1 and "device" not in done.err, done
    source = os.path.join(folder, "old.c")
    with open(source, "w", encoding="ascii") as file:
        file.write("int ncclGetVersion(int *v);\nint ncclGetVersion(int *v) { *v = 2000; return 0; }\n")
    if subprocess.run(["cc", "-shared", "-fPIC", "-o", os.path.join(folder, "libnccl.so.2"), source],
                      check=False).returncode == 0:
        done = rig.run(plan, "--launch", 2, *NCCL, env={"LD_LIBRARY_PATH": folder + ":" + DOUBLES})
        rig.expect(done, 3, "the NCCL library has no ncclCommAbort: version 2.14 or later is needed")


CASES = [reports_agree, files_are_the_same, memory_is_the_plans, journals_are_kept, failed_calls_are_named,
         kills_are_named, stopped_processes_time_out, the_missing_peer_is_named, devices_are_local_ranks,
         members_must_agree, machines_apart, other_libraries]

rig.main(CASES)
