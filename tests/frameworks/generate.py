#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs the frameworks' own layout code and writes tables/*.json.

usage: generate.py [TABLE...]      all tables by default

Needs the packages of requirements.txt: `regenerate` installs them into a folder of their own
and runs this program.
"""

from __future__ import annotations

import random
import sys
from importlib.metadata import version
from typing import Any

import fake_world
import table

SEED = 20
Entries = list[dict[str, Any]]


# Each framework is imported by the tables that need it only.


def grids() -> Entries:
    """See TABLES."""
    import from_megatron

    return from_megatron.grids(random.Random(SEED), 60)


def pipelines() -> Entries:
    """See TABLES."""
    import from_megatron

    return from_megatron.pipelines(random.Random(SEED), 90)


def vocabularies() -> Entries:
    """See TABLES."""
    import from_megatron

    return from_megatron.vocabularies(random.Random(SEED), 30)


def buffers() -> Entries:
    """See TABLES."""
    import buffers_megatron

    return list(buffers_megatron.buffers(random.Random(SEED), 90))


def models() -> Entries:
    """See TABLES."""
    import models_megatron

    return list(models_megatron.models(random.Random(SEED), 40))


def ties() -> Entries:
    """See TABLES."""
    import models_megatron

    return list(models_megatron.ties(random.Random(SEED), 3))


def experts() -> Entries:
    """See TABLES."""
    import models_megatron

    return list(models_megatron.dense_experts(random.Random(SEED), 8))


def rows() -> Entries:
    """See TABLES."""
    import from_torch

    return list(from_torch.rows(random.Random(SEED), 60)) + list(from_torch.uneven(12))


def flats() -> Entries:
    """See TABLES."""
    import from_torch

    return list(from_torch.flats(random.Random(SEED), 50))


def shards() -> Entries:
    """See TABLES."""
    import from_deepspeed

    return list(from_deepspeed.shards(random.Random(SEED), 46))


TABLES = {
    "grids": (grids, "coordinates of ranks", ("megatron-core", "torch")),
    "pipelines": (pipelines, "layers and other modules of pipeline chunks", ("megatron-core", "torch")),
    "vocabularies": (vocabularies, "rows of vocabulary slices", ("megatron-core", "torch")),
    "buffers": (buffers, "distributed optimizer over random tensors", ("megatron-core", "torch")),
    "models": (models, "distributed optimizer over GPT models", ("megatron-core", "torch")),
    "ties": (ties, "GPT models with tied weights and prediction blocks", ("megatron-core", "torch")),
    "experts": (experts, "GPT models with experts in dense buffers", ("megatron-core", "torch")),
    "rows": (rows, "fully_shard, also over tensor-parallel DTensors", ("torch",)),
    "flats": (flats, "FullyShardedDataParallel", ("torch",)),
    "shards": (shards, "ZeRO stages 1 to 3", ("deepspeed", "torch")),
}


def main() -> int:
    """Write the tables named on the command line."""
    names = sys.argv[1:] or list(TABLES)
    if not set(names) <= set(TABLES):
        print(f"usage: generate.py [TABLE...]   tables: {' '.join(TABLES)}", file=sys.stderr)
        return 2
    fake_world.use_cpu()
    for name in names:
        make, about, packages = TABLES[name]
        entries = make()
        path = table.write(name, about, {package: version(package) for package in packages}, entries)
        print(f"{name}: {len(entries)} entries, {path.stat().st_size} bytes")
    return 0


if __name__ == "__main__":
    sys.exit(main())
