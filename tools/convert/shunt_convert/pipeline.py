# SPDX-License-Identifier: Apache-2.0
"""Megatron's ways to spread layers over pipeline chunks, as far as a layout document needs them."""

from __future__ import annotations

import re

_GROUP = re.compile(r"\(([^()]+)\)\*(\d{1,4})")
_SINGLE = re.compile(r"(.)\*(\d{1,4})")
MOST = 65536


def expand(layout: str) -> str | None:
    """"Et*3|(tt|)*29,m|L" without commas, groups and factors; None where it does not parse."""
    text = re.sub(r"[,\s]", "", layout)
    for pattern in (_GROUP, _SINGLE):
        text = pattern.sub(lambda match: match.group(1) * int(match.group(2)) if len(text) < MOST else "?", text)
    return text if re.fullmatch(r"[EtmL|]+", text) and len(text) <= MOST else None


def problems(text: str) -> str | None:
    """What is wrong with an expanded layout."""
    if text.count("E") != 1 or text.count("L") != 1:
        return "exactly one E and one L"
    flat = text.replace("|", "")
    if not flat.startswith("E") or not flat.endswith("L"):
        return "E first and L last"
    if "m" in flat and (re.search(r"m+t", flat) or re.search(r"m\|+m", text)):
        return "all m in one chunk, behind the layers"
    return None


def hybrid(pattern: str) -> tuple[int, str | None, bool]:
    """Layers of a hybrid pattern, its chunks as a layout where it has `|`, and whether it has a prediction block."""
    main, _, depths = pattern.partition("/")
    block = "m" * depths.count("/") + "m" if depths else ""
    chunks = ["t" * len(chunk) for chunk in main.split("|")]
    layers = sum(len(chunk) for chunk in chunks)
    if len(chunks) == 1:
        return layers, None, block != ""
    return layers, "E" + "|".join(chunks) + block + "L", block != ""


def first_stage(layers: int, pp: int, vpp: int, first: int | None, last: int | None, count: tuple[bool, bool]) -> int:
    """Layers on the first stage, all its chunks together."""
    embedding, loss = count
    if first is not None:
        return first
    if last is not None:
        return (layers - last) // (pp - 1) if pp > 1 else layers
    return (layers + embedding + loss) // pp - embedding - (loss if pp == 1 else 0)
