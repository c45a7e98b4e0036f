# SPDX-License-Identifier: Apache-2.0
"""A reader of the YAML that configs use: block and flow collections, quotes, anchors, block scalars.

Not read: tags, directives, complex keys, merge keys and several documents. Plain scalars stay text, as class
Plain; a plain null is None. What they mean is for the caller to say.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass

from .errors import Refused

MOST_DEPTH = 64


class Plain(str):
    """A scalar without quotes."""


@dataclass(frozen=True)
class Line:
    """A line without its comment."""

    number: int
    indent: int
    text: str
    blank: int = 0  # empty lines before it


_KEY = re.compile(r"""("(?:[^"\\]|\\.)*"|'(?:[^']|'')*'|[^\s\[\]{},&*!|>'"%@`#-][^#]*?|-[^\s#][^#]*?)\s*:(?:\s+|\Z)""")
_ANCHOR = re.compile(r"&([^\s\[\]{},]+)(?:\s+|\Z)")
_ALIAS = re.compile(r"\*([^\s\[\]{},]+)")
_JOINED = re.compile(r"\\\n\s*")
_ESCAPE = re.compile(r"\n|\t|\\(x[0-9A-Fa-f]{2}|U[0-9A-Fa-f]{8}|.)", re.S)
_LETTERS = {
    "0": "\0", "a": "\a", "e": "\x1b", "v": "\v", " ": " ", "N": "\x85", "_": "\xa0", "L": "\u2028", "P": "\u2029",
}  # fmt: skip
_BLOCK = re.compile(r"[|>][+-]?[0-9]?[+-]?\Z")


def plain(value: str) -> object:
    """A plain scalar: None for null, else text."""
    return None if value in ("", "~", "null", "Null", "NULL") else Plain(value)


def unfold(value: str) -> str:
    """A scalar over several lines as one: a line break is a space, and n of them n - 1 breaks."""
    return re.sub(r"[ \t]*(\n\s*)", lambda match: "\n" * (match.group(1).count("\n") - 1) or " ", value)


def escape(match: re.Match[str]) -> str:
    """An escape of YAML as one of JSON."""
    name = match.group(1)
    if name is None or name in _LETTERS:
        return json.dumps(_LETTERS[name] if name else match.group(0))[1:-1]
    if name[0] in "xU":
        code = int(name[1:], 16)
        return json.dumps(chr(code) if code < 0x110000 else "")[1:-1]
    return match.group(0)


class Flow:
    """A value in flow form, in one text."""

    def __init__(self, reader: "Reader", value: str, number: int) -> None:
        self.reader, self.value, self.number, self.at = reader, value, number, 0

    def fail(self, found: str, expected: str) -> Refused:
        return self.reader.fail(self.number, found, expected)

    def space(self) -> None:
        while self.at < len(self.value) and self.value[self.at].isspace():
            self.at += 1

    def take(self, pattern: re.Pattern[str]) -> re.Match[str] | None:
        match = pattern.match(self.value, self.at)
        if match is not None:
            self.at = match.end()
        return match

    def peek(self) -> str:
        self.space()
        return self.value[self.at] if self.at < len(self.value) else ""

    def any(self, depth: int, inside: bool = True) -> object:
        """A value; `inside` a collection, commas and brackets end a plain scalar."""
        if depth > MOST_DEPTH:
            raise self.fail("more than 64 levels", "fewer")
        first = self.peek()
        if first == "*":
            return self.alias()
        if first == "&":
            return self.anchored(depth, inside)
        if first == "[":
            return self.sequence(depth)
        if first == "{":
            return self.mapping(depth)
        if first in ("'", '"'):
            return self.quoted(first)
        if first in ("!", "%", "@", "`"):
            raise self.fail(f"`{first}`", "no tags and no reserved characters")
        return self.plain(inside)

    def alias(self) -> object:
        match = self.take(_ALIAS)
        if match is None or match.group(1) not in self.reader.anchors:
            raise self.fail("an unknown alias", "one whose anchor comes before it")
        return self.reader.anchors[match.group(1)]

    def anchored(self, depth: int, inside: bool) -> object:
        match = self.take(_ANCHOR)
        if match is None:
            raise self.fail("`&`", "the name of an anchor")
        value = self.any(depth, inside)
        self.reader.anchors[match.group(1)] = value
        return value

    def plain(self, inside: bool) -> object:
        pattern = r"[^,\[\]{}]*" if inside else r".*"
        match = self.take(re.compile(pattern, re.S))
        value = (match.group(0) if match is not None else "").strip()
        if re.search(r":(\s|\Z)", value):
            raise self.fail(f"`{value}`", "a scalar without `: `")
        return plain(unfold(value))

    def quoted(self, mark: str) -> str:
        pattern = r'"((?:[^"\\]|\\.)*)"' if mark == '"' else r"'((?:[^']|'')*)'"
        match = self.take(re.compile(pattern, re.S))
        if match is None:
            raise self.fail("an open quote", f"a closing {mark}")
        body = match.group(1)
        if mark == "'":
            return unfold(body).replace("''", "'")
        try:
            return str(json.loads(f'"{_ESCAPE.sub(escape, unfold(_JOINED.sub("", body)))}"'))
        except ValueError as error:
            raise self.fail("an escape in quotes that is not read here", "one of JSON's escapes") from error

    def sequence(self, depth: int) -> list[object]:
        self.at += 1
        entries: list[object] = []
        while self.peek() != "]":
            entries.append(self.any(depth + 1))
            self.comma("]")
        self.at += 1
        return entries

    def mapping(self, depth: int) -> dict[str, object]:
        self.at += 1
        entries: dict[str, object] = {}
        while self.peek() != "}":
            key = self.key()
            if key in entries:
                raise self.fail(f"`{key}` a second time", "distinct keys")
            entries[key] = self.any(depth + 1)
            self.comma("}")
        self.at += 1
        return entries

    def key(self) -> str:
        first = self.peek()
        if first in ("'", '"'):
            key = self.quoted(first)
        else:
            match = self.take(re.compile(r"[^\s,\[\]{}:][^,\[\]{}:]*"))
            key = match.group(0).strip() if match is not None else ""
        if key == "" or self.peek() != ":":
            raise self.fail("no key", "`key: value`")
        self.at += 1
        return key

    def comma(self, end: str) -> None:
        if self.peek() == ",":
            self.at += 1
        elif self.peek() != end:
            raise self.fail("no comma", f"`,` or `{end}`")

    def whole(self) -> object:
        """The whole text as one value."""
        value = self.any(0, inside=False)
        if self.peek() != "":
            raise self.fail(f"`{self.value[self.at:self.at + 20]}` behind a value", "the end of the line")
        return value


class Reader:
    """One document."""

    def __init__(self, path: str, source: str) -> None:
        self.path = path
        self.anchors: dict[str, object] = {}
        self.raw = source.splitlines()
        self.lines = self.split()
        self.at = 0

    def fail(self, number: int, found: str, expected: str) -> Refused:
        return Refused(f"{self.path}:{number}: found {found}, expected {expected}")

    def split(self) -> list[Line]:
        lines: list[Line] = []
        blank, ended, mark = 0, False, ""
        for number, raw in enumerate(self.raw, 1):
            body = raw.strip()
            blank += body == ""
            if body == "" or (body.startswith("#") and not mark):
                continue
            if ended:
                raise self.fail(number, f"`{body[:20]}` behind `...`", "one document")
            if body == "..." == raw.rstrip():
                ended = True
                continue
            if raw[: len(raw) - len(raw.lstrip())].count("\t"):
                raise self.fail(number, "a tab in the indentation", "spaces")
            if raw.startswith("%") or (raw.startswith("---") and lines):
                raise self.fail(number, f"`{raw[:3]}`", "one document without directives")
            if not raw.startswith("---"):
                mark = uncomment(body, mark)[1]
                lines.append(Line(number, len(raw) - len(raw.lstrip()), body, blank))
            blank = 0
        return lines

    def document(self) -> object:
        if not self.lines:
            return None
        value = self.block(self.lines[0].indent, 0)
        if self.at < len(self.lines):
            raise self.fail(self.lines[self.at].number, "another indentation", "that of the lines before")
        return value

    def block(self, indent: int, depth: int) -> object:
        """The value that starts on the current line."""
        line = self.lines[self.at]
        if depth > MOST_DEPTH:
            raise self.fail(line.number, "more than 64 levels", "fewer")
        if line.text == "-" or line.text.startswith("- "):
            return self.block_list(indent, depth)
        if _KEY.match(line.text):
            return self.block_mapping(indent, depth)
        self.at += 1
        return self.inline(line.text, line, indent - 1)

    def block_list(self, indent: int, depth: int) -> list[object]:
        entries: list[object] = []
        while self.at < len(self.lines) and self.lines[self.at].indent == indent:
            line = self.lines[self.at]
            if line.text != "-" and not line.text.startswith("- "):
                break
            rest = line.text[1:].lstrip()
            if rest == "" or rest.startswith("#"):
                self.at += 1
                entries.append(self.nested(indent, depth))
                continue
            inner = indent + len(line.text) - len(rest)
            self.lines[self.at] = Line(line.number, inner, rest)
            entries.append(self.block(inner, depth + 1))
        return entries

    def block_mapping(self, indent: int, depth: int) -> dict[str, object]:
        entries: dict[str, object] = {}
        while self.at < len(self.lines) and self.lines[self.at].indent == indent:
            line = self.lines[self.at]
            match = _KEY.match(line.text)
            if match is None:
                raise self.fail(line.number, f"`{line.text[:30]}`", "`key: value`")
            key = str(Flow(self, match.group(1), line.number).any(0, inside=False))
            if key in entries or key == "<<":
                raise self.fail(line.number, f"`{key}`", "distinct keys, and no merge keys")
            self.at += 1
            entries[key] = self.value(line.text[match.end():], line, indent, depth)
        return entries

    def value(self, rest: str, line: Line, indent: int, depth: int) -> object:
        """What follows `key:`."""
        anchor = _ANCHOR.match(rest)
        tail = rest[anchor.end():] if anchor is not None else rest
        if tail == "" or tail.startswith("#"):
            value = self.nested(indent, depth, lists_too=True)
        elif _BLOCK.match(re.sub(r"\s+#.*", "", tail)):
            value = self.block_scalar(line)
        else:
            value = self.inline(tail, line, indent)
        if anchor is not None:
            self.anchors[anchor.group(1)] = value
        return value

    def nested(self, indent: int, depth: int, lists_too: bool = False) -> object:
        """A block that is further in; a list under a key may stand as far out as the key."""
        if self.at == len(self.lines):
            return None
        line = self.lines[self.at]
        if line.indent > indent or (lists_too and line.indent == indent and line.text.startswith("-")):
            return self.block(line.indent, depth + 1)
        return None

    def block_scalar(self, line: Line) -> str:
        """Lines behind `|` or `>`, joined as they are."""
        body = []
        while self.at < len(self.lines) and self.lines[self.at].indent > line.indent:
            body.append(self.lines[self.at].text)
            self.at += 1
        return "\n".join(body)

    def inline(self, rest: str, line: Line, indent: int) -> object:
        """A scalar or flow value, which may go on over lines that are further in."""
        value, mark = uncomment(rest)
        flow_form = value[:1] in "[{'\"" or _ANCHOR.match(value) is not None
        while self.at < len(self.lines) and self.lines[self.at].indent > indent:
            if flow_form and closed(value):
                break
            more, mark = uncomment(self.lines[self.at].text, mark)
            if not flow_form and re.search(r":(\s|\Z)", more):
                raise self.fail(self.lines[self.at].number, f"`{more[:30]}` inside a scalar", "another indentation")
            value += "\n" * (1 + self.lines[self.at].blank) + more
            self.at += 1
        if not flow_form:
            value = unfold(value)
        return Flow(self, value, line.number).whole()


def opens(value: str, at: int) -> bool:
    """Whether a quote at this place starts a scalar: it is the first thing in the line, in a list or behind a key."""
    before = value[:at].rstrip()
    return before == "" or before[-1] in "[{,:-"


def step(value: str, at: int, mark: str) -> tuple[int, str]:
    """Behind one letter, or two where the second is escaped or the quote is doubled: the place, and the open quote."""
    letter = value[at]
    if not mark:
        return at + 1, letter if letter in "'\"" and opens(value, at) else ""
    if (letter == "\\" and mark == '"') or (letter == mark == "'" and value[at + 1 : at + 2] == "'"):
        return at + 2, mark
    return at + 1, "" if letter == mark else mark


def uncomment(value: str, mark: str = "") -> tuple[str, str]:
    """A line without a comment and without space at its end; and the quote that is open behind it, as before it."""
    at = 0
    while at < len(value):
        if not mark and value[at] == "#" and (at == 0 or value[at - 1].isspace()):
            return value[:at].rstrip(), ""
        at, mark = step(value, at, mark)
    return value.rstrip(), mark


def closed(value: str) -> bool:
    """Whether quotes and brackets are balanced; brackets in quotes do not count."""
    depth, mark, at = 0, "", 0
    while at < len(value):
        if not mark:
            depth += (value[at] in "[{") - (value[at] in "]}")
        at, mark = step(value, at, mark)
    return depth <= 0 and mark == ""


def read(path: str, source: str) -> object:
    """The value of a document; Refused where it is not the YAML that is read here."""
    return Reader(path, source).document()
