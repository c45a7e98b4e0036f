# SPDX-License-Identifier: Apache-2.0
"""One move from documents to a compared result; the named and the random tests are made of these."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

import programs
import tensorfile
from cases import Case
from documents import write_pair
from layout import DTYPES, Cluster, Entry, Key, Layout, Model
from programs import OracleError
from values import Space

Local = dict[Key, tuple[Entry, np.ndarray]]
MANIFEST = "shunt-store.json"  # beside the files that shunt-exec stores
MANIFEST_CRC_BYTES = 20000  # of files up to here the checksum is compared too: Python is slow


def crc_entry(byte: int) -> int:
    """One entry of the table of the reflected polynomial."""
    for _ in range(8):
        byte = byte >> 1 ^ (0x82F63B78 if byte & 1 else 0)
    return byte


CRC_TABLE = [crc_entry(byte) for byte in range(256)]


@dataclass
class Move:
    """A planned move in a folder of its own."""

    folder: Path
    model: Model
    layouts: tuple[Layout, Layout]
    cluster: Cluster
    paths: list[Path] = field(default_factory=list)
    options: list[str] = field(default_factory=list)
    report: dict[str, Any] = field(default_factory=dict)

    @property
    def plan(self) -> Path:
        """The plan file."""
        return self.folder / "move.plan"

    def write(self) -> Move:
        """Write the documents."""
        self.paths = write_pair(self.folder, self.model, self.cluster, list(self.layouts))
        return self

    def make(self, *options: object) -> Move:
        """Plan, verify against the documents and inspect."""
        self.options = [str(option) for option in options]
        programs.plan(self.paths[0], self.paths[1], self.plan, *self.options)
        programs.succeed("shunt", "verify", self.plan, self.paths[0], self.paths[1])
        self.report = programs.inspect(self.plan)
        return self

    def described(self) -> str:
        """The documents and options, for a failure's report."""
        parts = [f"options: {' '.join(self.options)}"]
        for path in sorted(self.folder.glob("*.yaml")):
            parts.append(f"--- {path.name}\n{path.read_text()}")
        return "\n".join(parts)


def staging_options(move: Move, staging: int | None) -> list[str]:
    """Options for this much staging, or for the least that the compiler asks for when this is too little."""
    if staging is None:
        return []
    option = ["--staging", f"{staging} B"]
    outcome = programs.run("shunt", "plan", *move.paths, "-o", move.plan, *option)
    found = re.search(r"least staging that would do is (\d+) B", outcome.err)
    if outcome.code != 1 or not found:
        return option
    if int(found[1]) <= staging:
        raise OracleError(f"refused although there is enough\n{outcome.text()}")
    return ["--staging", f"{found[1]} B"]


def try_spilling(move: Move, options: list[str], refused: str, place: float) -> bool:
    """Plan under a cap between the two least ones, if a refusal says that spilling lowers it; place 0 is the lower one."""
    found = re.search(r"would do is (\d+) B, or (\d+) B with --spill host", refused)
    if not found:
        return False
    least, low = int(found[1]), int(found[2])
    cap = low + int(place * (least - 1 - low))
    below = [*options, "--spill", "host", "--cap", f"{low - 1} B"]
    programs.refused("shunt", "plan", *move.paths, "-o", move.plan, *below)
    move.make(*options, "--cap", f"{cap} B", "--spill", "host")
    check_cap(move, cap)
    return True


def make_case(case: Case, move: Move) -> None:
    """
    Plan a random case, with its cap placed between the least cap and the peak of the plan without one; or, where spilling
    makes a lower one possible, under that.
    """
    options = staging_options(move.write(), case.staging)
    move.make(*options)
    if case.cap is None:
        return
    least, peak = move.report["memory"]["least_cap"], move.report["memory"]["peak"]
    if least > peak:
        raise OracleError(f"least cap {least} above the peak {peak}")
    said = programs.refused("shunt", "plan", *move.paths, "-o", move.plan, *options, "--cap", f"{least - 1} B")
    if case.cap < 0.5 and try_spilling(move, options, said, 2 * case.cap):
        return
    cap = least + int(case.cap * (peak - least))
    move.make(*options, "--cap", f"{cap} B")
    check_cap(move, cap)


def check_cap(move: Move, cap: int) -> None:
    """The report must name the cap and stay under it."""
    memory = move.report["memory"]
    if memory["cap"] != cap or memory["peak"] > cap or memory["least_cap"] > cap:
        raise OracleError(f"cap {cap}: inspect says {memory}")


def file_name(rank: int) -> str:
    """Name of a rank's tensor file."""
    return f"rank-{rank:05d}.safetensors"


def store_side(folder: Path, layout: Layout, local: list[Local]) -> None:
    """Write one file per rank of a side."""
    folder.mkdir(parents=True, exist_ok=True)
    for rank in range(layout.world()):
        arrays = {f"{s}/{t}": (DTYPES[e.dtype][0], a) for (s, t), (e, a) in local[rank].items()}
        tensorfile.write(folder / file_name(rank), arrays)


def sides(space: Space, layout: Layout, garbage_pads: bool) -> list[Local]:
    """Local arrays of all ranks of a side."""
    return [space.local(layout, rank, garbage_pads) for rank in range(layout.world())]


def compare_side(folder: Path, layout: Layout, want: list[Local]) -> int:
    """Compare stored files with the expected arrays bit for bit; returns the bytes compared."""
    names = sorted(path.name for path in folder.iterdir())
    if names != [file_name(rank) for rank in range(layout.world())] + [MANIFEST]:
        raise OracleError(f"files of the new side: {names}")
    compare_manifest(folder, layout.world())
    total = 0
    for rank in range(layout.world()):
        got = tensorfile.read(folder / file_name(rank))
        expected = {f"{s}/{t}": value for (s, t), value in want[rank].items()}
        if set(got) != set(expected):
            raise OracleError(f"rank {rank}: entries differ: {sorted(set(got) ^ set(expected))}")
        for name, (entry, array) in expected.items():
            compare_array(f"rank {rank} {name}", got[name], (DTYPES[entry.dtype][0], array))
            total += array.nbytes
    return total


def crc32c(data: bytes) -> int:
    """Castagnoli's checksum, byte by byte."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc = CRC_TABLE[(crc ^ byte) & 0xFF] ^ crc >> 8
    return crc ^ 0xFFFFFFFF


def compare_manifest(folder: Path, ranks: int) -> None:
    """What shunt-store.json says of the files, against the files."""
    manifest = json.loads((folder / MANIFEST).read_text())
    if (manifest["format"], manifest["version"], manifest["ranks"], len(manifest["files"])) != (
            "shunt-store", 1, ranks, ranks):
        raise OracleError(f"{MANIFEST}: {manifest}")
    for rank, said in enumerate(manifest["files"]):
        data = (folder / file_name(rank)).read_bytes()
        if (said["name"], said["bytes"]) != (file_name(rank), len(data)):
            raise OracleError(f"{MANIFEST}: {said}, the file has {len(data)} bytes")
        if len(data) < MANIFEST_CRC_BYTES and said["crc32c"] != f"{crc32c(data):08x}":
            raise OracleError(f"{MANIFEST}: {said}, the file's checksum is {crc32c(data):08x}")


def compare_array(where: str, got: tuple[str, np.ndarray], want: tuple[str, np.ndarray]) -> None:
    """Dtype, shape and bits of one array."""
    if got[0] != want[0] or got[1].shape != want[1].shape:
        raise OracleError(f"{where}: is {got[0]} {got[1].shape}, want {want[0]} {want[1].shape}")
    wrong = np.argwhere(got[1] != want[1])
    if len(wrong):
        at = tuple(int(i) for i in wrong[0])
        raise OracleError(f"{where}: {len(wrong)} wrong, first at {at}: {got[1][at]:#x}, want {want[1][at]:#x}")


def execute(move: Move, *arguments: object) -> int:
    """Run the plan over files of the old side and compare the new side; returns the bytes compared."""
    space = Space(move.model, move.layouts[0])
    if move.layouts[0].state != move.layouts[1].state:
        space.sprinkle()
    old, new = move.folder / "old", move.folder / "new"
    store_side(old, move.layouts[0], sides(space, move.layouts[0], True))
    programs.succeed("shunt-exec", move.plan, *arguments, "--load", old, "--store", new)
    return compare_side(new, move.layouts[1], sides(space.moved(move.layouts[1]), move.layouts[1], False))
