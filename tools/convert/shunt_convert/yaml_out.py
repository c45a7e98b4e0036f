# SPDX-License-Identifier: Apache-2.0
"""A small YAML writer: block form outside, flow form inside, folded at 120 columns."""

from __future__ import annotations

import json
import re
import textwrap

WIDTH = 120
_PLAIN = re.compile(r"[A-Za-z][A-Za-z0-9_./-]*\Z")
_WORDS = {"true", "false", "yes", "no", "on", "off", "null", "y", "n"}


class Raw(str):
    """YAML that is ready."""


def text(value: str, quoted: bool = False) -> str:
    """A text, in quotes where another reader could take it for something else."""
    plain = _PLAIN.match(value) is not None and value.lower() not in _WORDS
    return value if plain and not quoted else json.dumps(value, ensure_ascii=False)


def scalar(value: object) -> str:
    """A bool, a whole number or a text."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value) if isinstance(value, (int, Raw)) else text(str(value))


def flow(value: object) -> str:
    """A value on one line."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key}: {flow(entry)}" for key, entry in value.items()) + "}"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(flow(entry) for entry in value) + "]"
    return scalar(value)


def folded(mapping: dict[str, object], head: str) -> list[str]:
    """A flow mapping behind `head`, on as few lines as the width allows."""
    indent = " " * (len(head) + 1)
    lines = [head + "{"]
    pieces = [f"{key}: {flow(value)}" for key, value in mapping.items()]
    for number, piece in enumerate(pieces):
        piece += "," if number + 1 < len(pieces) else "}"
        fresh = lines[-1].endswith("{") or lines[-1] == indent
        if not fresh and len(lines[-1]) + 1 + len(piece) > WIDTH:
            lines.append(indent + piece)
        else:
            lines[-1] += piece if fresh else " " + piece
    return lines


def comment(words: str) -> list[str]:
    """A comment, folded."""
    return textwrap.wrap(words, WIDTH - 2, initial_indent="# ", subsequent_indent="# ", break_long_words=False)
