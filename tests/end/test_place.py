#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`--place optimal` from end to end: the plan, the layout that it leaves, and what the next plan finds.

usage: test_place.py BUILD_DIR   (TAP on stdout)
"""
from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import traceback
from pathlib import Path
from typing import Any

BUILD = Path(sys.argv[1])
SHUNT, EXEC = BUILD / "planner" / "shunt", BUILD / "executor" / "shunt-exec"

MODEL = """kind: model
name: small
layers: 4
heads: 4
tensors:
  - {name: "layer.{i}.fc.weight", shape: [16, 64], cut: {dim: 0}}
  - {name: "layer.{i}.out.weight", shape: [64, 16], cut: {dim: 1}}
scalars:
  - {name: step, dtype: i64}
"""
CLUSTER = """kind: cluster
name: nodes-of-4
devices_per_node: 4
device: {memory: 1 GiB}
links: {intra_node: 90 GB/s, inter_node: 10 GB/s}
copy: 100 GB/s
"""
HEAD = "kind: layout\nname: {name}\nmodel: m.yaml\ncluster: nodes.yaml\n"
LAYOUTS = {"a": "{tp: 4, pp: 2}", "b": "{tp: 2, pp: 4}", "c": "{tp: 2, pp: 2, dp: 2}", "d": "{tp: 4, pp: 1}"}


def run(*words: object, code: int = 0) -> str:
    """stdout and stderr of a command that must end with that code."""
    done = subprocess.run([str(word) for word in words], capture_output=True, text=True, timeout=300, check=False)
    if done.returncode != code:
        raise AssertionError(f"{' '.join(map(str, words))}: exit {done.returncode}, want {code}: {done.stderr[-2000:]}")
    return done.stdout + done.stderr


def plan(old: Path, new: Path, out: Path, *options: object) -> dict[str, Any]:
    """Figures of a new plan."""
    return json.loads(run(SHUNT, "plan", old, new, "-o", out, "--json", *options))


def make_documents(folder: Path) -> dict[str, Path]:
    """Layouts by name, on devices in order."""
    (folder / "m.yaml").write_text(MODEL)
    (folder / "nodes.yaml").write_text(CLUSTER)
    for name, sizes in LAYOUTS.items():
        (folder / f"{name}.yaml").write_text(HEAD.format(name=name) + f"parallel: {sizes}\n")
    return {name: folder / f"{name}.yaml" for name in LAYOUTS}


def says_what_it_saves(folder: Path) -> None:
    """Less is moved, the report and `inspect` say so, and no figure but the placement's own is another kind."""
    paths, out = make_documents(folder), folder / "x.plan"
    for old, new in ("ab", "ac", "ad", "ba", "da", "cb"):
        fixed = plan(paths[old], paths[new], folder / "fixed.plan")
        placed = plan(paths[old], paths[new], out, "--place", "optimal")
        place = placed["place"]
        assert fixed["place"] == {"method": "fixed", "moved_fixed": fixed["bytes"]["needed_remote"], "cost": None,
                                  "bound": None, "gap": None}, fixed["place"]
        assert place["moved_fixed"] == fixed["bytes"]["needed_remote"], (old, new, place)
        assert placed["bytes"]["needed_remote"] <= place["moved_fixed"], (old, new, place)
        assert 0 <= place["bound"] <= place["cost"] and place["gap"] == 0, (old, new, place)
        assert json.loads(run(SHUNT, "inspect", out, "--json"))["place"] == place
        assert "moved if fixed" in run(SHUNT, "inspect", out)
        assert "moved if fixed" not in run(SHUNT, "inspect", folder / "fixed.plan")
    saved = plan(paths["a"], paths["b"], out, "--place", "optimal")
    assert saved["bytes"]["needed_remote"] < saved["place"]["moved_fixed"], saved["place"]
    first = out.read_bytes()
    plan(paths["a"], paths["b"], out, "--place", "optimal")
    assert out.read_bytes() == first
    said = run(SHUNT, "verify", out, paths["a"], paths["b"])
    assert "the plan chose the devices of the new ranks" in said, said
    run(SHUNT, "verify", out, paths["a"], paths["c"], code=1)


def keeps_to_named_devices(folder: Path) -> None:
    """Where the new layout names devices, those and no others take its ranks; else all devices of the move may."""
    paths = make_documents(folder)
    named = folder / "named.yaml"
    devices = [8, 9, 10, 11, 0, 2, 1, 3]
    named.write_text(paths["b"].read_text() + f"devices: {devices}\n")
    plan(paths["a"], named, folder / "x.plan", "--place", "optimal", "--place-out", folder / "out.yaml")
    text = (folder / "out.yaml").read_text()
    line = next(line for line in text.splitlines() if line.startswith("devices: "))
    assert sorted(numbers(line)) == sorted(devices), line
    figures = plan(paths["c"], paths["d"], folder / "x.plan", "--place", "optimal", "--place-out", folder / "out.yaml")
    chosen = numbers(next(line for line in (folder / "out.yaml").read_text().splitlines() if line.startswith("dev")))
    assert len(set(chosen)) == 4 and max(chosen) < 8 and len({device // 4 for device in chosen}) == 1, chosen
    assert figures["to_ranks"] == 4


def plans_around_a_failure(folder: Path) -> None:
    """Of those that are left, the best devices are taken, spares too; a device that is gone takes no rank."""
    paths, out, left = make_documents(folder), folder / "x.plan", folder / "out.yaml"
    small = folder / "small.yaml"  # node 1 is gone: what it had, node 2 has
    small.write_text(HEAD.format(name="small") + "parallel: {tp: 4, dp: 2}\ndevices: 8-11,0-3\n")
    figures = plan(small, paths["d"], out, "--place", "optimal", "--place-on", "4-7,9,8,11,10", "--place-out", left)
    assert figures["bytes"]["needed_remote"] == 0 and figures["place"]["moved_fixed"] == 0, figures["place"]
    assert "devices: \"8-11\"" in left.read_text(), left.read_text()
    figures = plan(paths["d"], paths["c"], out, "--place", "optimal", "--place-on", "0-2,12-19", "--place-out", left)
    chosen = numbers(next(line for line in left.read_text().splitlines() if line.startswith("devices: ")))
    assert 3 not in chosen and len(set(chosen)) == 8 and set(chosen) <= {0, 1, 2, *range(12, 20)}, chosen
    for wrong, why in (("0-2,2", "a device twice"), ("7-0", "counts down"), ("x", "not a number"), ("", "not a number"),
                       ("0-1048576", "too large")):
        said = run(SHUNT, "plan", paths["a"], paths["b"], "-o", out, "--place", "optimal", "--place-on", wrong, code=2)
        assert f'--place-on: found "{wrong}" (' in said and why in said, said
    said = run(SHUNT, "plan", paths["a"], paths["b"], "-o", out, "--place", "optimal", "--place-on", "0-6", code=1)
    assert "--place-on: found 7 devices, expected at least 8" in said, said
    run(SHUNT, "plan", paths["a"], paths["b"], "-o", out, "--place-on", "0-7", code=2)


def prefers_better_nodes(folder: Path) -> None:
    """Of nodes that hold nothing, those with faster links, enough memory and room for a team take what must be brought."""
    paths, left = make_documents(folder), folder / "left.yaml"

    def chosen(new: str, groups: str, spots: str = "0-19", code: int = 0) -> set[int] | str:
        (folder / "nodes.yaml").write_text(CLUSTER + f"groups: [{groups}]\n")
        words = ("--place", "optimal", "--place-on", spots, "--place-out", left)
        if code:
            return run(SHUNT, "plan", paths["d"], paths[new], "-o", folder / "x.plan", *words, code=code)
        figures = plan(paths["d"], paths[new], folder / "x.plan", *words)
        assert 0 <= figures["place"]["bound"] <= figures["place"]["cost"], figures["place"]
        run(SHUNT, "verify", folder / "x.plan", paths["d"], left)
        return set(numbers(next(line for line in left.read_text().splitlines() if line.startswith("devices: "))))

    slow, fast = "links: {inter_node: 2 GB/s}", "links: {inter_node: 40 GB/s}"
    small = "device: {memory: 66000 B}"
    assert chosen("b", f"{{nodes: 1, {slow}}}") == {*range(4), *range(8, 12)}
    assert chosen("b", f"{{nodes: 1-3, {slow}}}") == {*range(4), *range(16, 20)}
    assert chosen("b", f"{{nodes: 3, {fast}}}") == {*range(4), *range(12, 16)}
    assert chosen("b", f"{{nodes: 3, {fast}}}, {{nodes: 1, {small}}}", "0-11,16-19") == {*range(4), *range(8, 12)}
    assert chosen("b", f"{{nodes: 3, {small[:-1]}}}, {fast}}}", "0-3,8-15") == {*range(4), *range(8, 12)}
    # a team of four keeps off nodes of two, even where it finds half of its bytes
    assert chosen("a", "{nodes: [1, 2], devices_per_node: 2}", "4-15") == {*range(8, 16)}
    said = chosen("b", f"{{nodes: [1, 2], {small}}}", "0-1,4-11", code=1)
    assert "no choice of devices was found" in said and " has 465 B" in said, said


def numbers(line: str) -> list[int]:
    """Devices that a line of a layout names."""
    found: list[int] = []
    for piece in line.partition(":")[2].strip(' "').split(","):
        first, _, last = piece.partition("-")
        found += range(int(first), int(last or first) + 1)
    return found


STYLES = {
    "block": "# a layout, of größe 4\n{head}parallel: {sizes}\n# behind\n",
    "list": "{head}devices:   # old ones\n  - 7\n  - 6\n  - 5\n  - 4\n  - 3\n  - 2\n  - 1\n  - 0\n\n"
            "# then\nparallel: {sizes}\n",
    "last": "{head}parallel: {sizes}\ndevices:\n- 7\n- 6\n- 5\n- 4\n- 3\n- 2\n- 1\n- 0\n",
    "flow": "{head}devices: [7, 6, 5, 4,\n  3, 2, 1, 0] # all\nparallel: {sizes}\n",
    "text": "---\n{head}devices: \"4-7,0-3\"\nparallel: {sizes}\n...\n",
    "quoted": "{head}'devices': 4-7,0-3\nparallel: {sizes}\n",
    "indented": "  kind: layout\n  name: b\n  model: m.yaml\n  cluster: nodes.yaml\n  parallel: {sizes}\n",
    "braces": "{{kind: layout, name: b, model: m.yaml, cluster: nodes.yaml, devices: '4-7,0-3', parallel: {sizes}}}\n",
    "json": '{{"kind": "layout", "name": "b", "model": "m.yaml", "cluster": "nodes.yaml",\n'
            ' "parallel": {{"tp": 2, "pp": 4}}}}\n',
    "mark": "\ufeff# größe\n{head}parallel: {sizes}\n",
    "crlf": "# größe\r\nkind: layout\r\nname: b\r\nmodel: m.yaml\r\ncluster: nodes.yaml\r\nparallel: {sizes}\r\n",
}


def writes_layouts_of_any_style(folder: Path) -> None:
    """Only devices change, and references if the copy lies elsewhere; the next plan starts from there."""
    paths = make_documents(folder)
    other = folder / "other"
    other.mkdir()
    for style, text in STYLES.items():
        source = folder / f"{style}.yaml"
        source.write_bytes(text.format(head=HEAD.format(name="b"), sizes=LAYOUTS["b"]).encode())
        figures = plan(paths["a"], source, folder / "x.plan", "--place", "optimal", "--place-out", other / "b.yaml")
        written = (other / "b.yaml").read_bytes().decode()
        assert written.count("devices") == 1 and written.count("größe") == source.read_bytes().decode().count("größe")
        assert str(folder.resolve() / "m.yaml") in written, (style, written)
        run(SHUNT, "verify", folder / "x.plan", paths["a"], other / "b.yaml")
        beside = folder / "beside.yaml"
        plan(paths["a"], source, folder / "x.plan", "--place", "optimal", "--place-out", beside)
        assert str(folder.resolve()) not in beside.read_bytes().decode(), style
        for start in other / "b.yaml", beside:
            next_plan = plan(start, paths["a"], folder / "y.plan", "--place", "optimal")
            assert next_plan["digests"]["from"] == figures["digests"]["to"], style
        for line in ("# behind", "# then", "# all"):
            assert (line in written) == (line in text), (style, written)


def chains_and_stores(folder: Path) -> None:
    """Plans follow each other from where the ranks are; rank files are those of any other placement."""
    paths = make_documents(folder)
    ab, ba, fixed = folder / "ab.plan", folder / "ba.plan", folder / "fixed.plan"
    plan(paths["a"], paths["b"], ab, "--place", "optimal", "--place-out", folder / "b2.yaml")
    plan(folder / "b2.yaml", paths["a"], ba, "--place", "optimal")
    plan(paths["a"], paths["b"], fixed)
    run(EXEC, ab, ba, "--fill", 1, "--check", "--transport", "loopback")
    run(EXEC, ab, "--fill", 1, "--store", folder / "placed", "--transport", "loopback")
    run(EXEC, fixed, "--fill", 1, "--store", folder / "plain", "--transport", "loopback")
    ranks = sorted(path.name for path in (folder / "plain").glob("rank-*.safetensors"))
    assert len(ranks) == 8
    for name in ranks:
        assert (folder / "placed" / name).read_bytes() == (folder / "plain" / name).read_bytes(), name
    run(EXEC, ba, "--load", folder / "placed", "--store", folder / "back", "--transport", "loopback")
    plan(paths["b"], paths["a"], ba)
    said = run(EXEC, ab, ba, "--fill", 1, "--transport", "loopback", code=1)
    assert f"the new layout of {ab} is not the old layout of {ba}" in said, said


def refuses_outputs(folder: Path) -> None:
    """What is written must not replace what is read, nor the plan."""
    paths, out = make_documents(folder), folder / "x.plan"
    for wrong in paths["a"], paths["b"], out:
        said = run(SHUNT, "plan", paths["a"], paths["b"], "-o", out, "--place-out", wrong, code=2)
        assert f"plan: --place-out: found \"{wrong}\"" in said, said
    assert not out.exists()
    said = run(SHUNT, "plan", paths["a"], paths["b"], "-o", out, "--place-out", folder / "no" / "where.yaml", code=3)
    assert "where.yaml" in said, said


CASES = (says_what_it_saves, keeps_to_named_devices, plans_around_a_failure, prefers_better_nodes,
         writes_layouts_of_any_style, chains_and_stores, refuses_outputs)


def main() -> int:
    failed = 0
    for number, case in enumerate(CASES, 1):
        with tempfile.TemporaryDirectory() as folder:
            try:
                case(Path(folder))
                print(f"ok {number} - {case.__name__}")
            except Exception:  # a failing case must not hide the others
                failed += 1
                print("# " + traceback.format_exc().replace("\n", "\n# "))
                print(f"not ok {number} - {case.__name__}")
    print(f"1..{len(CASES)}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
