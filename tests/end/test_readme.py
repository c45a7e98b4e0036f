# SPDX-License-Identifier: Apache-2.0
"""The example of README.md, "Your own tensors", run as it stands; TAP on stdout.

    python3 test_readme.py BUILD SOURCE

Two ranks with tp 2 become one: the example writes the old side and reads the new one, which must hold its numbers.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
import traceback
from pathlib import Path

MODEL = """kind: model
name: small
layers: 1
tensors:
  - {name: embed.weight, shape: [5, 4], stage: first, cut: {dim: 0, pad: vocab}}
"""
LAYOUT = """kind: layout
name: NAME
model: model.yaml
parallel: {tp: TP}
vocab: {divisible_by: 3}
state: {param: fp32, exp_avg: fp32}
"""


def example(source: Path) -> str:
    """The one Python block of README.md."""
    blocks = re.findall(r"^```python\n(.*?)^```$", (source / "README.md").read_text(encoding="utf-8"), re.M | re.S)
    assert len(blocks) == 1, f"{len(blocks)} Python blocks"
    return str(blocks[0])


def check(build: Path, source: Path) -> None:
    """Rows 0 to 2 and 3 to 5 of the padded vocabulary on two ranks, rows 0 to 5 on one: row 5 is a pad, now zero."""
    path = f"{build / 'planner'}:{build / 'executor'}:{os.environ['PATH']}"
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "model.yaml").write_text(MODEL, encoding="utf-8")
        for tp, side in ((2, "old"), (1, "new")):
            text = LAYOUT.replace("NAME", side).replace("TP", str(tp))
            (folder / f"{side}.yaml").write_text(text, encoding="utf-8")
        (folder / "example.py").write_text(example(source) + REST, encoding="utf-8")
        done = subprocess.run([sys.executable, "example.py"], cwd=folder, env=os.environ | {"PATH": path},
                              capture_output=True, text=True, check=False, timeout=120)
        assert done.returncode == 0, done.stdout + done.stderr


REST = """
from array import array

assert buffers("move.plan", "from") == {(rank, f"{state}/embed.weight"): ("F32", [3, 4])
                                        for rank in (0, 1) for state in ("param", "exp_avg")}
new = read("new/rank-00000.safetensors")
assert set(new) == {"param/embed.weight", "exp_avg/embed.weight"}, new
for dtype, shape, data in new.values():
    assert (dtype, shape) == ("F32", [6, 4]), (dtype, shape)
    assert list(array("f", data)) == [*range(12), *range(100, 108), 0, 0, 0, 0], list(array("f", data))
"""


def main() -> int:
    print("TAP version 13\n1..1", flush=True)
    try:
        check(Path(sys.argv[1]), Path(sys.argv[2]))
    except Exception:
        print("\n".join("# " + line for line in traceback.format_exc().splitlines()))
        print("not ok 1 - your own tensors")
        return 1
    print("ok 1 - your own tensors")
    return 0


if __name__ == "__main__":
    sys.exit(main())
