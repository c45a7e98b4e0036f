# SPDX-License-Identifier: Apache-2.0
"""The command: one sub-command for each kind of input."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable

from . import checkpoint, hf, megatron, megatron_help
from .errors import ConvertError, Usage, write_text
from .model import INCLUDES, render

ENDING = """exit codes:
  0  done
  1  refused: bad input, contradictions, what Shunt does not support
  2  usage
  3  environment: no such file, output cannot be written"""

TOP = f"""usage: shunt-convert COMMAND ...

Turn descriptions that other tools write into Shunt's documents.

commands:
  hf           a Hugging Face config.json into a model document
  megatron     Megatron-LM launch arguments, or a YAML of them, into a layout document
  safetensors  check the shapes of a checkpoint against a model document, or make one from it

`shunt-convert COMMAND --help` says more.

{ENDING}
"""


class Parser(argparse.ArgumentParser):
    """Whose errors are Usage."""

    def error(self, message: str) -> None:  # type: ignore[override]
        raise Usage(f"{self.prog}: {message}; try --help")


def parser(verb: str, description: str) -> Parser:
    """The parser of a sub-command."""
    return Parser(
        prog=f"shunt-convert {verb}",
        description=description,
        epilog=ENDING,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )


def put(output: str | None, text: str) -> None:
    """To a file, or to stdout."""
    if output is None:
        sys.stdout.write(text)
        sys.stdout.flush()
    else:
        write_text(output, text)


def say(notes: list[str]) -> None:
    for note in notes:
        print(note, file=sys.stderr)


def run_hf(words: list[str]) -> None:
    known = ", ".join(sorted(hf.FAMILIES))
    options = parser("hf", f"Make a model document from a Hugging Face config.json.\n\nmodel types: {known}")
    options.add_argument("config", metavar="CONFIG.json")
    options.add_argument("-o", dest="output", metavar="MODEL.yaml", help="write there, in place of stdout")
    options.add_argument("--name", help="name of the model, in place of one from the config")
    options.add_argument("--no-mtp", action="store_true", help="without the multi-token prediction block")
    options.add_argument("--include", choices=INCLUDES, help="state beside the tensors that a Megatron job keeps, "
                         "in place of three scalars that every trainer has")  # fmt: skip
    given = options.parse_args(words)
    model, notes = hf.convert(given.config, given.name, given.no_mtp, given.include)
    say(notes)
    put(given.output, render(model))


def run_megatron(words: list[str]) -> None:
    if megatron_help.wanted(words):
        print(f"{megatron_help.TEXT}\n{ENDING}")
        return
    output, text, notes = megatron.convert(words)
    say(notes)
    put(output, text)


def run_safetensors(words: list[str]) -> None:
    description = (
        "With --model, check that the tensors of a checkpoint with Hugging Face names have the shapes\n"
        "of a model document. Without, make a document from it, one tensor per entry. Only headers are read."
    )
    options = parser("safetensors", description)
    options.add_argument("source", metavar="INDEX.json|FILE.safetensors")
    options.add_argument("--model", metavar="MODEL.yaml", help="a model document, or a built-in's name")
    options.add_argument("-o", dest="output", metavar="FILE", help="write there, in place of stdout")
    options.add_argument("--name", help="name of the document that is made")
    given = options.parse_args(words)
    if given.model is not None and given.name is not None:
        raise Usage("shunt-convert safetensors: --name goes without --model")
    text, notes = checkpoint.run(given.source, given.model, given.name)
    say(notes)
    put(given.output, text)


COMMANDS: dict[str, Callable[[list[str]], None]] = {
    "hf": run_hf,
    "megatron": run_megatron,
    "safetensors": run_safetensors,
}


def main(words: list[str]) -> int:
    """The whole command; returns the exit code."""
    try:
        if words and words[0] in ("-h", "--help"):
            put(None, TOP)
            return 0
        if not words or words[0] not in COMMANDS:
            raise Usage(f"shunt-convert: found {words[0] if words else 'no command'}, expected {', '.join(COMMANDS)}")
        COMMANDS[words[0]](words[1:])
    except ConvertError as error:
        print(error, file=sys.stderr)
        return error.code
    except BrokenPipeError:
        sys.stderr.close()
        return 3
    return 0
