# SPDX-License-Identifier: Apache-2.0
"""Errors, each with the exit code of its family: 1 refused, 2 usage, 3 environment."""

from __future__ import annotations

SHOWN = 50


class ConvertError(Exception):
    """What ends a run. The text is one or more lines, ready to print."""

    code = 1


class Refused(ConvertError):
    """The input is readable and wrong, or asks for what is not supported."""

    def __init__(self, problems: str | list[str]) -> None:
        lines = [problems] if isinstance(problems, str) else problems
        if len(lines) > SHOWN:
            lines = [*lines[:SHOWN], f"and {len(lines) - SHOWN} more"]
        super().__init__("\n".join(lines))


class Usage(ConvertError):
    """The command line makes no sense."""

    code = 2


class Unavailable(ConvertError):
    """A file cannot be read or written."""

    code = 3


def problem(file: str, field: str, found: object, expected: str) -> str:
    """One line of a refusal."""
    return f"{file}: {field}: found {found}, expected {expected}"


def quoted(value: object) -> str:
    """A value as a message shows it: short, on one line."""
    text = value if isinstance(value, str) else repr(value)
    text = text if len(text) <= 60 else text[:57] + "..."
    return f"`{text}`".replace("\n", "\\n")


def read_bytes(path: str) -> bytes:
    """All of a file."""
    try:
        with open(path, "rb") as stream:
            return stream.read()
    except OSError as error:
        raise Unavailable(f"{path}: {error.strerror}") from error


def read_text(path: str) -> str:
    """All of a UTF-8 file."""
    try:
        return read_bytes(path).decode("utf-8")
    except UnicodeDecodeError as error:
        raise Refused(f"{path}: found a byte that is not UTF-8 at offset {error.start}, expected UTF-8") from error


def write_text(path: str, text: str) -> None:
    """Replace a file."""
    try:
        with open(path, "w", encoding="utf-8") as stream:
            stream.write(text)
    except OSError as error:
        raise Unavailable(f"{path}: {error.strerror}") from error
