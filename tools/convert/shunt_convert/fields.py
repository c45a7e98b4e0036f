# SPDX-License-Identifier: Apache-2.0
"""The fields of a config.json, checked one by one; all problems of a file come in one report."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable

from .errors import Refused, problem, quoted, read_text

MOST = 1 << 40
MOST_LAYERS = 1 << 16


class Fields:
    """A config. Getters note what is wrong and go on with None; `finish` raises if anything was."""

    def __init__(self, path: str, values: dict[str, object]) -> None:
        self.path, self.values = path, values
        self.problems: list[str] = []

    def refuse(self, name: str, found: object, expected: str) -> None:
        self.problems.append(problem(self.path, name, found, expected))

    def finish(self) -> None:
        if self.problems:
            raise Refused(self.problems)

    def count(self, name: str, least: int = 1) -> int | None:
        """A whole number, or None where it is absent or null."""
        value = self.values.get(name)
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= MOST:
            self.refuse(name, quoted(value), f"a whole number of at least {least}")
            return None
        return value

    def same(self, names: Iterable[str], least: int = 1) -> int | None:
        """A number that may go by several names, which then must agree."""
        found = [(name, number) for name in names if (number := self.count(name, least)) is not None]
        for name, number in found[1:]:
            if number != found[0][1]:
                self.refuse(name, number, f"{found[0][1]}, as `{found[0][0]}` says")
        return found[0][1] if found else None

    def need(self, *names: str, least: int = 1) -> int:
        """A number that must be there, under one of these names. 1 stands for one that is not."""
        number = self.same(names, least)
        if number is None:
            if all(self.values.get(name) is None for name in names):
                self.refuse(names[0], "no such field", f"a whole number of at least {least}")
            return max(least, 1)
        return number

    def layers(self, *names: str) -> int:
        """The number of layers."""
        layers = self.need(*(names or ("num_hidden_layers",)))
        if layers > MOST_LAYERS:
            self.refuse(names[0] if names else "num_hidden_layers", layers, f"at most {MOST_LAYERS}")
            return 1
        return layers

    def flag(self, name: str, default: bool) -> bool:
        """true or false."""
        value = self.values.get(name)
        if value is None:
            return default
        if not isinstance(value, bool):
            self.refuse(name, quoted(value), "true or false")
        return value is True

    def text(self, name: str) -> str | None:
        """A text, or None where it is absent or null."""
        value = self.values.get(name)
        if value is not None and not isinstance(value, str):
            self.refuse(name, quoted(value), "a text")
            return None
        return value

    def counts(self, name: str) -> tuple[int, ...]:
        """A list of whole numbers; empty where it is absent."""
        value = self.values.get(name)
        if value is None:
            return ()
        if not isinstance(value, list) or any(isinstance(v, bool) or not isinstance(v, int) for v in value):
            self.refuse(name, quoted(value), "a list of whole numbers")
            return ()
        return tuple(value)

    def length(self, name: str, layers: int) -> None:
        """A list that must have an entry for each layer, if it is there."""
        value = self.values.get(name)
        if isinstance(value, list) and len(value) != layers:
            self.refuse(name, f"{len(value)} entries", f"{layers}, one for each layer")

    def divides(self, name: str, number: int, of: str, whole: int) -> None:
        """`number` must divide `whole`."""
        if whole % number != 0:
            self.refuse(name, number, f"a divisor of {of}, which is {whole}")

    def absent(self, name: str, reason: str) -> None:
        """A field that must be null, false or 0."""
        value = self.values.get(name)
        if value not in (None, False, 0, [], {}):
            self.refuse(name, quoted(value), reason)


def distinct(pairs: list[tuple[str, object]]) -> dict[str, object]:
    """A JSON object whose keys are distinct."""
    values = dict(pairs)
    if len(values) != len(pairs):
        name = Counter(name for name, _ in pairs).most_common(1)[0][0]
        raise ValueError(f"found {quoted(name)} a second time, expected distinct keys")
    return values


def parse_object(path: str, source: str | bytes) -> dict[str, object]:
    """A JSON object."""
    try:
        values = json.loads(source, object_pairs_hook=distinct)
    except json.JSONDecodeError as error:
        raise Refused(f"{path}:{error.lineno}:{error.colno}: found no JSON, expected JSON ({error.msg})") from error
    except (ValueError, RecursionError) as error:
        raise Refused(f"{path}: {error}") from error
    if not isinstance(values, dict):
        raise Refused(f"{path}: found no JSON object, expected one")
    return values


def load(path: str) -> Fields:
    """Read a config."""
    return Fields(path, parse_object(path, read_text(path)))
