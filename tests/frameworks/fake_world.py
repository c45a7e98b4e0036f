# SPDX-License-Identifier: Apache-2.0
"""A world of many ranks in one process: torch's fake process group, which sends nothing.

Everything that the frameworks derive from rank, world size and groups is computed by their own
code; what would come from another rank does not arrive, so nothing here may depend on it.
"""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager

os.environ["CUDA_VISIBLE_DEVICES"] = ""
os.environ.setdefault("LOCAL_RANK", "0")
warnings.simplefilter("ignore")

import torch  # noqa: E402
import torch.distributed as dist  # noqa: E402
from torch.testing._internal.distributed.fake_pg import FakeStore  # noqa: E402


class NoStream:
    """A stream that does nothing."""

    def __init__(self, *args: object, **kwargs: object) -> None:
        pass


def use_cpu() -> None:
    """Let code that asks for the current GPU take the CPU."""
    torch.cuda.current_device = lambda: "cpu"  # type: ignore[assignment]
    torch.cuda.Stream = NoStream  # type: ignore[assignment, misc]
    torch.Tensor.cuda = lambda self, *args, **kwargs: self  # type: ignore[assignment]


@contextmanager
def as_rank(rank: int, world: int) -> Iterator[None]:
    """Be one rank of a world."""
    hook = sys.excepthook  # every start of torch's groups adds one of its own
    dist.init_process_group("fake", rank=rank, world_size=world, store=FakeStore())
    try:
        yield
    finally:
        dist.destroy_process_group()
        sys.excepthook = hook
