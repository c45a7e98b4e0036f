#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tables checked in a real world: processes that talk over gloo on 127.0.0.1.

usage: real_world.py      children are started by this program itself

The tables are made in a world that sends nothing. Here some of their entries are asked again of
processes with real groups, whose answers must be the same.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import documents
import table

Entry = dict[str, Any]
WORLDS = (4, 6)
MOST = 8  # entries of a table in a world
DEADLINE_SECONDS = 300


def entries_of(name: str, world: int) -> list[Entry]:
    """Some entries of a table with this number of ranks."""
    found = [entry for entry in table.read(name)["entries"] if "want" in entry and documents.world(entry) == world]
    return found[:MOST]


def asking(name: str, entry: Entry) -> Callable[[], Any]:
    """What makes the answer of one rank."""
    import from_torch

    if name == "rows":
        return lambda: from_torch.box_text(from_torch.row_boxes(entry))
    if name == "flats":
        return lambda: from_torch.flat_ranges(entry)
    import from_deepspeed

    rule = entry["layout"]["shard"]["rule"]
    return lambda: (from_deepspeed.tensor_shards if rule == "zero3" else from_deepspeed.group_shard)(entry)


def child(rank: int, world: int) -> None:
    """Answer for one rank; one line of JSON."""
    import fake_world

    fake_world.dist.init_process_group("gloo", rank=rank, world_size=world)
    answers = {name: [asking(name, e)() for e in entries_of(name, world)] for name in ("rows", "flats", "shards")}
    fake_world.dist.destroy_process_group()
    print("answers " + json.dumps(answers))


def free_port() -> int:
    """A port that nothing listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def run_world(world: int) -> list[dict[str, list[Any]]]:
    """Answers of all ranks of a world."""
    environment = os.environ | {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port()), "OMP_NUM_THREADS": "1"}
    command = [sys.executable, str(Path(__file__).resolve())]
    children = [
        subprocess.Popen(
            [*command, str(rank), str(world)], stdout=subprocess.PIPE, text=True,
            env=environment | {"RANK": str(rank), "WORLD_SIZE": str(world), "LOCAL_RANK": "0"})
        for rank in range(world)
    ]  # fmt: skip
    try:
        outputs = [process.communicate(timeout=DEADLINE_SECONDS)[0] for process in children]
    finally:
        for process in children:
            process.kill()
    lines = [[line for line in output.splitlines() if line.startswith("answers ")] for output in outputs]
    return [json.loads(found[-1].partition(" ")[2]) for found in lines]


def main() -> int:
    """Compare both worlds."""
    if len(sys.argv) == 3:
        child(int(sys.argv[1]), int(sys.argv[2]))
        return 0
    different = 0
    for world in WORLDS:
        answers = run_world(world)
        for name in ("rows", "flats", "shards"):
            entries = entries_of(name, world)
            for number, entry in enumerate(entries):
                real = [answer[name][number] for answer in answers]
                if real != entry["want"]:
                    different += 1
                    print(f"{name}: {json.dumps(entry)}\n  over gloo: {real}")
            print(f"{name}: {len(entries)} entries with {world} ranks over gloo")
    return 1 if different else 0


if __name__ == "__main__":
    sys.exit(main())
