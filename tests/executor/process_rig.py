# SPDX-License-Identifier: Apache-2.0
"""What the process-level tests of shunt-exec share: plans, runs, leftovers, TAP."""

import ctypes
import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
import traceback

EXEC, MAKE_PLAN = sys.argv[1], sys.argv[2]
TIMEOUT = 120  # of a whole run: far above what any test needs
OWN = set()  # pids of all processes that were started here, and of their children


class Skip(Exception):
    """A case that cannot run here."""


def make_plan(folder, name, *numbers):
    """See make_plan.c: FROM TO TENSORS ROWS COLS ROUNDS DEPTH [swap|wrong|host]."""
    path = os.path.join(folder, name)
    subprocess.run([MAKE_PLAN, path] + [str(n) for n in numbers], check=True)
    return path


def has_ucx():
    text = subprocess.run([EXEC, "--list"], capture_output=True, text=True, check=True).stdout
    return not re.search(r"transport ucx .*not supported", text)


def clean_environment(extra=None):
    names = ("SHUNT_", "UCX_", "OMPI_", "PMI", "SLURM_", "TORCHELASTIC_")
    env = {k: v for k, v in os.environ.items() if not k.startswith(names)}
    for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK", "MPI_LOCALRANKID"):
        env.pop(name, None)
    env.update(extra or {})
    return env


def note_children(process):
    while process.returncode is None:
        OWN.update(children(process.pid))
        time.sleep(0.005)


def heed_signals():
    """Whoever runs the tests may ignore them: nohup, a shell's background."""
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def start(*args, env=None, before=heed_signals):
    """`before` runs in the child, ahead of the program."""
    process = subprocess.Popen([EXEC] + [str(a) for a in args], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                               text=True, env=clean_environment(env), preexec_fn=before)
    OWN.add(process.pid)
    threading.Thread(target=note_children, args=(process,), daemon=True).start()
    return process


class Done:
    def __init__(self, process):
        self.out, self.err = process.communicate(timeout=TIMEOUT)
        self.code = process.returncode

    def __str__(self):
        return f"exit {self.code}\n--- stdout\n{self.out}--- stderr\n{self.err}"


def run(*args, env=None, before=heed_signals):
    return Done(start(*args, env=env, before=before))


def children(pid):
    try:
        with open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as file:
            return [int(p) for p in file.read().split()]
    except OSError:
        return []


def wait_for_children(process, count, seconds=30):
    """Pids of the children, in the order of their devices."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        found = children(process.pid)
        if len(found) == count:
            return found
        time.sleep(0.002)
    raise AssertionError(f"{count} children did not come up: {children(process.pid)}")


def alive(pid):
    try:
        with open(f"/proc/{pid}/stat", encoding="ascii") as file:
            return file.read().rsplit(")", 1)[1].split()[0] not in "ZX"
    except OSError:
        return False


def is_mapped(name):
    """Does a living process use that file? Once its name is gone, only those who use it can say so."""
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/maps", encoding="utf-8", errors="replace") as file:
                if name in file.read():
                    return True
        except OSError:
            pass
    return False


def segments():
    """What our processes have in shared memory. Folders are named by namespace and pid, System V segments know their
    maker; UCX's own files do not tell whose they are, so that only those which nobody uses count."""
    found = set()
    for name in os.listdir("/dev/shm") if os.path.isdir("/dev/shm") else ():
        folder = re.fullmatch(r"shunt-exec-\d+-(\d+)", name)
        if (folder and int(folder.group(1)) in OWN) or (name.startswith("ucx") and not is_mapped(name)):
            found.add(f"/dev/shm/{name}")
    with open("/proc/sysvipc/shm", encoding="ascii") as file:
        rows = [line.split() for line in file.readlines()[1:]]
    return found | {f"System V segment {row[1]}" for row in rows if int(row[4]) in OWN}


def remove_segments(dead):
    """System V segments that a killed process had made and not marked yet. Returns how many there were: UCX has a few
    microseconds for that, and where no launcher of ours is left nobody comes after it."""
    with open("/proc/sysvipc/shm", encoding="ascii") as file:
        rows = [line.split() for line in file.readlines()[1:]]
    left = [int(row[1]) for row in rows if int(row[4]) == dead and int(row[6]) == 0]
    for each in left:
        ctypes.CDLL(None).shmctl(each, 0, None)
    return len(left)


class Watch:
    """Nothing may stay behind: no process, shared memory or temporary folder. Other runs on the same machine may
    come and go: what can be told to be theirs does not count, and what cannot is given a while to vanish."""

    def __init__(self):
        self.before = self.leftovers()
        self.pids = []

    @staticmethod
    def leftovers():
        temp = set()
        for name in os.listdir(tempfile.gettempdir()):
            if name.startswith(("shunt-exec", "ucx")) and OWN & {int(n) for n in re.findall(r"\d+", name)}:
                temp.add(name)
        return segments() | temp

    def check(self):
        end = time.monotonic() + 5
        left = None
        while left is None or (left and time.monotonic() < end):
            time.sleep(0.01 if left else 0)
            left = {f"process {p}" for p in self.pids if alive(p)} | (self.leftovers() - self.before)
        assert not left, f"left behind: {left}"


def expect(done, code, *texts):
    assert done.code == code, f"want exit {code}: {done}"
    for text in texts:
        assert text in done.out or text in done.err, f"no \"{text}\" in: {done}"


def main(cases):
    failed = 0
    for number, case in enumerate(cases, 1):
        try:
            with tempfile.TemporaryDirectory(prefix="exec-test-") as folder:
                case(folder)
            print(f"ok {number} - {case.__name__}")
        except Skip as reason:
            print(f"ok {number} - {case.__name__} # SKIP {reason}")
        except Exception:  # a failing case must not hide the others
            failed += 1
            text = traceback.format_exc()
            sys.stderr.write(text)  # what a report of all tests shows of one that failed
            for line in text.splitlines():
                print(f"# {line}")
            print(f"not ok {number} - {case.__name__}")
        sys.stdout.flush()
    print(f"1..{len(cases)}")
    sys.exit(failed != 0)


signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
