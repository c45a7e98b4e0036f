# SPDX-License-Identifier: Apache-2.0
"""shunt-exec as a user runs it: results, refusals, chains, files, other launchers. Needs two arguments: the
programs shunt-exec and make_plan."""

import json
import os
import re
import signal
import struct
import time

import process_rig as rig

MASK = (1 << 64) - 1


def mix(x):
    x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & MASK
    return x ^ (x >> 31)


def pattern(seed, state, name, count):
    """The first `count` bytes of a tensor's stream, written from io/pattern.h's description."""
    key = mix((seed + 0x9E3779B97F4A7C15) & MASK) ^ mix(state + 1)
    for c in name.encode():
        key = (mix(key ^ c) + 0x9E3779B97F4A7C15) & MASK
    key = mix(key)
    return b"".join(struct.pack("<Q", mix((key + i) & MASK)) for i in range(count // 8 + 1))[:count]


def read_safetensors(path):
    with open(path, "rb") as file:
        data = file.read()
    length = struct.unpack("<Q", data[:8])[0]
    header = json.loads(data[8:8 + length])
    header.pop("__metadata__")
    body = data[8 + length:]
    return {n: (e["shape"], body[e["data_offsets"][0]:e["data_offsets"][1]]) for n, e in header.items()}


def need_ucx():
    if not rig.has_ucx():
        raise rig.Skip("built without UCX")


def runs_over_loopback(folder):
    plan = rig.make_plan(folder, "a.plan", 2, 3, 5, 10, 11, 3, 2)
    done = rig.run(plan, "--transport", "loopback", "--fill", 7, "--check")
    rig.expect(done, 0)
    assert done.out.splitlines()[-1] == "OK: 700 bytes moved, 1200 bytes checked, 0 wrong", done
    assert "1200 bytes checked, 0 wrong, 0 never written" in done.out, done


def runs_over_ucx(folder):
    need_ucx()
    watch = rig.Watch()
    plan = rig.make_plan(folder, "a.plan", 2, 3, 5, 10, 11, 3, 2)
    done = rig.run(plan, "--launch", 3, "--fill", 7, "--check")
    rig.expect(done, 0)
    assert done.out.splitlines()[-1] == "OK: 700 bytes moved, 1200 bytes checked, 0 wrong", done
    done = rig.run(plan, "--launch", 3, "--transport", "ucx")
    rig.expect(done, 0)
    assert done.out.splitlines()[-1] == "OK: 700 bytes moved", done
    watch.check()


def names_a_missing_library(folder):
    """UCX is not linked: everything else works without it, and who asks for it is told, once."""
    need_ucx()
    plan = rig.make_plan(folder, "a.plan", 2, 3, 5, 10, 11, 3, 2)
    with open(os.path.join(folder, "libucp.so.0"), "w", encoding="ascii") as file:
        file.write("no library")
    there = {"LD_LIBRARY_PATH": folder}
    done = rig.run(plan, "--launch", 3, env=there)
    rig.expect(done, 3, "shunt-exec: no UCX library: libucp.so.0 cannot be loaded (")
    assert done.err.count("no UCX library") == 1, done
    rig.expect(rig.run(plan, "--transport", "loopback", "--fill", 1, "--check", env=there), 0)
    rig.expect(rig.run("--list", env=there), 0)


def moves_large_messages(folder):
    need_ucx()
    plan = rig.make_plan(folder, "a.plan", 3, 4, 7, 1000, 3001, 4, 2)
    done = rig.run(plan, "--launch", 4, "--fill", 1, "--check")
    rig.expect(done, 0, ", 0 wrong, 0 never written")


def stays_under_its_peak(folder):
    """What the kernel counts as resident, against what the plan says: a few megabytes more for program and UCX."""
    need_ucx()
    plan = rig.make_plan(folder, "a.plan", 3, 4, 40, 1024, 1024, 20, 2)
    process = rig.start(plan, "--launch", 4, "--fill", 1, "--json")
    pids = rig.wait_for_children(process, 4)
    high = [0] * 4
    while process.poll() is None:
        for i, pid in enumerate(pids):
            try:
                with open(f"/proc/{pid}/maps", encoding="ascii") as file:
                    if "libasan" in file.read():
                        process.communicate()
                        raise rig.Skip("a sanitiser has memory of its own")
                with open(f"/proc/{pid}/status", encoding="ascii") as file:
                    high[i] = max(high[i], int(re.search(r"VmHWM:\s+(\d+)", file.read()).group(1)) * 1024)
            except (OSError, AttributeError):
                pass
        time.sleep(0.002)
    done = rig.Done(process)
    rig.expect(done, 0)
    for device in json.loads(done.out)["plans"][0]["devices"]:
        assert device["peak_bytes"] > 10e6, device
        assert high[device["device"]] < device["plan_peak_bytes"] + 24e6, (high, device)


def prints_json(folder):
    plan = rig.make_plan(folder, "a.plan", 2, 3, 5, 10, 11, 3, 2)
    for how in (["--transport", "loopback"], ["--launch", "3"]):
        if how[0] == "--launch" and not rig.has_ucx():
            continue
        done = rig.run(plan, *how, "--fill", 7, "--check", "--json")
        rig.expect(done, 0)
        report = json.loads(done.out)
        assert report["status"] == "ok" and report["error"] is None and report["devices"] == 3, report
        assert report["totals"]["moved"] == 700 and report["totals"]["checked"] == 1200, report
        first = report["plans"][0]
        assert len(first["plan_id"]) == 64 and len(first["devices"]) == 3, report
        for device in first["devices"]:
            assert 0 < device["peak_bytes"] <= device["plan_peak_bytes"], device
        assert sum(d["moved_sent"] for d in first["devices"]) == 700, report
        assert sum(d["moved_received"] for d in first["devices"]) == 700, report
    done = rig.run(os.path.join(folder, "none.plan"), "--transport", "loopback", "--json")
    rig.expect(done, 3)
    report = json.loads(done.out)
    assert report["status"] == "io" and "none.plan" in report["error"], report


def runs_a_chain(folder):
    there = rig.make_plan(folder, "a.plan", 2, 3, 5, 10, 11, 3, 2)
    back = rig.make_plan(folder, "b.plan", 2, 3, 5, 10, 11, 2, 1, "swap")
    ways = [["--transport", "loopback"]] + ([["--launch", "3"]] if rig.has_ucx() else [])
    for how in ways:
        done = rig.run(there, back, there, *how, "--fill", 7, "--check")
        rig.expect(done, 0)
        assert done.out.splitlines()[-1] == "OK: 2100 bytes moved, 3500 bytes checked, 0 wrong", done
    done = rig.run(there, there, "--transport", "loopback")
    rig.expect(done, 1, "is not the old layout of")
    other = rig.make_plan(folder, "c.plan", 2, 3, 5, 12, 11, 2, 1, "swap")
    rig.expect(rig.run(there, other, "--transport", "loopback"), 1, "different models")


def set_names(ranks):
    return [f"rank-0000{r}.safetensors" for r in range(ranks)] + ["shunt-store.json"]


def contents(folder):
    files = {}
    for name in os.listdir(folder):
        with open(os.path.join(folder, name), "rb") as file:
            files[name] = file.read()
    return files


def stores_one_set(folder):
    """One folder for both sides, there and back; and what is refused before anything moves leaves it as it was."""
    there = rig.make_plan(folder, "a.plan", 2, 3, 3, 10, 11, 3, 2)
    back = rig.make_plan(folder, "b.plan", 2, 3, 3, 10, 11, 2, 1, "swap")
    how = ["--launch", "3"] if rig.has_ucx() else ["--transport", "loopback"]
    there_set, here = os.path.join(folder, "set"), os.path.join(folder, "here")
    rig.expect(rig.run(back, *how, "--fill", 5, "--store", here), 0)
    rig.expect(rig.run(back, *how, "--fill", 5, "--store", there_set), 0)
    before = contents(there_set)
    same = ["--load", there_set, "--store", there_set]
    rig.expect(rig.run(there, *how, *same), 0)
    assert sorted(os.listdir(there_set)) == set_names(3), os.listdir(there_set)
    manifest = json.loads(contents(there_set)["shunt-store.json"])
    assert [f["bytes"] for f in manifest["files"]] == [len(contents(there_set)[f["name"]]) for f in manifest["files"]]
    rig.expect(rig.run(there, *how, *same), 1, "a set of 3 ranks, the plan's old side has 2")
    rig.expect(rig.run(back, *how, *same), 0)
    assert sorted(os.listdir(there_set)) == set_names(2), os.listdir(there_set)
    after = contents(there_set)
    assert {n: d for n, d in after.items() if "rank" in n} == {n: d for n, d in before.items() if "rank" in n}
    flip = os.path.join(there_set, "rank-00001.safetensors")
    with open(flip, "r+b") as file:
        file.seek(-3, os.SEEK_END)
        byte = file.read(1)[0]
        file.seek(-3, os.SEEK_END)
        file.write(bytes([byte ^ 1]))
    rig.expect(rig.run(there, *how, *same), 1, "rank-00001.safetensors: checksum is ")
    with open(flip, "ab") as file:
        file.write(b"x")
    rig.expect(rig.run(there, *how, *same), 1, "not of the size that shunt-store.json says: rank-00001.safetensors")
    os.unlink(flip)
    rig.expect(rig.run(there, *how, *same), 3, "missing: rank-00001.safetensors")
    with open(os.path.join(here, "rank-00007.safetensors"), "wb"):
        pass
    before = contents(here)
    rig.expect(rig.run(there, *how, "--load", here, "--store", os.path.join(folder, "new")), 1, "not of them: rank-00007")
    assert not os.path.exists(os.path.join(folder, "new"))
    rig.expect(rig.run(there, *how, "--fill", 1, "--store", here), 1, "has 3 ranks and would leave these")
    manifest = os.path.join(here, "shunt-store.json")
    os.rename(manifest, manifest + ".away")
    rig.expect(rig.run(there, *how, "--fill", 1, "--store", here), 1,
               f"{here} has no shunt-store.json, so files of other ranks (rank-00007.safetensors) are not removed: "
               "choose another DIR, or remove them")
    os.rename(manifest + ".away", manifest)
    rig.expect(rig.run(there, *how, "--fill", 1, "--store", os.path.join(folder, "no", "set")), 3, "make directory")
    os.unlink(os.path.join(here, "rank-00007.safetensors"))
    os.mkdir(os.path.join(here, "rank-00002.safetensors"))
    rig.expect(rig.run(there, *how, "--fill", 1, "--store", here), 1, "rank-00002.safetensors")
    os.rmdir(os.path.join(here, "rank-00002.safetensors"))
    before.pop("rank-00007.safetensors")
    assert contents(here) == before


def stores_and_loads(folder):
    there = rig.make_plan(folder, "a.plan", 2, 3, 3, 10, 11, 3, 2)
    back = rig.make_plan(folder, "b.plan", 2, 3, 3, 10, 11, 2, 1, "swap")
    how = ["--launch", "3"] if rig.has_ucx() else ["--transport", "loopback"]
    new, old = os.path.join(folder, "new"), os.path.join(folder, "old")
    rig.expect(rig.run(there, *how, "--fill", 5, "--store", new), 0)
    rig.expect(rig.run(back, *how, "--load", new, "--store", old), 0)
    assert sorted(os.listdir(new)) == set_names(3), os.listdir(new)
    assert sorted(os.listdir(old)) == set_names(2), os.listdir(old)
    for rank in range(2):  # rows of rank r: 5 r to 5 r + 4
        tensors = read_safetensors(os.path.join(old, f"rank-0000{rank}.safetensors"))
        assert len(tensors) == 3
        for name, (shape, data) in tensors.items():
            assert shape == [5, 11], (name, shape)
            whole = pattern(5, 0, name.split("/", 1)[1], 10 * 11 * 2)
            assert data == whole[rank * 110:(rank + 1) * 110], (rank, name)
    for rank in range(3):  # columns of rank r: 4 r to 4 r + 3; the last one is a pad
        for name, (shape, data) in read_safetensors(os.path.join(new, f"rank-0000{rank}.safetensors")).items():
            assert shape == [10, 4], (name, shape)
            whole = pattern(5, 0, name.split("/", 1)[1], 10 * 11 * 2)
            for row in range(10):
                want = whole[(row * 11 + 4 * rank) * 2:(row * 11 + min(4 * rank + 4, 11)) * 2].ljust(8, b"\0")
                assert data[row * 8:row * 8 + 8] == want, (rank, name, row)


def loses_no_results(folder):
    """A stdout that is closed, or full, is an error of its own; a worse one stays what it is."""
    plan = rig.make_plan(folder, "a.plan", 2, 3, 3, 10, 11, 3, 2)
    wrong = rig.make_plan(folder, "w.plan", 2, 3, 3, 10, 11, 3, 2, "wrong")
    how = ["--launch", "3"] if rig.has_ucx() else ["--transport", "loopback"]

    def close_all():
        rig.heed_signals()
        os.close(0)
        os.close(1)

    def fill():
        rig.heed_signals()
        os.dup2(os.open("/dev/full", os.O_WRONLY), 1)

    for before, said in (close_all, "Bad file descriptor"), (fill, "No space left"):
        for more in [], ["--json"]:
            done = rig.run(plan, *how, "--fill", 1, "--check", *more, before=before)
            rig.expect(done, 3, f"write the results to stdout: {said}")
        rig.expect(rig.run("--help", before=before), 3, said)
        done = rig.run(wrong, *how, "--fill", 1, "--check", "--no-verify", before=before)
        rig.expect(done, 1, "check failed")


def refuses_bad_files(folder):
    plan = rig.make_plan(folder, "a.plan", 2, 3, 3, 10, 11, 3, 2)
    how = ["--launch", "3"] if rig.has_ucx() else ["--transport", "loopback"]
    rig.expect(rig.run(plan, *how, "--load", folder), 3, "missing: rank-00000.safetensors, rank-00001.safetensors")
    for rank in range(2):
        with open(os.path.join(folder, f"rank-0000{rank}.safetensors"), "wb") as file:
            file.write(struct.pack("<Q", 2) + b"{}")
    rig.expect(rig.run(plan, *how, "--load", folder), 1, "param/layers.0.weight: no such entry")


def refuses_wrong_usage(folder):
    plan = rig.make_plan(folder, "a.plan", 2, 3, 3, 10, 11, 3, 2)
    text = os.path.join(folder, "text")
    with open(text, "w", encoding="ascii") as file:
        file.write("not a plan, but longer than its header would be: " + "x" * 400)
    for code, said, args in [
            (2, "no PLAN given", []),
            (2, "unknown option --nope", [plan, "--nope"]),
            (2, "unknown option -x;", [plan, "-x"]),
            (2, "unknown option -q;", [plan, "--json", "-qz"]),
            (2, "option --json takes no value, found \"1\"", [plan, "--json=1"]),
            (2, "option --l can mean --launch, --load, --list", [plan, "--l", "1"]),
            (2, "give --load DIR or --fill SEED too", [plan, "--launch", 3, "--store", folder]),
            (2, "--check predicts", [plan, "--launch", 3, "--check"]),
            (2, "give --load DIR or --fill SEED too", [plan, "--launch", 3, "--replicas"]),
            (2, "choose one", [plan, "--launch", 3, "--fill", 1, "--load", folder]),
            (2, "found \"x\"", [plan, "--launch", "x"]),
            (2, "found \"0\"", [plan, "--launch", "0"]),
            (2, "found \"-1\"", [plan, "--launch", 3, "--fill", "-1"]),
            (2, "found \"0\"", [plan, "--launch", 3, "--timeout", "0"]),
            (2, "needs a value", [plan, "--fill"]),
            (2, "no transport is called \"tcp\"", [plan, "--transport", "tcp"]),
            (2, "the plan has 3 devices", [plan, "--launch", 4, "--transport", "loopback"]),
            (1, "transport nccl", [plan, "--launch", 3, "--transport", "nccl", "--device", "host"]),
            (1, "text", [text, "--transport", "loopback"]),
            (3, "none", [os.path.join(folder, "none"), "--transport", "loopback"])]:
        rig.expect(rig.run(*args), code, said)
    if rig.has_ucx():
        rig.expect(rig.run(plan, "--launch", 4), 2, "--launch 4: the plan has 3 devices")
        rig.expect(rig.run(plan), 2, "give --launch N")
    else:
        rig.expect(rig.run(plan, "--launch", 3), 1, "not supported: built without UCX")


def takes_checksums(folder):
    plan = rig.make_plan(folder, "a.plan", 2, 4, 6, 1024, 1024, 3, 2)
    done = rig.run(plan, "--transport", "loopback", "--fill", 1, "--checksum", "--json")
    if "built without xxhash" in done.err:
        rig.expect(done, 1, "checksums are not supported")
        rig.expect(rig.run(plan, "--transport", "loopback", "--fill", 1, "--replicas"), 1, "is not supported")
        raise rig.Skip("built without xxhash")
    report = json.loads(done.out)["plans"][0]
    assert report["checksummed"] == report["moved"] > 0, report
    ways = [["--transport", "loopback"]] + ([["--launch", 4]] if rig.has_ucx() else [])
    for way in ways:
        said = f"{report['moved']} bytes have the checksums they were sent with"
        rig.expect(rig.run(plan, *way, "--fill", 1, "--checksum", "--replicas", "--check"), 0, said, " 0 wrong")


def keeps_journals(folder):
    plan = rig.make_plan(folder, "a.plan", 2, 3, 6, 10, 11, 6, 2)
    other = rig.make_plan(folder, "b.plan", 3, 2, 6, 10, 11, 6, 2)
    where = os.path.join(folder, "journals")
    ways = [["--transport", "loopback"]] + ([["--launch", 3]] if rig.has_ucx() else [])
    for way in ways:
        rig.expect(rig.run(plan, *way, "--fill", 1, "--journal", where, "--check"), 0)
        done = rig.run(plan, "--read-journal", where)
        rig.expect(done, 0, "device 2: ", "done, 6 of 6 rounds finished, 6 begun", "6 buffers (480 bytes) complete", "0 buffers (0 bytes) whole",
                   "journals of 3 of 3 devices: the old side is not whole, the new side is complete")
        report = json.loads(rig.run(plan, "--read-journal", where, "--json").out)
        assert report["new_complete"] and not report["old_whole"], report
        assert [j["done"] for j in report["journals"]] == [6, 6, 6], report
    rig.expect(rig.run(other, "--read-journal", where), 1, "the journal of another plan or device")
    os.remove(os.path.join(where, "device-00001.journal"))
    rig.expect(rig.run(plan, "--read-journal", where), 3, "device-00001.journal: open", "journals of 2 of 3 devices")
    rig.expect(rig.run(plan, *ways[0], "--journal", os.path.join(folder, "no", "where")), 3, "make directory")


def writes_statistics(folder):
    """A line for each plan, device and round, and the bytes are those of the report."""
    there = rig.make_plan(folder, "a.plan", 2, 3, 6, 10, 11, 6, 2)
    back = rig.make_plan(folder, "b.plan", 2, 3, 6, 10, 11, 5, 1, "swap")
    where = os.path.join(folder, "statistics")
    for way in [["--transport", "loopback"]] + ([["--launch", 3]] if rig.has_ucx() else []):
        done = rig.run(there, back, *way, "--fill", 1, "--statistics", where, "--json")
        rig.expect(done, 0)
        lines = []
        for name in sorted(os.listdir(where)):
            with open(os.path.join(where, name), encoding="ascii") as file:
                lines += [json.loads(line) for line in file]
        assert sorted(os.listdir(where)) == [f"device-0000{d}.jsonl" for d in range(3)], os.listdir(where)
        keys = [(d, p, k) for d in range(3) for p, rounds in enumerate((6, 5)) for k in range(rounds)]
        assert [(x["device"], x["plan"], x["round"]) for x in lines] == keys, lines
        assert all(x["finished"] and x["wire_seconds"] >= 0 for x in lines), lines
        for number, plan in enumerate(json.loads(done.out)["plans"]):
            for device in plan["devices"]:
                own = [x for x in lines if (x["plan"], x["device"]) == (number, device["device"])]
                for key in ("moved_sent", "moved_received", "wire_sent", "wire_received", "copied", "filled"):
                    assert sum(x[key] for x in own) == device[key], (key, device, own)
        assert sum(x["moved_sent"] for x in lines) > 0
    rig.expect(rig.run(there, "--transport", "loopback", "--statistics", os.path.join(folder, "no", "where")), 3,
               "make directory")
    # what cannot be written is known before anything moves
    rig.expect(rig.run(there, "--transport", "loopback", "--fill", 1, "--statistics", there), 3, "Not a directory")
    os.unlink(os.path.join(where, "device-00001.jsonl"))
    os.mkdir(os.path.join(where, "device-00001.jsonl"))
    rig.expect(rig.run(there, "--transport", "loopback", "--fill", 1, "--statistics", where), 3, "device-00001.jsonl")


def refuses_a_plan_that_does_not_verify(folder):
    plan = rig.make_plan(folder, "a.plan", 2, 3, 3, 10, 11, 3, 2)
    with open(plan, "r+b") as file:
        file.seek(-200, os.SEEK_END)
        byte = file.read(1)
        file.seek(-200, os.SEEK_END)
        file.write(bytes([byte[0] ^ 1]))
    rig.expect(rig.run(plan, "--transport", "loopback"), 1)


def finds_wrong_elements(folder):
    plan = rig.make_plan(folder, "a.plan", 2, 3, 3, 10, 11, 3, 2, "wrong")
    for how in (["--transport", "loopback"], ["--launch", "3"]):
        if how[0] == "--launch" and not rig.has_ucx():
            continue
        rig.expect(rig.run(plan, *how, "--fill", 7, "--check"), 1, "layers.0.weight")  # the proof fails
        done = rig.run(plan, *how, "--fill", 7, "--check", "--no-verify")
        rig.expect(done, 1, "check failed: device 1: 40 bytes wrong, 0 never written; param/layers.0.weight: 20 elements",
                   "the first at [0,4]", "the last at [4,7]", "40 wrong, 0 never written")
        assert "OK:" not in done.out and done.err.count("check failed") == 1, done
        rig.expect(rig.run(plan, *how, "--fill", 7, "--no-verify"), 0)  # nobody looked


def helps(folder):
    del folder
    for option in ("--help", "--version", "--list"):
        done = rig.run(option)
        rig.expect(done, 0)
        assert done.out and not done.err, done


def ignored_signals_stay_ignored(folder):
    """As under nohup, or in the background of a shell without job control."""
    need_ucx()
    plan = rig.make_plan(folder, "long.plan", 2, 4, 3000, 64, 640, 1000, 2)
    meet = os.path.join(folder, "meet")
    os.makedirs(meet)

    def ignore():
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    launcher = rig.start(plan, "--launch", 4, "--fill", 1, "--check", before=ignore)
    runs = rig.wait_for_children(launcher, 4)
    time.sleep(0.2)
    for number in (signal.SIGHUP, signal.SIGINT):
        for pid in filter(rig.alive, [launcher.pid] + runs):
            os.kill(pid, number)
    rig.expect(rig.Done(launcher), 0, ", 0 wrong, 0 never written")
    others = [rig.start(plan, "--meet", meet, "--job", "j", "--fill", 1, before=ignore,
                        env={"SHUNT_RANK": str(r), "SHUNT_WORLD_SIZE": "4"}) for r in range(4)]
    time.sleep(0.2)
    for number in (signal.SIGHUP, signal.SIGINT):
        others[1].send_signal(number)
    for each in [rig.Done(m) for m in others]:
        rig.expect(each, 0)
    for number in (signal.SIGHUP, signal.SIGINT):  # without `ignore` both end a run
        launcher = rig.start(plan, "--launch", 4, "--fill", 1, "--check")
        rig.wait_for_children(launcher, 4)
        launcher.send_signal(number)
        rig.expect(rig.Done(launcher), 3, f"stopped by signal {int(number)}")


def a_failed_job_does_not_hurt_the_next(folder):
    """Device 0 meets nobody, or proves the plan wrong for all; the job name serves again."""
    need_ucx()
    plan = rig.make_plan(folder, "a.plan", 2, 3, 5, 10, 11, 3, 2)
    wrong = rig.make_plan(folder, "wrong.plan", 2, 3, 5, 10, 11, 3, 2, "wrong")

    def kind(rank):
        return {"SHUNT_RANK": str(rank), "SHUNT_WORLD_SIZE": "3", "SHUNT_JOB": "j"}
    rig.expect(members(wrong, 1, folder, kind, "--timeout", 1)[0], 3, "device 1 has not come to the meeting")
    for each in members(wrong, 3, folder, kind):
        rig.expect(each, 1, "layers.0.weight")
    for each in members(plan, 3, folder, kind, "--fill", 7, "--check"):
        rig.expect(each, 0)


def members(plan, count, folder, variables, *args, plans=None):
    meet = os.path.join(folder, "meet")
    os.makedirs(meet, exist_ok=True)
    runs = [rig.start(plans[r] if plans else plan, "--meet", meet, *args, env=variables(r)) for r in range(count)]
    done = [rig.Done(r) for r in runs]
    assert os.listdir(meet) == [], os.listdir(meet)
    return done


def runs_under_other_launchers(folder):
    need_ucx()
    watch = rig.Watch()
    plan = rig.make_plan(folder, "a.plan", 2, 3, 5, 10, 11, 3, 2)
    kinds = [
        lambda r: {"SHUNT_RANK": str(r), "SHUNT_WORLD_SIZE": "3", "SHUNT_JOB": "j"},
        lambda r: {"RANK": str(r), "WORLD_SIZE": "3", "LOCAL_RANK": str(r), "TORCHELASTIC_RUN_ID": "a/b"},
        lambda r: {"SLURM_PROCID": str(r), "SLURM_NTASKS": "3", "SLURM_JOB_ID": "9", "SLURM_STEP_ID": "0"},
        lambda r: {"SHUNT_RANK": str(r), "SHUNT_WORLD_SIZE": "3", "SHUNT_JOB": "j", "UCX_NET_DEVICES": "lo",
                   "SHUNT_HOST": f"host{r % 2}"},  # as if on two machines: data over tcp
    ]
    for kind in kinds:
        done = members(plan, 3, folder, kind, "--fill", 7, "--check")
        rig.expect(done[0], 0)
        assert done[0].out.splitlines()[-1] == "OK: 700 bytes moved, 1200 bytes checked, 0 wrong", done[0]
        for other in done[1:]:
            rig.expect(other, 0)
            assert other.out == "", other
    watch.check()


def dry_runs_move_nothing(folder):
    plan = rig.make_plan(folder, "a.plan", 2, 3, 5, 10, 11, 3, 2)
    for how in [["--transport", "loopback"]] + ([["--launch", 3]] if rig.has_ucx() else []):
        done = rig.run(plan, *how, "--fill", 7, "--dry-run", "--json")
        rig.expect(done, 0)
        report = json.loads(done.out)
        assert report["dry_run"] and report["totals"]["moved"] == 0, report
        for device in report["plans"][0]["devices"]:
            assert device["done"] and 0 < device["peak_bytes"] <= device["plan_peak_bytes"], device
        rig.expect(rig.run(plan, *how, "--dry-run"), 0, "OK: 0 bytes moved, as in a dry run")
    rig.expect(rig.run(plan, plan, "--transport", "loopback", "--dry-run"), 2, "give one PLAN")
    rig.expect(rig.run(plan, "--transport", "loopback", "--fill", 1, "--dry-run", "--check"), 2, "leave out --check")
    if rig.has_ucx():  # all or none
        place = {"SHUNT_WORLD_SIZE": "3", "SHUNT_JOB": "d", "SHUNT_MEET": folder}
        started = [rig.start(plan, *(["--dry-run"] if rank == 1 else []), env={"SHUNT_RANK": str(rank), **place})
                   for rank in range(3)]
        for each in [rig.Done(process) for process in started]:
            rig.expect(each, 1, "device 1 has a dry run", "nothing was moved")


def members_must_agree(folder):
    need_ucx()
    one = rig.make_plan(folder, "a.plan", 2, 3, 5, 10, 11, 3, 2)
    two = rig.make_plan(folder, "b.plan", 2, 3, 5, 10, 11, 3, 2, "swap")

    def kind(rank):
        return {"SHUNT_RANK": str(rank), "SHUNT_WORLD_SIZE": "3", "SHUNT_JOB": "j"}
    done = members(one, 3, folder, kind, "--fill", 7, plans=[one, one, two])
    for each in done:
        rig.expect(each, 1, "device 2 has another plan", "nothing was moved")
    done = members(one, 2, folder, kind, "--timeout", 5)  # both come in that time, on a busy machine too
    for each in done:
        rig.expect(each, 3, "device 2 has not come to the meeting")


def members_need_a_meeting(folder):
    need_ucx()
    plan = rig.make_plan(folder, "a.plan", 2, 3, 5, 10, 11, 3, 2)
    place = {"RANK": "0", "WORLD_SIZE": "3"}
    rig.expect(rig.run(plan, env=place), 2, "no meeting directory")
    rig.expect(rig.run(plan, "--meet", folder, env=place), 2, "no job name")
    rig.expect(rig.run(plan, "--meet", os.path.join(folder, "none"), "--job", "j", env=place), 3, "open meeting directory")
    rig.expect(rig.run(plan, "--meet", folder, "--job", "j", env={"RANK": "0", "WORLD_SIZE": "4"}), 2,
               "the plan has 3 devices")


rig.main([
    runs_over_loopback,
    runs_over_ucx,
    names_a_missing_library,
    moves_large_messages,
    stays_under_its_peak,
    prints_json,
    runs_a_chain,
    stores_and_loads,
    stores_one_set,
    loses_no_results,
    refuses_bad_files,
    refuses_wrong_usage,
    takes_checksums,
    keeps_journals,
    writes_statistics,
    refuses_a_plan_that_does_not_verify,
    finds_wrong_elements,
    helps,
    ignored_signals_stay_ignored,
    runs_under_other_launchers,
    a_failed_job_does_not_hurt_the_next,
    dry_runs_move_nothing,
    members_must_agree,
    members_need_a_meeting,
])
