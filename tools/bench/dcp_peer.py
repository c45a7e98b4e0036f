# SPDX-License-Identifier: Apache-2.0
"""A rank of the peer of section `transport`: PyTorch's distributed checkpoint, saved with rows over the ranks and loaded
with columns over them. Rank 0 prints the seconds of saving and of loading, on the slowest rank.

usage: dcp_peer.py RANK RANKS PORT FOLDER TASK.json
"""

from __future__ import annotations

import json
import os
import sys
import time

NOT_HERE = 3

try:
    import torch
    import torch.distributed as dist
    import torch.distributed.checkpoint as dcp
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import DTensor, Replicate, Shard
except ImportError as error:
    print(error, file=sys.stderr)
    sys.exit(NOT_HERE)


def make(shapes: list[list[int]], ranks: int, mesh: object, dim: int) -> dict[str, object]:
    """All tensors, each with one dimension over the ranks; what does not divide is whole everywhere."""
    state = {}
    for number, shape in enumerate(shapes):
        cut = min(dim, len(shape) - 1)
        even = shape[cut] % ranks == 0
        local = [extent // ranks if even and d == cut else extent for d, extent in enumerate(shape)]
        tensor = torch.full(local, float(dim), dtype=torch.bfloat16)
        state[str(number)] = DTensor.from_local(tensor, mesh, [Shard(cut) if even else Replicate()], run_check=False)
    return state


def slowest(seconds: float) -> float:
    """Of all ranks."""
    value = torch.tensor([seconds], dtype=torch.float64)
    dist.all_reduce(value, dist.ReduceOp.MAX)
    return float(value[0])


def main() -> None:
    """Command line."""
    rank, ranks, port, folder = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3], sys.argv[4]
    with open(sys.argv[5], encoding="ascii") as file:
        shapes = json.load(file)
    os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, "RANK": str(rank), "WORLD_SIZE": str(ranks)}
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    mesh = init_device_mesh("cpu", (ranks,))
    old, new = make(shapes, ranks, mesh, 0), make(shapes, ranks, mesh, 1)
    dist.barrier()
    begin = time.perf_counter()
    dcp.save(old, checkpoint_id=folder)
    saved = slowest(time.perf_counter() - begin)
    dist.barrier()
    begin = time.perf_counter()
    dcp.load(new, checkpoint_id=folder)
    loaded = slowest(time.perf_counter() - begin)
    if rank == 0:
        print(json.dumps({"save": saved, "load": loaded}))
    dist.destroy_process_group()


main()
