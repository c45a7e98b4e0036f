# SPDX-License-Identifier: Apache-2.0
"""What `shunt precompile` makes, keeps, refuses and reports; TAP on stdout.

    SHUNT_BIN=build/planner/shunt python3 test_precompile.py
"""

from __future__ import annotations

import hashlib
import json
import os
import pty
import resource
import signal
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

SHUNT = str(Path(os.environ.get("SHUNT_BIN", "build/planner/shunt")).resolve())
STANDARD = Path(__file__).resolve().parents[3] / "plans" / "ladders" / "standard.yaml"
SMALL = ("1-gpt2-to-tp2pp4", "1-gpt2-to-dp8", "2-gpt3-add-pp")

MODEL = "kind: model\nname: m\nlayers: 4\ntensors:\n- {name: \"layer.{i}.w\", shape: [64, 32], cut: {dim: 0}}\n"
LAYOUT = "kind: layout\nname: {name}\nmodel: m.yaml\ncluster: local\nparallel: {parallel}\n"


class Room:
    """A folder with a model, layouts and a ladder of three steps."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.out = folder / "out"
        (folder / "m.yaml").write_text(MODEL)
        for name, parallel in (("a", "{tp: 2}"), ("b", "{pp: 2}"), ("c", "{tp: 4}")):
            self.layout(name, parallel)
        self.ladder("{name: ab, from: a.yaml, to: b.yaml}", "{name: bc, from: b.yaml, to: c.yaml, cluster: a100}",
                    "{name: ca, from: ./c.yaml, to: a.yaml, cap: 1 GiB, staging: 1 MiB, cluster: local}")

    def layout(self, file: str, parallel: str, name: str = "") -> None:
        """Write a layout."""
        text = LAYOUT.format(name=name or f"layout-{file}", parallel=parallel)
        (self.folder / f"{file}.yaml").write_text(text)

    def ladder(self, *steps: str, name: str = "small") -> None:
        """Write the ladder."""
        lines = [f"kind: ladder\nname: {name}\nsteps:", *(f"- {step}" for step in steps)]
        (self.folder / "ladder.yaml").write_text("\n".join(lines) + "\n")

    def precompile(self, *options: object, code: int = 0, **more: Any) -> dict[str, Any]:
        """Run with --json; what it printed, and under "stderr" the rest."""
        done = shunt("precompile", self.folder / "ladder.yaml", "-o", self.out, "--json", *options, code=code, **more)
        return (json.loads(done.stdout) if done.stdout else {}) | {"stderr": done.stderr}

    def index(self) -> dict[str, dict[str, Any]]:
        """Entries of the index by name."""
        document = json.loads((self.out / "index.json").read_text())
        assert document["kind"] == "index"
        return {entry["name"]: entry for entry in document["plans"]}


def shunt(*arguments: object, code: int = 0, **more: Any) -> subprocess.CompletedProcess[str]:
    """Run shunt, which must end with `code`."""
    command = [SHUNT, *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120, **more)
    assert done.returncode == code, f"{command}: exit {done.returncode}, want {code}: {done.stdout} {done.stderr}"
    return done


def same(got: object, want: object) -> None:
    """Two values must be equal."""
    assert got == want, f"{got!r}, want {want!r}"


def results(report: dict[str, Any]) -> dict[str, str]:
    """Result by step."""
    return {step["name"]: step["result"] for step in report["steps"]}


def header_digests(plan: Path) -> dict[str, str]:
    """Id and digests of a plan's header, read without the program (schemas/plan-format.md)."""
    names = ("plan_id", "model_digest", "from_digest", "to_digest", "cluster_digest")
    data = plan.read_bytes()
    text = shunt("inspect", plan, "--json").stdout
    offset = data.index(bytes.fromhex(json.loads(text)["plan_id"]))
    return {name: data[offset + 32 * i : offset + 32 * i + 32].hex() for i, name in enumerate(names)}


# ---- checks -------------------------------------------------------------------------------


def check_standard(room: Room) -> None:
    """Steps of the standard ladder: a plan each, inspect and verify of each works, the index has its figures."""
    chosen = [word for name in SMALL for word in ("--only", name)]
    report = json.loads(shunt("precompile", STANDARD, "-o", room.out, "--json", *chosen).stdout)
    same(results(report), dict.fromkeys(SMALL, "made"))
    same(sorted(path.name for path in room.out.iterdir()), sorted([f"{name}.plan" for name in SMALL] + ["index.json"]))
    for step in report["steps"]:
        plan = Path(step["plan"])
        inspected = json.loads(shunt("inspect", plan, "--json").stdout)
        assert json.loads(shunt("verify", plan, "--json").stdout)["ok"]
        for key, value in inspected.items():
            if key != "schedule":
                same(step[key], value)
        entry = room.index()[step["name"]]
        want = {"plan": plan.name, "bytes": plan.stat().st_size, "devices": inspected["devices"],
                "rounds": inspected["schedule"]["rounds"], "moved": inspected["bytes"]["moved"],
                "peak": inspected["memory"]["peak"], "from": inspected["from"], "to": inspected["to"],
                "model": inspected["model"], "compiler": hashlib.sha256(Path(SHUNT).read_bytes()).hexdigest()}
        want |= header_digests(plan)
        same({key: entry[key] for key in want}, want)
        assert "cap" not in entry and "staging" not in entry


def check_same_as_plan(room: Room) -> None:
    """A step gives the bytes that `shunt plan` gives, under its own cluster, cap and staging."""
    room.precompile()
    own = {"ab": (), "bc": ("--cluster", "a100"), "ca": ("--cluster", "local", "--cap", "1 GiB", "--staging", "1 MiB")}
    for name, options in own.items():
        plan = room.folder / "alone.plan"
        shunt("plan", room.folder / f"{name[0]}.yaml", room.folder / f"{name[1]}.yaml", "-o", plan, *options)
        assert plan.read_bytes() == (room.out / f"{name}.plan").read_bytes(), name
    entry = room.index()["ca"]
    same((entry["cap"], entry["staging"], entry["cluster"]), (1 << 30, 1 << 20, "local"))


def check_kept(room: Room) -> None:
    """A second run keeps what is current, and compiles again what is not."""
    every = {"ab": "made", "bc": "made", "ca": "made"}
    keep = dict.fromkeys(every, "kept")
    same(results(room.precompile()), every)
    before = (room.out / "index.json").read_bytes()
    times = {path: path.stat().st_mtime_ns for path in room.out.glob("*.plan")}
    report = room.precompile()
    same((results(report), report["kept"], report["steps"][0]["schedule"]["plan_seconds"]), (keep, 3, None))
    same({path: path.stat().st_mtime_ns for path in times}, times)
    same((room.out / "index.json").read_bytes(), before)
    same(results(room.precompile("--force")), every)
    same((room.out / "index.json").read_bytes(), before)

    room.layout("a", "{tp: 2}  # the same")
    same(results(room.precompile()), keep)
    room.layout("a", "{tp: 2}", name="renamed")
    same(results(room.precompile()), keep | {"ab": "made", "ca": "made"})
    same(room.index()["ab"]["from"], "renamed")
    room.layout("b", "{pp: 4}")
    same(results(room.precompile()), keep | {"ab": "made", "bc": "made"})
    same(results(room.precompile("--cap", "2 GiB", "--cluster", "local")), every)
    same(room.index()["ca"]["cap"], 2 << 30)
    same(results(room.precompile()), every)
    (room.folder / "m.yaml").write_text(MODEL.replace("64", "128"))
    same(results(room.precompile()), every)


def check_damaged(room: Room) -> None:
    """A plan that is not what was written, or of another program, is compiled again."""
    room.precompile()
    good = {path.name: path.read_bytes() for path in room.out.glob("*.plan")}
    damage: list[Callable[[Path], object]] = [
        lambda path: path.write_bytes(path.read_bytes()[:-1] + bytes([path.read_bytes()[-1] ^ 1])),
        lambda path: path.write_bytes(path.read_bytes() + b"x"),
        lambda path: path.write_bytes((room.out / "bc.plan").read_bytes()),
        lambda path: path.unlink(),
    ]
    for change in damage:
        change(room.out / "ab.plan")
        same(results(room.precompile()), {"ab": "made", "bc": "kept", "ca": "kept"})
        same({path.name: path.read_bytes() for path in room.out.glob("*.plan")}, good)
    text = (room.out / "index.json").read_text()
    compiler = room.index()["ab"]["compiler"]
    (room.out / "index.json").write_text(text.replace(compiler, "0" * 64, 1))
    same(results(room.precompile()), {"ab": "made", "bc": "kept", "ca": "kept"})
    same((room.out / "index.json").read_text(), text)


def check_long_name(room: Room) -> None:
    """A step's name may take all of its 100 characters; the index reads back."""
    name = "n" * 100
    room.ladder(f"{{name: {name}, from: a.yaml, to: b.yaml}}")
    same(results(room.precompile()), {name: "made"})
    same(results(room.precompile()), {name: "kept"})


MESH = """kind: layout
name: mesh-{name}
model: m.yaml
cluster: local
mesh: {{names: [{names}], shape: [2, 2]}}
placements: [{{placements: ["Shard(0)", Replicate]}}]
state: {{param: {param}, master: fp32}}
"""


def check_moves(room: Room) -> None:
    """What a layout asks of a move, and names of axes that streams go by, make another plan."""
    def write(names: str, param: str) -> None:
        for name in "de":
            made = param if name == "e" else "bf16"
            (room.folder / f"{name}.yaml").write_text(MESH.format(name=name, names=names, param=made))

    entry = "other_state: [{name: rng, bytes: 16, policy: copy-if-same, per: [tp], otherwise: reseed}]\n"
    (room.folder / "m.yaml").write_text(MODEL.rstrip("\n") + "\n" + entry)
    room.ladder("{name: de, from: d.yaml, to: e.yaml}")
    outcomes = []
    for names, param in (("a, b", "bf16"), ("dp, tp", "bf16"), ("tp, dp", "bf16"), ("tp, dp", "from-master")):
        write(names, param)
        outcomes.append([results(room.precompile())["de"] for _ in range(2)])
        shunt("verify", room.out / "de.plan", room.folder / "d.yaml", room.folder / "e.yaml")
    same(outcomes, [["made", "kept"]] * 4)
    digests = json.loads(shunt("inspect", room.out / "de.plan", "--json").stdout)["digests"]
    same(digests["from"], digests["to"])  # the same bytes in the same places, however they come there


def check_only(room: Room) -> None:
    """--only makes some; the others' plans stay in the index as long as the ladder and the folder have them."""
    same(results(room.precompile("--only", "bc")), {"bc": "made"})
    same(list(room.index()), ["bc"])
    same(results(room.precompile("--only", "ca", "--only", "ab")), {"ab": "made", "ca": "made"})
    same(list(room.index()), ["ab", "bc", "ca"])
    (room.out / "ca.plan").unlink()
    room.ladder("{name: ab, from: a.yaml, to: b.yaml}", "{name: ca, from: c.yaml, to: a.yaml}")
    same(results(room.precompile("--only", "ab")), {"ab": "kept"})
    same(list(room.index()), ["ab"])
    report = room.precompile("--only", "caa", code=2)
    assert 'found "caa", expected a step of' in report["stderr"] and 'the nearest is "ca"' in report["stderr"]


def check_failures(room: Room) -> None:
    """A step that fails does not stop the others, and is no longer in the index; its older plan is left alone."""
    room.precompile()
    old = (room.out / "ab.plan").read_bytes()
    room.layout("a", "{tp: 3}")
    room.ladder("{name: ab, from: a.yaml, to: b.yaml}", "{name: gone, from: nowhere.yaml, to: b.yaml}",
                "{name: tight, from: b.yaml, to: c.yaml, cap: 1 kB}", "{name: bc, from: b.yaml, to: c.yaml}")
    report = room.precompile("--only", "ab", "--only", "tight", "--only", "bc", code=1)
    same(results(report), {"ab": "failed", "tight": "failed", "bc": "made"})
    same([report[key] for key in ("made", "kept", "failed")], [1, 0, 2])
    same([step.get("status") for step in report["steps"]], ["input", "infeasible", None])
    assert "tp" in report["steps"][0]["error"] and "the least cap that would do is" in report["steps"][1]["error"]
    assert report["stderr"].endswith("shunt: precompile: 2 of 3 steps failed: ab, tight\n"), report["stderr"]
    assert report["steps"][0]["error"] in report["stderr"]
    same((list(room.index()), (room.out / "ab.plan").read_bytes()), (["bc"], old))
    report = room.precompile(code=3)
    same(results(report), {"ab": "failed", "gone": "failed", "tight": "failed", "bc": "kept"})
    same(report["steps"][1]["status"], "io")
    path = room.folder / "ladder.yaml"
    assert f'{path}:5:22: steps[1].from: found "nowhere.yaml", expected a layout document' in report["stderr"]


def check_refused(room: Room) -> None:
    """Bad ladders, folders and indices: nothing is made."""
    ladder = room.folder / "ladder.yaml"
    for text, want in (("kind: ladder\nname: x\nsteps: []\n", ":3:8: steps: found a list (of 0)"),
                       ((room.folder / "a.yaml").read_text(), ":1:7: kind: found a layout document")):
        (room.folder / "bad.yaml").write_text(text)
        assert want in shunt("precompile", room.folder / "bad.yaml", "-o", room.out, code=1).stderr
    assert "-o DIR is missing" in shunt("precompile", ladder, code=2).stderr
    shunt("precompile", "/nowhere.yaml", "-o", room.out, code=3)
    assert not room.out.exists()
    assert "make folder" in shunt("precompile", ladder, "-o", room.folder / "x" / "y", code=3).stderr
    assert "make folder" in shunt("precompile", ladder, "-o", ladder, code=3).stderr
    room.out.mkdir()
    for text in ("{}", "not: [json", '{"kind": "index", "ladder": "another", "plans": []}'):
        (room.out / "index.json").write_text(text)
        assert "choose another folder" in room.precompile(code=1)["stderr"]
        same(((room.out / "index.json").read_text(), len(list(room.out.iterdir()))), (text, 1))
    same(room.precompile("--force")["made"], 3)
    same(room.precompile()["kept"], 3)


def check_full_disk(room: Room) -> None:
    """A plan that cannot be written is a failure of the environment, named; the old plan and the rest stay."""
    room.precompile("--only", "ab")
    old = (room.out / "ab.plan").read_bytes()
    room.layout("a", "{tp: 1}")

    def limit() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))

    report = room.precompile(code=3, preexec_fn=limit, restore_signals=False)
    same(results(report), dict.fromkeys(("ab", "bc", "ca"), "failed"))
    same({step["status"] for step in report["steps"]}, {"io"})
    assert f'write "{room.out}/ab.plan": File too large' in report["stderr"], report["stderr"]
    same((sorted(path.name for path in room.out.iterdir()), (room.out / "ab.plan").read_bytes()),
         (["ab.plan", "index.json"], old))
    same(room.index(), {})
    same(results(room.precompile()), dict.fromkeys(("ab", "bc", "ca"), "made"))


def check_reports(room: Room) -> None:
    """One line a step on stderr, two on stdout; a bar on terminals only."""
    ladder = room.folder / "ladder.yaml"
    done = shunt("precompile", ladder, "-o", room.out)
    same(done.stdout, f"ladder   small: 3 of 3 steps, 3 made, 0 kept, 0 failed\nindex    {room.out}/index.json\n")
    lines = done.stderr.splitlines()
    same([line.split()[0] for line in lines], ["ab", "bc", "ca"])
    assert all(" moved " in line and " predicted " in line and " made in " in line for line in lines), lines
    main, terminal = pty.openpty()
    with subprocess.Popen([SHUNT, "precompile", ladder, "-o", room.out], stdout=subprocess.PIPE,
                          stderr=terminal) as process:
        process.communicate(timeout=60)
    os.close(terminal)
    seen = b""
    try:
        while chunk := os.read(main, 4096):
            seen += chunk
    except OSError:  # the other end is closed
        pass
    os.close(main)
    text = seen.decode()
    same([f"] {n}/3" in text for n in range(3)], [True] * 3)
    same([line.split("\033[K")[-1].split()[0] for line in text.split("\n")[:-1]], ["ab", "bc", "ca"])


# ---- report --------------------------------------------------------------------------------

def check_placed(room: Room) -> None:
    """Devices that the compiler chose: the layouts that plans leave, kept with them, and another input than none."""
    every = ("ab", "bc", "ca")
    same(results(room.precompile("--place", "optimal")), dict.fromkeys(every, "made"))
    layouts = [room.out / f"{name}.layout.yaml" for name in every]
    texts = [layout.read_text() for layout in layouts]
    same(["devices: \"" in text for text in texts], [True] * 3)
    (room.out / "ab.layout.yaml").unlink()
    same(results(room.precompile("--place", "optimal")), dict.fromkeys(every, "kept"))
    same([layout.read_text() for layout in layouts], texts)
    asked = {name: entry["asked_digest"] for name, entry in room.index().items()}
    room.layout("b", "{pp: 2, dp: 2}")
    same(results(room.precompile("--place", "optimal")), {"ab": "made", "bc": "made", "ca": "kept"})
    same({name: entry["asked_digest"] == asked[name] for name, entry in room.index().items()},
         {"ab": False, "bc": True, "ca": True})
    same(results(room.precompile()), dict.fromkeys(every, "made"))
    same(["asked_digest" in entry for entry in room.index().values()], [False] * 3)
    same(results(room.precompile("--place", "fixed")), dict.fromkeys(every, "kept"))
    same(results(room.precompile("--place", "optimal")), dict.fromkeys(every, "made"))


CHECKS = (check_placed, check_standard, check_same_as_plan, check_kept, check_damaged, check_long_name, check_moves, check_only, check_failures, check_refused,
          check_full_disk, check_reports)


def main() -> int:
    """Run all checks, each in a folder of its own."""
    failed = 0
    memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None  # there waits for the disk cost nothing
    print(f"TAP version 13\n1..{len(CHECKS)}", flush=True)
    for number, check in enumerate(CHECKS, 1):
        title = check.__name__.removeprefix("check_").replace("_", " ")
        with tempfile.TemporaryDirectory(prefix="shunt-precompile-", dir=memory) as name:
            try:
                check(Room(Path(name)))
            except Exception:  # a fault of the check itself fails the check, not the run
                print("".join(f"# {row}\n" for row in traceback.format_exc(limit=-3).splitlines()), end="")
                print("not ", end="")
                failed += 1
        print(f"ok {number} - {title}", flush=True)
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
