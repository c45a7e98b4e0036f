# SPDX-License-Identifier: Apache-2.0
"""Processes that die, stop or are stopped at any moment: everybody ends in time, names the device that was lost,
and leaves nothing behind. Needs two arguments: the programs shunt-exec and make_plan. SHUNT_FAULT_TRIALS sets how
many random moments are tried."""

import hashlib
import json
import os
import random
import re
import signal
import time

import process_rig as rig

TRIALS = int(os.environ.get("SHUNT_FAULT_TRIALS", "8"))
SECONDS = 10  # from the fault to the end of everybody


def need_ucx():
    if not rig.has_ucx():
        raise rig.Skip("built without UCX")


def long_plan(folder):
    """Several seconds of many small rounds, and enough bytes to fill and to check."""
    return rig.make_plan(folder, "long.plan", 2, 4, 3000, 64, 640, 3000, 2)


def kill_one(plan, delay, device, number=signal.SIGKILL, extra=()):
    """Start four devices, hit one of them after a while, and return how it ended."""
    watch = rig.Watch()
    process = rig.start(plan, "--launch", 4, "--fill", 1, "--check", *extra)
    pids = rig.wait_for_children(process, 4)
    watch.pids = pids + [process.pid]
    time.sleep(delay)
    victim = pids[device]
    there = rig.alive(victim)
    try:
        os.kill(victim, number)
    except ProcessLookupError:
        there = False
    begin = time.monotonic()
    done = rig.Done(process)
    seconds = time.monotonic() - begin
    watch.check()
    return there, done, seconds


def run_length(plan):
    begin = time.monotonic()
    rig.expect(rig.run(plan, "--launch", 4, "--fill", 1, "--check"), 0)
    return time.monotonic() - begin


def who_lost_whom(err):
    """By device: the one that it says is lost, and whether it was still connecting to it."""
    lines = re.findall(r"^shunt-exec: device (\d+): device (\d+) \(pid \d+, host [^)]*\) is lost(.*)$", err, re.M)
    return {int(by): (int(of), rest.endswith("while connecting to it")) for by, of, rest in lines}


def cause_of(said, by, killed):
    """Whom a device says it lost. Who is not connected yet cannot hear why the other one left: then that one's cause."""
    of, connecting = said.get(by, (None, False))
    for _ in said:
        if connecting and of != killed:
            of, connecting = said.get(of, (of, False))
    return of


def survives_kills_at_any_moment(folder):
    need_ucx()
    plan = long_plan(folder)
    length = run_length(plan)
    rng = random.Random(1)
    hits = 0
    for trial in range(TRIALS):
        device = rng.randrange(4)
        delay = rng.random() * length * (trial + 1) / TRIALS
        there, done, seconds = kill_one(plan, delay, device)
        if not there or done.code == 0:  # it was over already
            rig.expect(done, 0)
            continue
        hits += 1
        assert done.code == 3, f"after {delay:.3f} s: {done}"
        assert seconds < SECONDS, f"{seconds} s: {done}"
        assert f"shunt-exec: device {device} (pid" in done.err, done
        over = "never written" in done.out  # all had reported: the others were leaving
        said = who_lost_whom(done.err)
        for other in range(4):
            at_fault = cause_of(said, other, device)
            expected = at_fault == device or (over and at_fault is None)
            assert (at_fault is None if other == device else expected), \
                f"killed {device} after {delay:.3f} s: device {other}: {done}"
        assert "OK:" not in done.out, done
    assert hits >= TRIALS // 2, f"only {hits} of {TRIALS} kills came in time"


def a_death_at_the_very_start(folder):
    need_ucx()
    plan = long_plan(folder)
    for trial in range(TRIALS):
        device = trial % 4
        there, done, seconds = kill_one(plan, 0.01 * trial, device)
        assert there and done.code == 3 and seconds < SECONDS, f"{seconds} s: {done}"
        assert f"device {device} (pid" in done.err and "is lost" in done.err, done


def a_stopped_process_times_out(folder):
    need_ucx()
    plan = long_plan(folder)
    length = run_length(plan)
    for device, delay in ((0, 0.5 * length), (2, 0.1 * length), (3, 0.7 * length)):
        there, done, seconds = kill_one(plan, delay, device, signal.SIGSTOP, ("--timeout", 2))
        if there and done.code != 0:
            late = "has not ended" in done.err  # stopped behind the last meeting: the launcher alone waits for it
            assert done.code == 3 and ("timed out after 2 s" in done.err or late), done
            # who stopped before the meeting has told nobody its pid
            assert re.search(rf"device {device} (\(pid|has not come to the meeting)", done.err), done
            assert seconds < 2 + 2 * SECONDS + (30 if late else 0), f"{seconds} s: {done}"


def a_signal_to_the_launcher_ends_all(folder):
    need_ucx()
    plan = long_plan(folder)
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGKILL):
        watch = rig.Watch()
        process = rig.start(plan, "--launch", 4, "--fill", 1, "--check")
        watch.pids = rig.wait_for_children(process, 4) + [process.pid]
        time.sleep(0.3)
        begin = time.monotonic()
        process.send_signal(number)
        done = rig.Done(process)
        assert time.monotonic() - begin < SECONDS, done
        if number == signal.SIGKILL:
            assert done.code == -number, done
        else:
            rig.expect(done, 3, f"stopped by signal {int(number)}")
        watch.check()


def digest_set(folder):
    """What a set holds, wherever its files are: a commit that was broken off has some in the staging folder."""
    with open(os.path.join(folder, "shunt-store.json"), encoding="ascii") as file:
        manifest = json.load(file)
    digests = []
    for each in manifest["files"]:
        path = os.path.join(folder, manifest["staging"], each["name"])
        if not os.path.exists(path):
            path = os.path.join(folder, each["name"])
        assert os.path.getsize(path) == each["bytes"], path
        with open(path, "rb") as file:
            digests.append(hashlib.sha256(file.read()).hexdigest())
    return digests


def kill_anybody(process, pids, rng):
    """Anybody, the launcher too."""
    try:
        os.kill(rng.choice(pids + [process.pid]), signal.SIGKILL)
    except ProcessLookupError:
        pass


def a_death_while_storing_leaves_one_whole_set(folder):
    """The old one or the new one; and the next run over the same folder finds nothing in its way."""
    need_ucx()
    plan = rig.make_plan(folder, "a.plan", 2, 4, 12, 1024, 1024, 12, 2)
    rng = random.Random(3)
    sets = []
    length = 0.0
    for seed in range(2):
        begin = time.monotonic()
        rig.expect(rig.run(plan, "--launch", 4, "--fill", seed, "--store", os.path.join(folder, f"set{seed}")), 0)
        length = time.monotonic() - begin
        sets.append(digest_set(os.path.join(folder, f"set{seed}")))
    assert sets[0] != sets[1]
    out = os.path.join(folder, "set0")
    new = 0
    for _ in range(TRIALS):
        watch = rig.Watch()
        old = sets.index(digest_set(out))
        begin = time.monotonic()
        process = rig.start(plan, "--launch", 4, "--fill", 1 - old, "--store", out)
        pids = rig.wait_for_children(process, 4)
        while process.poll() is None and not any(".shunt-store-" in name for name in os.listdir(out)):
            time.sleep(0.001)
        time.sleep(length * rng.random())
        kill_anybody(process, pids, rng)
        done = rig.Done(process)
        assert time.monotonic() - begin < 2 * SECONDS, done
        assert done.code in (0, 3, -signal.SIGKILL), done
        watch.pids = pids
        watch.check()
        found = sets.index(digest_set(out))
        assert done.code != 0 or found != old, done
        new += found != old
    print(f"# {TRIALS} deaths: {TRIALS - new} old sets, {new} new sets")
    rig.expect(rig.run(plan, "--launch", 4, "--fill", 1, "--store", out), 0)
    assert digest_set(out) == sets[1]
    assert len(os.listdir(out)) == 5, os.listdir(out)


def members_of_another_launcher_die(folder):
    need_ucx()
    plan = long_plan(folder)
    meet = os.path.join(folder, "meet")
    os.makedirs(meet)
    rng = random.Random(2)
    length = run_length(plan)
    for trial in range(3):
        watch = rig.Watch()
        runs = [rig.start(plan, "--meet", meet, "--job", f"j{trial}", "--fill", 1, "--check",
                          env={"SHUNT_RANK": str(r), "SHUNT_WORLD_SIZE": "4"}) for r in range(4)]
        watch.pids = [r.pid for r in runs]
        time.sleep(length * (0.1 + 0.4 * rng.random()))
        victim = rng.randrange(4)
        begin = time.monotonic()
        runs[victim].kill()
        done = [rig.Done(r) for r in runs]
        others = [each.code for rank, each in enumerate(done) if rank != victim]
        if done[victim].code == 0 or others == [0, 0, 0]:  # it was over already
            continue
        assert time.monotonic() - begin < SECONDS, [str(d) for d in done]
        for rank, each in enumerate(done):
            if rank != victim:
                rig.expect(each, 3, f"device {victim} (pid", "is lost")
        if rig.remove_segments(runs[victim].pid) > 0:
            print(f"# trial {trial}: the killed member left a segment that it had not marked yet")
        watch.check()
        assert os.listdir(meet) == [], os.listdir(meet)


def wait_for_record(job, name, process):
    path = os.path.join(job, name)
    end = time.monotonic() + 30
    while time.monotonic() < end and process.poll() is None:
        if os.path.exists(path):
            return
        time.sleep(0.0002)
    raise AssertionError(f"no {name}: {os.listdir(job) if os.path.isdir(job) else job}")


def a_member_stops_or_dies_early(folder):
    """Between its first record and the first round: while meeting, connecting, agreeing, comparing messages."""
    need_ucx()
    plan = long_plan(folder)
    meet = os.path.join(folder, "meet")
    os.makedirs(meet)
    rng = random.Random(4)
    seconds = 2
    # tcp tells of a death once connected; before that only the deadline does
    for trial in range(3 * TRIALS):
        number = (signal.SIGSTOP, signal.SIGKILL)[trial % 2]
        count, victim = (4, rng.randrange(4))
        job = os.path.join(meet, f"j{trial}")
        runs = [rig.start(plan, "--meet", meet, "--job", f"j{trial}", "--timeout", seconds, "--fill", 1,
                          env={"SHUNT_RANK": str(r), "SHUNT_WORLD_SIZE": str(count)}) for r in range(count)]
        wait_for_record(job, ("hello", "address", "address")[trial % 3] + f"-{victim}", runs[victim])
        delay = rng.random() ** 2 * 0.1 if trial >= 3 else 0
        time.sleep(delay)
        begin = time.monotonic()
        runs[victim].send_signal(number)
        done = [rig.Done(r) for rank, r in enumerate(runs) if rank != victim]
        took = time.monotonic() - begin
        runs[victim].kill()
        rig.Done(runs[victim])
        for each in done:
            # seen with UCX 1.13.1: its tcp can assert, inside its own progress, when the other end dies in the handshake
            if number == signal.SIGKILL and each.code == -signal.SIGABRT and re.search(r"tcp_\w+\.c:.*Assertion", each.err):
                print(f"# trial {trial}: UCX ended a process by an assertion in tcp")
                continue
            assert each.code == 3, f"trial {trial}, {number.name} to {victim} after {delay:.4f} s: {each}"
            assert f"device {victim}" in each.err, f"trial {trial}, {number.name} to {victim}: {each}"
        assert took < seconds + SECONDS, f"{took} s: {[str(d) for d in done]}"


def the_root_stops_while_connecting(folder):
    """Two members; device 0 stops as soon as its address is out: device 1 connects to a process that does not answer."""
    need_ucx()
    plan = rig.make_plan(folder, "two.plan", 1, 2, 5, 10, 11, 2, 1)
    meet = os.path.join(folder, "meet")
    os.makedirs(meet)
    for trial in range(4):
        runs = [rig.start(plan, "--meet", meet, "--job", f"j{trial}", "--timeout", 2,
                          env={"SHUNT_RANK": str(r), "SHUNT_WORLD_SIZE": "2"}) for r in range(2)]
        wait_for_record(os.path.join(meet, f"j{trial}"), "address-0", runs[0])
        runs[0].send_signal(signal.SIGSTOP)
        done = rig.Done(runs[1])
        runs[0].kill()
        rig.Done(runs[0])
        if done.code != 0:  # it can be over already
            rig.expect(done, 3, "timed out after 2 s", "device 0 (pid")


rig.main([
    the_root_stops_while_connecting,
    a_member_stops_or_dies_early,
    survives_kills_at_any_moment,
    a_death_at_the_very_start,
    a_stopped_process_times_out,
    a_signal_to_the_launcher_ends_all,
    a_death_while_storing_leaves_one_whole_set,
    members_of_another_launcher_die,
])
