# SPDX-License-Identifier: Apache-2.0
"""--help and the man page name the same options, and the program knows them all; the page of the library names every
call of its header. Needs four arguments: the program, its man page, the library's page and its header."""

import re
import subprocess
import sys

EXEC, PAGE, LIBRARY_PAGE, HEADER = sys.argv[1:5]


def main():
    help_text = subprocess.run([EXEC, "--help"], capture_output=True, text=True, check=True).stdout
    with open(PAGE, encoding="utf-8") as file:
        page = file.read()
    in_help = set(re.findall(r"--([a-z][a-z-]+)", help_text))
    in_page = set(re.findall(r"(?:^\.It|^\.Op|[|]|,) *Fl -([a-z][a-z-]+)", page, re.M)) | \
        set(re.findall(r"Fl -([a-z][a-z-]+)", page))
    ok = in_help == in_page
    if not ok:
        print(f"# only in --help: {in_help - in_page}; only in the man page: {in_page - in_help}")
    print(("ok" if ok else "not ok") + " 1 - help and man page agree")
    unknown = []
    for option in sorted(in_help):
        done = subprocess.run([EXEC, "--" + option], capture_output=True, text=True, check=False)
        if "unknown option" in done.stderr:
            unknown.append(option)
    print(("not ok" if unknown else "ok") + f" 2 - every option is known {unknown or ''}")
    with open(LIBRARY_PAGE, encoding="utf-8") as page, open(HEADER, encoding="utf-8") as header:
        named = set(re.findall(r"^\.Fn (shunt_\w+)", page.read(), re.M))
        calls = set(re.findall(r"^SHUNT_API [^;(]*?(shunt_\w+)\(", header.read(), re.M))
    unlike = (named - {"shunt_status_exit_code"}) ^ calls
    print(("not ok" if unlike or len(calls) < 10 else "ok") + f" 3 - the library's page names its calls {unlike or ''}")
    print("1..3")
    sys.exit(not ok or bool(unknown) or bool(unlike) or len(calls) < 10)


main()
