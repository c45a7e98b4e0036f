# SPDX-License-Identifier: Apache-2.0
"""What a cluster document does to a plan: times and memory worked out by hand; TAP on stdout.

    SHUNT_BIN=build/planner/shunt python3 test_clusters.py
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import traceback
from pathlib import Path
from typing import Any

SHUNT = str(Path(os.environ.get("SHUNT_BIN", "build/planner/shunt")).resolve())

ROWS, COLUMNS = 4096, 1024
HALF = ROWS * COLUMNS * 2 // 2  # bytes of a half of the tensor in bf16
MODEL = ("kind: model\nname: m\nlayers: 1\ntensors:\n"
         f"- {{name: w, shape: [{ROWS}, {COLUMNS}], stage: first, cut: {{dim: 0}}}}\n")
LAYOUT = "kind: layout\nname: {name}\nmodel: m.yaml\nparallel: {{tp: {tp}}}\ndevices: {devices}\nstate: {state}\n"
# two devices to a node; what is not under test takes no time
BASE = {"devices_per_node": "2", "device": "{memory: 1 GB}", "copy": "1000000 TB/s",
        "links": "{intra_node: 100 GB/s, inter_node: 10 GB/s}", "costs": "{round: 0 us, message: 0 us}"}
PARAM, MASTER, HOST = "{param: bf16}", "{param: bf16, master: fp32}", "{param: bf16, master: {dtype: fp32, tier: host}}"


class Room:
    """A folder with a model; layouts and clusters are written as they are asked for."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "m.yaml").write_text(MODEL)

    def layout(self, name: str, tp: int, devices: str, state: str = PARAM) -> Path:
        """Write a layout."""
        path = self.folder / f"{name}.yaml"
        path.write_text(LAYOUT.format(name=name, tp=tp, devices=devices, state=state))
        return path

    def cluster(self, **changes: str) -> Path:
        """Write a cluster."""
        path = self.folder / "c.yaml"
        path.write_text("kind: cluster\nname: c\n" + "".join(f"{k}: {v}\n" for k, v in (BASE | changes).items()))
        return path

    def plan(self, old: Path, new: Path, *options: object, code: int = 0, **changes: str) -> dict[str, Any]:
        """Plan a move on a cluster, and prove it; what --json printed, and under "stderr" the rest."""
        command = [SHUNT, "plan", str(old), str(new), "-o", str(self.folder / "p.plan"), "--json",
                   "--cluster", str(self.cluster(**changes)), *map(str, options)]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
        assert done.returncode == code, f"{command}: exit {done.returncode}: {done.stdout} {done.stderr}"
        if code == 0:
            self.run("verify")
        return (json.loads(done.stdout) if done.stdout else {}) | {"stderr": done.stderr}

    def simulate(self, **changes: str) -> Any:
        """Simulate the plan on a cluster; without changes on the one that was written last."""
        if changes:
            self.cluster(**changes)
        return self.run("simulate", "--cluster", self.folder / "c.yaml")

    def run(self, verb: str, *options: object) -> Any:
        """Run a verb on the plan."""
        command = [SHUNT, verb, str(self.folder / "p.plan"), "--json", *map(str, options)]
        return json.loads(subprocess.run(command, capture_output=True, text=True, check=True, timeout=120).stdout)


def near(got: float, want: float, slack: float = 1e-6) -> None:
    """Two times must agree."""
    assert abs(got - want) <= slack * want, f"{got!r}, want {want!r}"


def same(got: object, want: object) -> None:
    """Two values must be equal."""
    assert got == want, f"{got!r}, want {want!r}"


def seconds(room: Room, plan: dict[str, Any], *bound: object) -> float:
    """Predicted time, which the explanation adds up to; `bound` is the port and the node that it names."""
    assert plan["time"]["predicted"] >= plan["time"]["lower_bound"] * (1 - 1e-9)
    explained = room.run("inspect")["explain"]
    near(sum(explained["seconds"].values()), plan["time"]["predicted"], 1e-12)
    same(explained["seconds"]["lower_bound"], plan["time"]["lower_bound"])
    assert all(part >= 0 for part in explained["seconds"].values()), explained
    if bound:
        same((explained["bound_by"]["port"], explained["bound_by"]["node"]), bound)
    return float(plan["time"]["predicted"])


def links_bind(room: Room) -> None:
    """The slower end, the node's total, one message, a node of its own kind: each binds where it is the least."""
    old, new = room.layout("old", 2, "0-1"), room.layout("new", 2, "2-3")
    links = "{{intra_node: 100 GB/s, inter_node: 10 GB/s, {}}}"
    slow = "[{nodes: 1, links: {inter_node: 4 GB/s}}]"
    near(seconds(room, room.plan(old, new), "network out", 0), HALF / 10e9)
    near(seconds(room, room.plan(old, new, groups=slow), "network in", 1), HALF / 4e9)
    near(seconds(room, room.plan(new, old, groups=slow), "network out", 1), HALF / 4e9)
    pooled = room.plan(old, new, links=links.format("node_inter_node: 12 GB/s"))
    near(seconds(room, pooled, "node's network out", 0), 2 * HALF / 12e9)
    near(seconds(room, room.plan(old, new, links=links.format("node_inter_node: 30 GB/s"))), HALF / 10e9)
    near(seconds(room, room.plan(old, new, links=links.format("channel: 2 GB/s, channels: 3"))), HALF / 6e9)
    near(seconds(room, room.plan(old, new, links=links.format("channel: 2 GB/s, channels: 5"))), HALF / 10e9)
    near(seconds(room, room.plan(old, new, groups="[{nodes: 0, devices_per_node: 4}]"), "node out", 0), HALF / 100e9)


def bounds_hold(room: Room) -> None:
    """A node's total is in the bound that no plan can beat."""
    old, new = room.layout("old", 2, "0-1"), room.layout("new", 2, "2-3")
    plan = room.plan(old, new, links="{intra_node: 100 GB/s, inter_node: 10 GB/s, node_inter_node: 12 GB/s}")
    near(plan["time"]["lower_bound"], 2 * HALF / 12e9)
    unlike = "[{nodes: 1, links: {inter_node: 4 GB/s}}]"
    plan = room.plan(old, new, groups=unlike)
    near(plan["time"]["lower_bound"], HALF / 4e9, 0.05)  # of all that a device has together


def copies_take_time(room: Room) -> None:
    """Packs and unpacks each at their rate, in one round that hides nothing."""
    old, new = room.layout("old", 2, "0-1"), room.layout("new", 2, "2-3")
    costs = "{round: 1 s, message: 0 us}"
    plan = room.plan(old, new, "--staging", "1 GB", pack="20 GB/s", unpack="5 GB/s", costs=costs)
    same(plan["schedule"]["rounds"], 1)
    near(seconds(room, plan), 1 + HALF / 10e9 + HALF / 20e9 + HALF / 5e9)


def host_memory_has_a_link(room: Room) -> None:
    """A master that lies in host memory crosses the link to the host on the side that has it there."""
    links = "{intra_node: 100 GB/s, inter_node: 10 GB/s, host_to_device: 2 GB/s, device_to_host: 1 GB/s}"
    costs = "{round: 1 s, message: 0 us}"
    for sides, there in (((MASTER, MASTER), 0.0), ((HOST, MASTER), 2 * HALF / 2e9), ((MASTER, HOST), 2 * HALF / 1e9),
                         ((HOST, HOST), 2 * HALF / 2e9 + 2 * HALF / 1e9)):
        old, new = room.layout("old", 2, "0-1", sides[0]), room.layout("new", 2, "2-3", sides[1])
        plan = room.plan(old, new, "--staging", "1 GB", links=links, costs=costs)
        same(plan["schedule"]["rounds"], 1)
        near(seconds(room, plan), 1 + 3 * HALF / 10e9 + there)
    old, new = room.layout("old", 2, "0-1", MASTER), room.layout("new", 2, "0-1", HOST)
    plan = room.plan(old, new, "--staging", "1 GB", links=links, costs=costs)
    near(seconds(room, plan), 2 * HALF / 1e9)  # copies alone: no round has messages


def peers_take_memory(room: Room) -> None:
    """Buffers of the transport grow with the peers of a device, and are in peak and cap."""
    old, new = room.layout("old", 1, "0"), room.layout("new", 4, "0-3")
    device = "{{memory: 1 GB, reserve: 1 MiB, transport_buffers: 2 MiB, transport_per_peer: {}}}"
    links = "{intra_node: 10 GB/s, inter_node: 10 GB/s}"  # no neighbour can help
    plain = room.plan(old, new, device=device.format("0 B"), links=links)
    same(plain["format_version"], "1.1")
    plan = room.plan(old, new, device=device.format("5 MiB"), links=links)
    same(plan["format_version"], "1.3")
    same(plan["memory"]["transport_per_peer"], 5 << 20)
    peers = [room.run("inspect", "--device", d)["peers"] for d in range(4)]
    same(peers, [3, 1, 1, 1])
    for key in ("peak", "least_cap", "peak_lower_bound"):
        same(plan["memory"][key] - plain["memory"][key], 15 << 20)
    cap = plan["memory"]["least_cap"]
    same(room.plan(old, new, "--cap", f"{cap} B", device=device.format("5 MiB"), links=links)["memory"]["peak"], cap)
    said = room.plan(old, new, "--cap", f"{cap - 1} B", device=device.format("5 MiB"), links=links, code=1)["stderr"]
    for text in (f"cap {cap - 1} B is 1 B short on device 0", f"reserve and transport {18 << 20} B",
                 f"({15 << 20} B of it for its peers)", f"the least cap that would do is {cap} B"):
        assert text in said, said


def neighbours_help(room: Room) -> None:
    """One device sends to two in another node: half of it goes over the idle port beside it, and every page says so."""
    old, new = room.layout("old", 1, "0"), room.layout("new", 4, "0-3")
    plan = room.plan(old, new, "--staging", "64 KiB")
    same(plan["format_version"], "1.3")
    needed, relayed = plan["bytes"]["needed_remote"], plan["bytes"]["relayed"]
    assert abs(relayed - HALF / 2) < HALF / 50, relayed
    same((needed, plan["bytes"]["moved"], plan["bytes"]["inter_node"]), (3 * HALF // 2, needed + relayed, HALF))
    near(seconds(room, plan), HALF / 2 / 10e9, 0.05)
    page = subprocess.run([SHUNT, "inspect", str(room.folder / "p.plan")], capture_output=True, text=True, check=True,
                          timeout=60).stdout
    assert "lie in scratch memory of devices that only send them on" in page, page
    buffers = room.run("inspect", "--device", 1)["buffers"]
    assert buffers["scratch"]["count"] > 0, buffers
    peak = plan["memory"]["peak"]
    same(room.plan(old, new, "--staging", "64 KiB", "--cap", f"{peak} B")["memory"]["peak"] <= peak, True)
    alone = room.plan(old, new, links="{intra_node: 10 GB/s, inter_node: 10 GB/s}")
    same((alone["bytes"]["relayed"], alone["format_version"]), (0, "1.1"))


def small_devices_keep_to_theirs(room: Room) -> None:
    """A cap of all, and less on devices that have less."""
    old, new = room.layout("old", 2, "0-1"), room.layout("new", 2, "2-3")
    group = "[{{nodes: 1, device: {{memory: {} B}}}}]"
    plain = room.plan(old, new)
    plan = room.plan(old, new, groups=group.format(400_000_000))
    same(plan["format_version"], "1.3")
    same(plan["memory"]["cap"], 1_000_000_000)
    caps = [room.run("inspect", "--device", d)["cap"] for d in range(4)]
    same(caps[:2], [1_000_000_000] * 2)
    assert 400_000_000 - 65536 < caps[2] <= 400_000_000 and caps[2] == caps[3], caps
    same(plan["memory"]["least_cap"], plain["memory"]["least_cap"])
    # what is left decides, and is met
    least = plan["memory"]["least_cap"] + 65536
    tight = room.plan(old, new, groups=group.format(least))
    assert tight["memory"]["peak"] <= least, tight
    said = room.plan(old, new, groups=group.format(HALF - 1000), code=1)["stderr"]
    for text in ("memory is ", "whatever the cap, on device ", "the new layout alone is larger"):
        assert text in said, said
    assert "least cap" not in said, said


def near_memory(room: Room, fits: bool, device: int, least: int) -> None:
    """Whether a simulation finds the memory enough, on which device, and how much it has."""
    memory = room.simulate()["memory"]
    same((memory["fits"], memory["device"], memory["memory"]), (fits, device, least))


def plans_run_elsewhere(room: Room) -> None:
    """A plan takes on its own cluster what it was predicted to take, and on others what those allow."""
    old, new = room.layout("old", 2, "0-1", HOST), room.layout("new", 4, "1-4", MASTER)
    uneven = ("{intra_node: 70 GB/s, inter_node: 9 GB/s, node_inter_node: 13 GB/s, channel: 3 GB/s, channels: 2, "
              "host_to_device: 4 GB/s, device_to_host: 3 GB/s}")
    groups = "[{nodes: 1, devices_per_node: 1, copy: 20 GB/s, links: {inter_node: 5 GB/s}}]"
    costs = "{round: 3 us, message: 1 us}"
    for changes in ({}, {"links": uneven, "copy": "30 GB/s", "groups": groups, "costs": costs}):
        plan = room.plan(old, new, "--staging", "2 MiB", **changes)
        assert plan["schedule"]["rounds"] > 1, plan["schedule"]
        simulated = room.simulate()
        near(simulated["time"]["predicted"], plan["time"]["predicted"], 1e-12)
        near(simulated["time"]["made_for"], plan["time"]["predicted"], 1e-12)
        same(simulated["explain"]["bound_by"], plan["explain"]["bound_by"])
        same(simulated["explain"]["ports"], plan["explain"]["ports"])
        same(simulated["explain"]["seconds"]["lower_bound"], None)
        parts = [part for part in simulated["explain"]["seconds"].values() if part is not None]
        near(sum(parts), simulated["time"]["predicted"], 1e-12)
    old, new = room.layout("old", 2, "0-1"), room.layout("new", 2, "2-3")
    room.plan(old, new)
    near(room.simulate(groups="[{nodes: 1, links: {inter_node: 4 GB/s}}]")["time"]["predicted"], HALF / 4e9)
    near(room.simulate(devices_per_node="4")["time"]["predicted"], HALF / 100e9)
    near(room.simulate(costs="{round: 2 s, message: 0 us}")["time"]["predicted"],
         HALF / 10e9 + 2 * room.run("inspect")["schedule"]["rounds"])
    near_memory(room, True, 0, 1_000_000_000)
    room.cluster(groups="[{nodes: 1, device: {memory: 1 MB}}]")
    near_memory(room, False, 2, 1_000_000)
    room.cluster(nodes="1")
    done = subprocess.run([SHUNT, "simulate", str(room.folder / "p.plan"), "--cluster", str(room.folder / "c.yaml")],
                          capture_output=True, text=True, check=False, timeout=120)
    same((done.returncode, done.stdout), (1, ""))
    assert "found device 3 in the plan, expected less than 2, the devices of " in done.stderr, done.stderr


BUILT_IN = (("gpt2-tp4-pp2", "gpt2-tp2-pp4", "local"), ("gpt3-6.7b-8-tp4pp2", "gpt3-6.7b-16-tp4pp4", "a100"),
            ("llama-2-7b-16-dp16", "llama-2-7b-16-tp4dp4", "a800"),
            ("qwen3-30b-a3b-16-pp2dp8ep8-weights", "qwen3-30b-a3b-16-tp8dp2-rollout", "h100"))


def explanations_add_up(room: Room) -> None:
    """Of plans of built-in layouts: parts and prediction, and the same from the operations of the plan."""
    for old, new, cluster in BUILT_IN:
        command = [SHUNT, "plan", old, new, "-o", str(room.folder / "p.plan"), "--cluster", cluster, "--json",
                   "--no-verify"]
        done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=300)
        plan = json.loads(done.stdout)
        predicted = seconds(room, plan)
        simulated = room.run("simulate", "--cluster", cluster)
        near(simulated["time"]["predicted"], predicted, 1e-12)
        same(simulated["explain"]["ports"], plan["explain"]["ports"])
        assert simulated["memory"]["fits"], simulated["memory"]


def main() -> int:
    """Run all cases."""
    cases = [links_bind, bounds_hold, copies_take_time, host_memory_has_a_link, peers_take_memory,
             neighbours_help, small_devices_keep_to_theirs, plans_run_elsewhere, explanations_add_up]
    failed = 0
    for number, case in enumerate(cases, 1):
        with tempfile.TemporaryDirectory() as folder:
            try:
                case(Room(Path(folder)))
                print(f"ok {number} - {case.__name__}")
            except Exception:  # pylint: disable=broad-except
                failed += 1
                print("".join(f"# {line}\n" for line in traceback.format_exc().splitlines()), end="")
                print(f"not ok {number} - {case.__name__}")
    print(f"1..{len(cases)}")
    return failed > 0


if __name__ == "__main__":
    sys.exit(main())
