# SPDX-License-Identifier: Apache-2.0
"""shunt-exec on a CUDA device that is the double's: results as on the host, and every failure named.

usage: test_cuda.py EXEC MAKE_PLAN DOUBLES_DIR [NVTX_TOOL]"""

import json
import os
import re
import sys

import process_rig as rig

DOUBLES = sys.argv[3]
LOOPBACK = ("--transport", "loopback")
CUDA = LOOPBACK + ("--device", "cuda")
CALLS = ("cudaSetDevice", "cudaGetDeviceCount", "cudaStreamCreateWithFlags", "cudaLibraryLoadData",
         "cudaLibraryGetKernel", "cudaEventCreateWithFlags", "cudaMallocAsync", "cudaHostAlloc", "cudaMemcpyAsync",
         "cudaMemsetAsync", "cudaEventRecord", "cudaStreamWaitEvent", "cudaLaunchKernel", "cudaEventQuery",
         "cudaStreamQuery")
SHAPES = ((1, 1, 3, 8, 8, 1, 1), (2, 4, 6, 40, 36, 5, 2), (4, 2, 6, 40, 36, 5, 1), (3, 5, 4, 37, 41, 3, 2),
          (8, 8, 5, 64, 64, 4, 2), (1, 8, 2, 33, 129, 2, 2), (5, 3, 20, 7, 300, 30, 2), (2, 2, 2, 512, 520, 2, 2))


def on_double(*args, **env):
    variables = {"SHUNT_" + name: str(value) for name, value in env.items()}
    return rig.run(*args, env={"LD_LIBRARY_PATH": DOUBLES, **variables})


def reports_agree(folder):
    """All figures are those of the host; the seconds differ, and the device has tables."""
    for number, shape in enumerate(SHAPES):
        plan = rig.make_plan(folder, f"{number}.plan", *shape)
        seen = []
        for run in (rig.run(plan, *LOOPBACK, "--fill", 3, "--check", "--json"),
                    on_double(plan, *CUDA, "--fill", 3, "--check", "--json", DOUBLE_JITTER=number + 1)):
            assert run.code == 0, f"{shape}: {run}"
            report = json.loads(run.out)
            for part in [report["totals"], *report["plans"], *report["plans"][0]["devices"]]:
                part.pop("seconds")
                part.pop("table_bytes", None)
                part.pop("device_taken_bytes", None)
            seen.append(report)
        assert seen[0] == seen[1], shape
        assert seen[1]["totals"]["wrong"] == 0 < seen[1]["totals"]["checked"], shape


def chains_keep_their_memory(folder):
    plans = [rig.make_plan(folder, "there.plan", 3, 4, 6, 40, 36, 5, 2),
             rig.make_plan(folder, "back.plan", 3, 4, 6, 40, 36, 4, 1, "swap")]
    stats = os.path.join(folder, "stats")
    run = on_double(*plans, *CUDA, "--fill", 3, "--check", DOUBLE_STATS=stats)
    assert run.code == 0 and "0 wrong" in run.out, run
    with open(stats, encoding="ascii") as file:
        assert json.load(file)["left"] == 0


def rounds_have_times_of_the_device(folder):
    """What the streams say, however late their jobs start; bytes as on the host."""
    plan = rig.make_plan(folder, "s.plan", 3, 4, 6, 40, 36, 6, 2)
    seen = []
    for number, run in enumerate((rig.run, on_double)):
        where = os.path.join(folder, f"statistics-{number}")
        done = run(plan, *(CUDA if number else LOOPBACK), "--fill", 3, "--check", "--statistics", where)
        assert done.code == 0, done
        lines = []
        for name in sorted(os.listdir(where)):
            with open(os.path.join(where, name), encoding="ascii") as file:
                lines += [json.loads(line) for line in file]
        times = [x.pop(f"{what}_seconds") for x in lines for what in ("pack", "wire", "wait", "unpack")]
        assert all(0 <= t < rig.TIMEOUT for t in times) and sum(times) > 0, times
        seen.append(lines)
    assert seen[0] == seen[1] and len(seen[0]) == 24


def overlaps(folder, depth):
    """Jobs that pack or unpack and begin while a message is on the wire, where bytes take their time."""
    plan = rig.make_plan(folder, f"depth-{depth}.plan", 2, 4, 48, 128, 120, 8, depth)
    log = os.path.join(folder, f"log-{depth}")
    if os.path.exists(log):
        os.unlink(log)
    run = on_double(plan, *CUDA, DOUBLE_RATE=40000000, DOUBLE_LOG=log)
    assert run.code == 0, run
    with open(log, encoding="ascii") as file:
        jobs = [tuple(line.split()) for line in file]
    wire = min((job[1] for job in jobs), key=int)  # the device makes that stream before engines make theirs
    found = messages = kernels = 0
    on_wire = False
    for what, stream, call in jobs:
        if stream == wire and call == "cudaMemcpyAsync":
            on_wire = what == "begin"
            messages += on_wire
        elif what == "begin" and call.startswith("cudaLaunchKernel"):
            kernels += 1
            found += on_wire
    assert messages >= 8 and kernels >= 16, (messages, kernels)
    return found


def rounds_overlap(folder):
    """One round at a time never does, whatever the pace. With two, the next one's packs begin while messages are on the
    wire; should the host come too late for that in all eight rounds, it is tried again."""
    assert overlaps(folder, 1) == 0
    assert any(overlaps(folder, 2) for _ in range(20))


def checksums_are_taken(folder):
    """Of every piece, and what they need is given back; how they find bytes that change, test_checksum.c tells."""
    stats = os.path.join(folder, "stats")
    for number, shape in enumerate(SHAPES):
        plan = rig.make_plan(folder, f"c{number}.plan", *shape)
        run = on_double(plan, *CUDA, "--fill", 3, "--check", "--checksum", "--json", DOUBLE_JITTER=number + 1,
                        DOUBLE_STATS=stats)
        if "checksums are not supported" in run.err:
            raise rig.Skip("built without xxhash")
        assert run.code == 0, f"{shape}: {run}"
        for device in json.loads(run.out)["plans"][0]["devices"]:
            assert device["checksummed"] == device["moved_received"], device
    with open(stats, encoding="ascii") as file:
        assert all(json.loads(line)["left"] == 0 for line in file)


def profilers_see_rounds(folder):
    """Every range is closed, inner ones in their order; there is one of each kind for each device and round."""
    if len(sys.argv) < 5:
        raise rig.Skip("built without nvtx3/nvToolsExt.h")
    plan = rig.make_plan(folder, "n.plan", 2, 3, 6, 40, 36, 5, 2)
    log = os.path.join(folder, "ranges")
    for how, env in ((LOOPBACK, {}), (CUDA, {"LD_LIBRARY_PATH": DOUBLES})):
        run = rig.run(plan, *how, "--fill", 3, env={"NVTX_INJECTION64_PATH": sys.argv[4], "SHUNT_NVTX_LOG": log, **env})
        assert run.code == 0, run
        inner, outer, seen = [], {}, []
        with open(log, encoding="ascii") as file:
            for words in map(str.split, file):
                if words[0] == "push":
                    inner.append(words[1:])
                elif words[0] == "pop":
                    seen.append(tuple(inner.pop()))
                elif words[0] == "start":
                    outer[words[1]] = words[2:]
                else:
                    seen.append(tuple(outer.pop(words[1])))
        assert not inner and not outer, (inner, outer)
        want = [(kind, str(device), str(k)) for k in range(5) for device in range(3) for kind in ("pack", "unpack")]
        want += [(kind, "0", str(k)) for k in range(5) for kind in ("round", "wire", "wait")]
        assert sorted(seen) == sorted(want), seen


def wrong_plans_are_found(folder):
    plan = rig.make_plan(folder, "wrong.plan", 2, 4, 6, 40, 36, 5, 2, "wrong")
    run = on_double(plan, *CUDA, "--fill", 3, "--check", "--no-verify")
    assert run.code == 1 and "check failed: device" in run.err and "elements wrong" in run.err, run


def memory_is_the_plans(folder):
    """One device: the double has counted what the plan says, and not a byte less would do."""
    plan = rig.make_plan(folder, "one.plan", 1, 1, 3, 8, 8, 2, 2)
    stats = os.path.join(folder, "stats")
    report = json.loads(on_double(plan, *CUDA, "--fill", 3, "--check", "--json", DOUBLE_STATS=stats).out)
    device = report["plans"][0]["devices"][0]
    with open(stats, encoding="ascii") as file:
        peak = json.load(file)["peak"]
    assert 0 < device["device_taken_bytes"] <= peak, (peak, device)
    assert peak == device["plan_peak_bytes"] + device["table_bytes"], (peak, device)
    assert on_double(plan, *CUDA, "--fill", 3, DOUBLE_MEMORY=peak).code == 0
    run = on_double(plan, *CUDA, "--fill", 3, DOUBLE_MEMORY=peak - 1)
    assert run.code == 3 and "device 0: round " in run.err and "no memory for param/" in run.err, run


def failed_calls_are_named(folder):
    """Whatever call fails, whenever: the run ends with its name, and with no misuse on the way out."""
    plan = rig.make_plan(folder, "p.plan", 2, 3, 4, 24, 36, 4, 2)
    for call in CALLS:
        failed = 0
        for number in (1, 2, 3, 5, 8, 13, 21, 34, 55):
            run = on_double(plan, *CUDA, "--fill", 3, "--check", DOUBLE_FAIL=f"{call}:{number}", DOUBLE_JITTER=number)
            if run.code == 0:  # there are not so many calls, or it was one of those that give things back
                assert number > 1, f"{call}:{number}: {run}"
                continue
            assert run.code == 3, f"{call}:{number}: {run}"
            assert "cuda double:" not in run.err and "device " in run.err, f"{call}:{number}: {run}"
            named = f"{call}: unknown error (cudaErrorUnknown)" in run.err
            assert named or "no memory for param/" in run.err, f"{call}:{number}: {run}"
            failed += 1
        assert failed > 0, call


def rounds_are_named(folder):
    """How often an event is queried hangs on the pace of the machine: numbers are tried until two rounds were seen."""
    plan = rig.make_plan(folder, "r.plan", 2, 4, 6, 40, 36, 6, 2)
    for call in ("cudaLaunchKernel", "cudaStreamWaitEvent", "cudaEventQuery", "cudaEventRecord"):
        seen, number = set(), 4
        for _ in range(60):
            run = on_double(plan, *CUDA, "--fill", 3, DOUBLE_FAIL=f"{call}:{number}")
            if run.code == 0:  # it was never called so often
                number = max(1, number // 2)
                continue
            found = re.search(rf"device \d: (round \d): {call}: unknown error", run.err)
            assert run.code == 3 and found, run
            seen.add(found[1])
            if len(seen) > 1:
                break
            number += 1 + number // 4
        assert len(seen) > 1, f"{call}: {seen}"


def machines_without_a_gpu(folder):
    plan = rig.make_plan(folder, "n.plan", 1, 1, 1, 8, 8, 1, 1)
    run = on_double(plan, *CUDA, DOUBLE_DEVICES=0)
    assert run.code == 3 and "device cuda:0: cudaGetDeviceCount: CUDA driver version is insufficient" in run.err, run
    run = on_double(plan, *LOOPBACK, "--device", "cuda:7")
    assert run.code == 2 and "device cuda:7: there are 1 CUDA devices" in run.err, run
    assert on_double(plan, *LOOPBACK, "--device", "cuda:3", "--fill", 1, DOUBLE_DEVICES=4).code == 0
    for words, code, text in (("cuda:x", 2, 'found "x", expected a number'), ("gpu", 2, 'no device is called "gpu"'),
                              ("host:1", 2, "there is one host")):
        run = on_double(plan, *LOOPBACK, "--device", words)
        assert run.code == code and text in run.err, run
    if rig.has_ucx():
        run = on_double(plan, "--transport", "ucx", "--launch", "1", "--device", "cuda")
        assert run.code == 1 and "transport ucx with device cuda: it moves host memory only" in run.err, run


def other_libraries(folder):
    """That of CUDA 12 serves where the one of 13 cannot be loaded; without either the error says so."""
    plan = rig.make_plan(folder, "o.plan", 2, 2, 2, 8, 8, 2, 2)
    names = [os.path.join(folder, f"libcudart.so.{version}") for version in (13, 12)]
    for name in names:
        with open(name, "w", encoding="ascii") as file:
            file.write("no library")
    run = rig.run(plan, *CUDA, env={"LD_LIBRARY_PATH": folder})
    assert run.code == 3 and "device cuda:0: no CUDA Runtime library: neither libcudart.so.13 nor" in run.err, run
    os.unlink(names[1])
    os.symlink(os.path.join(DOUBLES, "cuda12", "libcudart.so.12"), names[1])
    run = rig.run(plan, *CUDA, "--fill", 1, "--check", env={"LD_LIBRARY_PATH": folder})
    assert run.code == 0 and " 0 wrong" in run.out, run


CASES = [reports_agree, chains_keep_their_memory, rounds_have_times_of_the_device, rounds_overlap,
         checksums_are_taken, profilers_see_rounds, wrong_plans_are_found, memory_is_the_plans, failed_calls_are_named,
         rounds_are_named, machines_without_a_gpu, other_libraries]


rig.main(CASES)
