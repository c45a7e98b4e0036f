# SPDX-License-Identifier: Apache-2.0
"""Writes a C file that holds a binary file: embed.py FILE SYMBOL OUT. The checksum makes the C file change with it."""
import sys
import zlib

path, symbol, out = sys.argv[1:]
with open(path, "rb") as file:
    checksum = zlib.crc32(file.read())
with open(out, "w") as file:
    file.write(f"""/* {path}: checksum {checksum:08x} */
extern const unsigned char {symbol}[];
__asm__(".pushsection .rodata.{symbol}, \\"a\\", @progbits\\n"
        ".balign 64\\n"
        ".globl {symbol}\\n"
        ".hidden {symbol}\\n"
        "{symbol}:\\n"
        ".incbin \\"{path}\\"\\n"
        ".popsection\\n");
""")
