# SPDX-License-Identifier: Apache-2.0
"""Section `transport`: moves over UCX between the processes of one machine, beside the best stream that UCX itself makes
between two of them in the same run.

contiguous  whole tensors change their device: pipeline stages in blocks, then interleaved
strided     every matrix cut by rows, then by columns
mixed       the move of the quickstart

Bytes per second are those that came to their place, from another device or by a copy on it; `moved_to_raw` counts the
former alone. Beside them: what the machine's memory copies, divided by the copies that a byte needs; the cost of a round without
messages and of checksums; MPI_Alltoallv of the same bytes, packed already, where Open MPI is installed; and PyTorch's
distributed checkpoint, saved to a RAM disk and loaded cut the other way, where the virtual environment has torch.
"""

from __future__ import annotations

import functools
import json
import os
import shutil
import socket
import statistics
import subprocess
import sys
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import moves
import shell
from cases import Model
from section import Options, Row, table

HERE = Path(__file__).parent
VENV = Path(os.environ.get("SHUNT_BENCH_VENV") or shell.ROOT / "build" / "bench-venv")
SHARD = Model("llama-shard", 8, 4096, 32, 8, 3584, 32000)  # 4.3 GiB of two bf16 states
QUICK_SHARD = Model("llama-shard", 8, 1024, 8, 2, 896, 8000)
STATE = {"param": "bf16", "momentum": "bf16"}
RAW_BYTES, QUICK_RAW_BYTES = 1 << 30, 1 << 27
RAW_SIZES = (1 << 20, 4 << 20, 16 << 20)
COPIES = {"contiguous": 1, "strided": 2, "mixed": 2}
WANTED = {"contiguous": 0.9, "strided": 0.75, "mixed": 0.75}
WANTED_ROUND_SECONDS = 20e-6
WANTED_DCP = 10
EMPTY_ROUNDS = 20000
CLUSTER = """kind: cluster
name: here
devices_per_node: 8
device: {memory: 1 TB, reserve: 0 B, transport_buffers: 0 B}
links: {intra_node: 3 GB/s, inter_node: 3 GB/s}
copy: 6 GB/s
costs: {round: 50 us, message: 5 us}
"""


# ---- moves ------------------------------------------------------------------------------


def layouts(kind: str, ranks: int, model: Model) -> tuple[Row, ...]:
    """What differs between the two documents."""
    if kind == "contiguous":
        return {"parallel": {"pp": ranks}}, {"parallel": {"pp": ranks, "vpp": 8 // ranks}}
    mesh = {"names": ["all"], "shape": [ranks]}
    whole = [{"tensor": t.name, "placements": ["Replicate()"]} for t in model.tensors() if len(t.shape) == 1]
    return tuple({"mesh": mesh, "placements": [{"placements": [f"Shard({dim})"]}, *whole]} for dim in (0, 1))


def make_plan(kind: str, ranks: int, model: Model, folder: Path) -> Path:
    """The plan of a move."""
    folder.mkdir(parents=True, exist_ok=True)
    plan = folder / f"{kind}-{ranks}.plan"
    if kind == "mixed":
        shell.timed(shell.shunt(), "plan", *moves.documents(moves.EXECUTED), "-o", plan)
        return plan
    (folder / "model.yaml").write_text(json.dumps(model.document()))
    (folder / "cluster.yaml").write_text(CLUSTER)
    paths = (folder / "old.yaml", folder / "new.yaml")
    for path, layout in zip(paths, layouts(kind, ranks, model)):
        head = {"kind": "layout", "name": path.stem, "model": "model.yaml", "cluster": "cluster.yaml", "state": STATE}
        path.write_text(json.dumps(head | layout))
    shell.timed(shell.shunt(), "plan", *paths, "-o", plan)
    return plan


def execute(plan: Path, ranks: int, runs: int, *more: str) -> Row:
    """Bytes that crossed between devices and that were copied on one, and the median of seconds."""
    command = (shell.program("executor", "shunt-exec"), plan, "--launch", ranks, "--fill", "1", "--no-verify", "--json")
    reports = [json.loads(shell.timed(*command, *more).out) for _ in range(runs)]
    return {"moved": reports[0]["totals"]["moved"], "copied": sum(plan["copied"] for plan in reports[0]["plans"]),
            "seconds": statistics.median(report["totals"]["seconds"] for report in reports)}


# ---- baselines --------------------------------------------------------------------------


def compiled(name: str, folder: Path, compiler: str, *flags: str) -> Path:
    """One of the small programs beside this file."""
    program = folder / name
    command = [compiler, "-O2", "-D_GNU_SOURCE", str(HERE / f"{name}.c"), "-o", str(program), *flags]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"{' '.join(command)}\n{done.stderr}")
    return program


def raw_stream(folder: Path, quick: bool) -> float:
    """The best rate of two processes, one way or both, over some sizes of message."""
    config = subprocess.run(["pkg-config", "--cflags", "--libs", "ucx"], capture_output=True, text=True, check=True)
    program = compiled("raw_stream", folder, "cc", *config.stdout.split())
    total = QUICK_RAW_BYTES if quick else RAW_BYTES
    return max(float(shell.timed(program, size, total, both).out) for size in RAW_SIZES for both in (0, 1))


def copy_limit(processes: int, quick: bool) -> float:
    """What some processes copy at once."""
    size = moves.COPY_BYTES >> (3 if quick else 0)
    with ProcessPoolExecutor(processes) as pool:
        return sum(pool.map(functools.partial(moves.copy_bytes_per_second, 3), [size] * processes))


def matrix(plan: Path, ranks: int) -> list[list[int]]:
    """Bytes of all messages from each device to each."""
    total = [[0] * ranks for _ in range(ranks)]
    with subprocess.Popen([shell.shunt(), "inspect", str(plan), "--ops"], stdout=subprocess.PIPE, text=True) as listing:
        assert listing.stdout is not None
        for line in listing.stdout:
            if '"send"' in line:
                op = json.loads(line)
                total[op["device"]][op["peer"]] += op["bytes"]
    return total


def alltoallv(plan: Path, ranks: int, runs: int, folder: Path) -> float | None:
    """Seconds of the peer; None where it is not installed."""
    if not shutil.which("mpicc") or not shutil.which("mpirun"):
        return None
    program = compiled("alltoallv", folder, "mpicc")
    path = folder / "matrix"
    path.write_text("\n".join(" ".join(map(str, row)) for row in matrix(plan, ranks)))
    root = ["--allow-run-as-root"] if os.geteuid() == 0 else []
    return float(shell.timed("mpirun", *root, "--oversubscribe", "-n", ranks, program, path, runs).out)


def free_port() -> int:
    """A port that nobody uses now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def checkpoint(model: Model, ranks: int, folder: Path) -> Row | None:
    """Seconds of PyTorch's checkpoint of the same state; None where there is no torch."""
    python = VENV / "bin" / "python"
    if not python.exists():
        return None
    task = folder / "tensors.json"
    shapes = [t.shape for t in model.tensors() for _ in range((model.layers if "{i}" in t.name else 1) * len(STATE))]
    task.write_text(json.dumps(shapes))
    disk = Path("/dev/shm" if os.path.isdir("/dev/shm") else folder) / f"shunt-bench-{os.getpid()}"
    port = free_port()
    commands = [[str(python), str(HERE / "dcp_peer.py"), str(rank), str(ranks), str(port), str(disk), str(task)]
                for rank in range(ranks)]
    try:
        processes = [subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
                     for command in commands]
        said = [process.communicate() for process in processes]
    finally:
        shutil.rmtree(disk, ignore_errors=True)
    if any(process.returncode for process in processes):
        return {"failed": said[0][1].strip().splitlines()[-1:] or ["no word"]}
    return json.loads(said[0][0].splitlines()[-1])


# ---- all of it --------------------------------------------------------------------------


def move_row(kind: str, ranks: int, model: Model, raw: float, options: Options) -> Row:
    """One move beside the baselines."""
    folder = options.folder / "transport"
    plan = make_plan(kind, ranks, model, folder)
    ours = execute(plan, ranks, options.runs)
    rate = (ours["moved"] + ours["copied"]) / ours["seconds"]
    limit = copy_limit(min(ranks, os.cpu_count() or 1), options.quick) / COPIES[kind]
    mpi = alltoallv(plan, ranks, options.runs, folder)
    summed = execute(plan, ranks, max(1, options.runs // 2), "--checksum")
    row = {"ranks": ranks, **ours, "bytes_per_second": rate, "to_raw": rate / raw,
           "moved_to_raw": ours["moved"] / ours["seconds"] / raw, "to_copy_limit": rate / limit,
           "checksum_cost": summed["seconds"] / ours["seconds"] - 1,
           "alltoallv_seconds": mpi, "alltoallv_to_ours": mpi / ours["seconds"] if mpi else None}
    if kind == "strided" and (peer := checkpoint(model, ranks, folder)):
        row["checkpoint"] = peer
        if "failed" not in peer:
            row["checkpoint_to_ours"] = (peer["save"] + peer["load"]) / ours["seconds"]
    plan.unlink()
    return row


def empty_round(options: Options) -> float | None:
    """Seconds of a round without messages; None in a build without tests."""
    program = Path(os.environ.get("SHUNT_BIN_DIR") or shell.ROOT / "build") / "tests" / "executor" / "make_plan"
    if not program.exists():
        return None
    plan = options.folder / "empty.plan"
    rounds = EMPTY_ROUNDS // (10 if options.quick else 1)
    shell.timed(program, plan, 2, 2, 1, 64, 64, rounds, 2)
    return execute(plan, 2, options.runs)["seconds"] / rounds


def wanted_moves(options: Options) -> list[tuple[str, int]]:
    """Kinds and numbers of processes."""
    ranks = (2,) if options.quick else (2, 4, 8)
    found = [(kind, count) for kind in ("contiguous", "strided") for count in ranks]
    return [(kind, count) for kind, count in found + ([] if options.quick else [("mixed", 8)])
            if options.wanted(f"{kind}-{count}")]


def measure(options: Options) -> Row:
    """The raw stream is measured before and after: the best counts."""
    folder = options.folder / "transport"
    folder.mkdir(parents=True, exist_ok=True)
    model = QUICK_SHARD if options.quick else SHARD
    if "not supported" in shell.timed(shell.program("executor", "shunt-exec"), "--list").out.split("loopback")[0]:
        return {"skipped": "the executor is built without UCX"}
    result: Row = {"raw_bytes_per_second": raw_stream(folder, options.quick), "moves": {}, "missed": [], "faults": []}
    for kind, ranks in wanted_moves(options):
        shell.note(f"transport: {kind}, {ranks} processes")
        raw = max(result["raw_bytes_per_second"], raw_stream(folder, options.quick))
        result["raw_bytes_per_second"] = raw
        result["moves"][f"{kind}-{ranks}"] = move_row(kind, ranks, model, raw, options)
    for name, row in result["moves"].items():
        row["to_raw"] = row["bytes_per_second"] / result["raw_bytes_per_second"]
        row["moved_to_raw"] = row["moved"] / row["seconds"] / result["raw_bytes_per_second"]
        wanted = WANTED[name.split("-")[0]]
        if row["to_raw"] < wanted:
            result["missed"].append(f"{name}: {row['to_raw']:.2f} of the raw stream, {wanted} wanted")
        if (row["alltoallv_to_ours"] or 1) < 1:
            result["missed"].append(f"{name}: MPI_Alltoallv takes {row['alltoallv_to_ours']:.2f} times as long")
        if row.get("checkpoint_to_ours", WANTED_DCP) < WANTED_DCP:
            result["missed"].append(f"{name}: a checkpoint takes {row['checkpoint_to_ours']:.1f} times as long")
    result["empty_round_seconds"] = empty_round(options)
    if (result["empty_round_seconds"] or 0) > WANTED_ROUND_SECONDS:
        result["missed"].append(f"a round without messages takes {result['empty_round_seconds'] * 1e6:.1f} us")
    return result


def show(result: Row) -> list[str]:
    """A line for each move."""
    if "skipped" in result:
        return [result["skipped"]]
    columns = ("moved", "copied", "seconds", "bytes_per_second", "to_raw", "moved_to_raw", "to_copy_limit", "checksum_cost", "alltoallv_to_ours",
               "checkpoint_to_ours")
    cells = [[name, *(row.get(column) for column in columns)] for name, row in result["moves"].items()]
    empty = result["empty_round_seconds"]
    return [f"best stream of two processes: {result['raw_bytes_per_second'] / 1e9:.2f} GB/s",
            *table(("kind-processes", *columns), cells),
            "a round without messages: " + ("not measured" if empty is None else f"{empty * 1e6:.1f} us"),
            *(f"missed: {line}" for line in result["missed"]),
            *(f"checkpoint: {row['checkpoint']['failed']}" for row in result["moves"].values()
              if "failed" in row.get("checkpoint", {}))]
