# SPDX-License-Identifier: Apache-2.0
"""The man page has the verbs, options, choices and exit codes that --help has, and no others. Needs two arguments:
the program and its man page."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys

SHUNT, PAGE = sys.argv[1], sys.argv[2]
Options = dict[str, tuple[str, ...]]  # of "output" or "o": the choices of its value


def said(*arguments: str) -> str:
    """What the program prints."""
    return subprocess.run([SHUNT, *arguments], capture_output=True, text=True, check=True).stdout


def help_options(text: str) -> Options:
    """Options in --help of a verb, but for --help itself."""
    found: Options = {}
    for letter, name, value in re.findall(r"^  (?:-(\w), )?--([a-z][a-z-]*)(?: (\S+))?", text, re.M):
        choices = tuple(value.split("|")) if "|" in value else ()
        found |= {word: choices for word in (letter, name) if word and name != "help"}
    return found


def page_options(section: str) -> Options:
    """Options that a section of the page lists."""
    found: Options = {}
    for item in re.findall(r"^\.It (Fl .*)", section, re.M):
        choices = tuple(re.findall(r"[\w-]+", item.partition(" Cm ")[2]))
        found |= dict.fromkeys(re.findall(r"\bFl -?([a-z][a-z-]*)", item), choices)
    return found


def check_verbs(page: str) -> str:
    """Each verb that runs has its section and stands in the synopsis."""
    listed = re.findall(r"^  (\w+) ", said("--help").partition("verbs:\n")[2].partition("\n\n")[0], re.M)
    sections = re.findall(r"^\.Ss (\w+)", page, re.M)
    synopsis = re.findall(r"^\.Cm (\w+)", page.partition(".Sh SYNOPSIS")[2].partition(".Sh ")[0], re.M)
    assert listed and sorted(sections) == sorted(listed), (sections, listed)
    assert sorted(synopsis) == sorted([*listed, "help"]), (synopsis, listed)
    return f"{len(listed)} verbs"


def check_options(page: str) -> str:
    """Every verb's options, letters and choices, both ways."""
    count = 0
    for verb, section in re.findall(r"^\.Ss (\w+)(.*?)(?=^\.S[sh] )", page, re.M | re.S):
        want, got = help_options(said(verb, "--help")), page_options(section)
        assert got == want, f"{verb}: --help has {want}, the page {got}"
        count += len(want)
    return f"{count} options"


def check_codes(page: str) -> str:
    """Exit codes."""
    want = re.findall(r"^  (\d)  ", said("plan", "--help").partition("exit codes:")[2], re.M)
    got = re.findall(r"^\.It (\d)$", page.partition(".Sh EXIT STATUS")[2].partition(".Sh ")[0], re.M)
    assert got == want, (got, want)
    return f"{len(got)} codes"


def check_formatted(page: str) -> str:
    """The formatter has nothing to say."""
    if shutil.which("groff") is None:
        return "no groff here"
    done = subprocess.run(["groff", "-mandoc", "-Tascii", "-ww", "-z"], input=page, capture_output=True, text=True,
                          check=False)
    assert done.returncode == 0 and done.stderr == "", done.stderr
    return "groff"


def main() -> int:
    """Run all checks."""
    with open(PAGE, encoding="utf-8") as file:
        page = file.read()
    failed = 0
    checks = (check_verbs, check_options, check_codes, check_formatted)
    print(f"1..{len(checks)}")
    for number, check in enumerate(checks, 1):
        try:
            remark, good = check(page), True
        except AssertionError as error:
            remark, good = "", False
            print(f"# {error}")
        failed += not good
        print(f"{'ok' if good else 'not ok'} {number} - {check.__name__.removeprefix('check_')} {remark}")
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
