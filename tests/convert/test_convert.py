#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests of tools/convert/shunt-convert.

usage: test_convert.py [NAME-PART]   (TAP on stdout)

With SHUNT_BIN, a path of `shunt`, every document that is made is loaded by it too.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import shlex
import struct
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Callable
from dataclasses import dataclass, replace
from math import prod
from pathlib import Path

sys.dont_write_bytecode = True
HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
TOOL = ROOT / "tools" / "convert" / "shunt-convert"
sys.path[:0] = [str(HERE), str(TOOL.parent)]

import configs  # noqa: E402
import hf_tensors  # noqa: E402
import rows  # noqa: E402
from shunt_convert import cli, model, yaml_in  # noqa: E402

SHUNT = os.environ.get("SHUNT_BIN")
WORK = Path(tempfile.mkdtemp(prefix="shunt-convert-"))


@dataclass(frozen=True)
class Run:
    """What a run of the tool gave."""

    code: int
    out: str
    err: str


def convert(*words: str) -> Run:
    """Run the tool in this process."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            code = cli.main(list(words))
        except SystemExit as end:  # --help
            code = int(str(end.code or 0))
    return Run(code, out.getvalue(), err.getvalue())


def good(*words: str) -> Run:
    """Run the tool, which must succeed."""
    run = convert(*words)
    assert run.code == 0, f"exit code {run.code}: {run.err}"
    return run


def put(name: str, text: str) -> str:
    """Write a file into the test's folder; returns its path."""
    path = WORK / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return str(path)


def shunt_loads(text: str) -> None:
    """The planner must take this layout document, with its model."""
    if SHUNT is None:
        return
    path = put("loads.yaml", text)
    run = subprocess.run([SHUNT, "layout", path], capture_output=True, text=True, check=False)
    assert run.returncode == 0, f"{run.stderr}{text}"


def shunt_loads_model(path: str) -> None:
    shunt_loads(f"kind: layout\nname: one\nmodel: {json.dumps(path)}\nparallel: {{tp: 1}}\n")


def says(run: Run, code: int, *texts: str) -> None:
    """The run must have ended so, and said this on stderr, with nothing on stdout."""
    assert run.code == code, f"exit code {run.code}, not {code}: {run.out}{run.err}"
    missing = [text for text in texts if text not in run.err]
    assert not missing, f"no {missing} in: {run.err}"
    assert run.out == "", f"on stdout: {run.out}"


# ---- hf -------------------------------------------------------------------------------------------


def meaning(document: model.Model) -> model.Model:
    """Without what only people read, and with layers as numbers."""
    tensors = tuple(
        replace(t, remark="", layers=t.numbers(document.layers) if "{i}" in t.name else None) for t in document.tensors
    )
    return replace(document, tensors=tensors, remarks=())


def check_model(name: str) -> None:
    """The document of a known network: as many parameters and tensors as it has, and the same as the built-in one."""
    config, extra, parameters = configs.MODELS[name]
    source = put(f"{name}.json", json.dumps(config))
    made = str(WORK / f"{name}.yaml")
    good("hf", source, "--name", name, "-o", made, *extra)
    document = model.load(made)
    assert document.elements() == parameters, f"{document.elements():,} parameters, not {parameters:,}"
    if name in configs.TENSORS:
        assert document.count() == configs.TENSORS[name], f"{document.count()} tensors, not {configs.TENSORS[name]}"
    assert good("hf", source, "--name", name, *extra).out == Path(made).read_text(encoding="utf-8")
    shunt_loads_model(made)
    built_in = ROOT / "plans" / "models" / f"{name}.yaml"
    if built_in.exists():
        same_model(meaning(document), meaning(model.load(str(built_in))))


def same_model(made: model.Model, wanted: model.Model) -> None:
    """Tensor by tensor, in order."""
    assert [t.name for t in made.tensors] == [t.name for t in wanted.tensors], "other tensors, or another order"
    for ours, theirs in zip(made.tensors, wanted.tensors):
        assert ours == theirs, f"{ours}\n{theirs}"
    assert made == wanted, f"{replace(made, tensors=())}\n{replace(wanted, tensors=())}"


def variant(family: str, **changes: object) -> model.Model:
    """The document of a small network with some fields changed; None removes a field."""
    config = hf_tensors.SMALL[family] | changes
    source = put("variant.json", json.dumps({key: value for key, value in config.items() if value != "gone"}))
    made = put("variant.yaml", good("hf", source).out)
    shunt_loads_model(made)
    return model.load(made)


def shapes(document: model.Model) -> dict[str, tuple[int, ...]]:
    return {tensor.name: tensor.shape for tensor in document.tensors}


def check_variants() -> None:
    """Fields that change which tensors there are."""
    tied = variant("llama", tie_word_embeddings=True)
    assert tied.tensors[0].tied == ("last",) and "lm_head.weight" not in shapes(tied)
    biased = shapes(variant("llama", attention_bias=True, mlp_bias=True))
    assert biased["layer.{i}.attn.qkv.bias"] == (96,) and biased["layer.{i}.mlp.gate_up.bias"] == (160,)
    assert biased["layer.{i}.attn.o.bias"] == (48,) and biased["layer.{i}.mlp.down.bias"] == (48,)
    assert shapes(variant("llama", num_key_value_heads="gone"))["layer.{i}.attn.qkv.weight"] == (144, 48)
    assert shapes(variant("llama", head_dim=20))["layer.{i}.attn.o.weight"] == (48, 80)
    untied = shapes(variant("gpt2", tie_word_embeddings=False, n_inner=100))
    assert untied["lm_head.weight"] == (101, 48) and untied["layer.{i}.mlp.fc1.weight"] == (100, 48)
    plain = shapes(variant("deepseek_v3", q_lora_rank=None, num_nextn_predict_layers=0))
    assert plain["layer.{i}.attn.q.weight"] == (48, 48) and not any(name.startswith("mtp.") for name in plain)
    every_other = variant("qwen3_moe", decoder_sparse_step=2, mlp_only_layers=[])
    sparse = {t.name: t.numbers(3) for t in every_other.tensors}
    assert sparse["layer.{i}.moe.router.weight"] == (1,) and sparse["layer.{i}.mlp.down.weight"] == (0, 2)
    dense = variant("deepseek_v3", first_k_dense_replace=3, num_nextn_predict_layers=0)
    assert dense.experts is None and not any("moe" in tensor.name for tensor in dense.tensors)


def check_hybrid_variants() -> None:
    """A hybrid's layers may be given as words, and its tp follows from all head counts."""
    words = ["mamba", "moe", "attention", "mlp"]
    assert meaning(variant("nemotron_h", hybrid_override_pattern="gone", layers_block_type=words)) == meaning(
        variant("nemotron_h"))  # fmt: skip
    narrow = variant("nemotron_h", n_groups=2)
    assert (narrow.heads, narrow.kv_heads) == (2, 2)
    attention = variant("nemotron_h", hybrid_override_pattern="**", num_hidden_layers=2)
    assert (attention.heads, attention.kv_heads) == (4, 2)
    no_shared = shapes(variant("nemotron_h", n_shared_experts=0))
    assert "layer.{i}.moe.shared.up.weight" not in no_shared


# changes of a small config, and what the message must say; "gone" removes a field
HF_REFUSED: tuple[tuple[str, dict[str, object], tuple[str, ...]], ...] = (
    ("llama", {"model_type": "bloom"}, ("model_type: found `bloom`, expected one of deepseek_v3, gpt2,", "qwen3_moe")),
    ("llama", {"model_type": "gone"}, ("model_type: found no such field",)),
    ("llama", {"hidden_size": "gone"}, ("hidden_size: found no such field, expected a whole number",)),
    ("llama", {"hidden_size": "gone", "vocab_size": "gone"}, ("hidden_size: found no such", "vocab_size: found no")),
    ("llama", {"hidden_size": 50}, ("num_attention_heads: found 4, expected a divisor of hidden_size", "50")),
    ("llama", {"num_key_value_heads": 3}, ("num_key_value_heads: found 3, expected a divisor", "which is 4")),
    ("llama", {"num_hidden_layers": 0}, ("num_hidden_layers: found `0`, expected a whole number of at least 1",)),
    ("llama", {"num_hidden_layers": 10**9}, ("num_hidden_layers: found 1000000000, expected at most 65536",)),
    ("llama", {"vocab_size": True}, ("vocab_size: found `True`",)),
    ("llama", {"vocab_size": "many"}, ("vocab_size: found `many`",)),
    ("llama", {"tie_word_embeddings": 1}, ("tie_word_embeddings: found `1`, expected true or false",)),
    ("llama", {"layer_types": ["full_attention"]}, ("layer_types: found 1 entries, expected 3",)),
    ("mistral", {"num_key_value_heads": "gone"}, ("num_key_value_heads: found no such field",)),
    ("gpt2", {"num_hidden_layers": 5}, ("num_hidden_layers: found 5, expected 2, as `n_layer` says",)),
    ("gpt2", {"n_ctx": 64}, ("n_ctx: found 64, expected 32",)),
    ("gpt2", {"n_head": 5}, ("n_head: found 5, expected a divisor of n_embd",)),
    ("gpt2", {"add_cross_attention": True}, ("add_cross_attention", "expected no cross attention")),
    ("mixtral", {"num_experts_per_tok": 9}, ("num_experts_per_tok: found 9, expected at most num_local_experts",)),
    ("qwen3", {"head_dim": "gone"}, ("head_dim: found no such field",)),
    ("qwen3_moe", {"mlp_only_layers": [7]}, ("mlp_only_layers: found [7], expected layers below 3",)),
    ("qwen3_moe", {"intermediate_size": "gone"}, ("intermediate_size: found no such field",)),
    ("deepseek_v3", {"q_lora_rank": "gone"}, ("q_lora_rank: found no such field", "or null")),
    ("deepseek_v3", {"num_key_value_heads": 2}, ("num_key_value_heads: found 2, expected num_attention_heads",)),
    ("deepseek_v3", {"qk_head_dim": 13}, ("qk_head_dim: found 13", "which is 12")),
    ("deepseek_v3", {"first_k_dense_replace": 4}, ("first_k_dense_replace: found 4, expected at most",)),
    ("deepseek_v3", {"num_nextn_predict_layers": 2}, ("num_nextn_predict_layers: found 2, expected 0 or 1",)),
    ("deepseek_v3", {"n_group": 3}, ("n_group: found 3, expected a divisor of n_routed_experts",)),
    ("gpt_oss", {"num_local_experts": "gone"}, ("num_local_experts: found no such field",)),
    ("nemotron_h", {"hybrid_override_pattern": "gone"}, ("hybrid_override_pattern: found no such field",)),
    ("nemotron_h", {"hybrid_override_pattern": "MEX-"}, ("hybrid_override_pattern: found `X`",)),
    ("nemotron_h", {"num_hidden_layers": 5}, ("num_hidden_layers: found 5, expected 4, the letters",)),
    ("nemotron_h", {"mamba_n_groups": 2}, ("mamba_n_groups: found 2, expected 4, as `n_groups` says",)),
    ("nemotron_h", {"moe_latent_size": 8}, ("moe_latent_size: found `8`",)),
    ("nemotron_h", {"layers_block_type": ["mlp"]}, ("hybrid_override_pattern: found `ME*-`, expected what",)),
)


def check_hf_refused(number: int) -> None:
    family, changes, texts = HF_REFUSED[number]
    config = {k: v for k, v in (hf_tensors.SMALL[family] | changes).items() if v != "gone"}
    source = put("refused.json", json.dumps(config))
    says(convert("hf", source), 1, *(f"{source}: {texts[0]}", *texts[1:]))


def check_hf_input() -> None:
    """Files that hold no config."""
    says(convert("hf", put("a.json", '{"a": 1,\n}')), 1, "a.json:2:1: found no JSON")
    says(convert("hf", put("b.json", "[]")), 1, "b.json: found no JSON object")
    says(convert("hf", put("c.json", '{"a": 1, "a": 2}')), 1, "found `a` a second time")
    says(convert("hf", str(WORK / "none.json")), 3, "none.json: No such file")
    (WORK / "d.json").write_bytes(b"\xff\xfe{")
    says(convert("hf", str(WORK / "d.json")), 1, "not UTF-8")
    says(convert("hf", put("e.json", "[" * 100_000)), 1, "e.json")
    quantized = put("f.json", json.dumps(hf_tensors.SMALL["llama"] | {"quantization_config": {"bits": 4}}))
    assert "quantization_config" in good("hf", quantized).err
    named = put("g.json", json.dumps(hf_tensors.SMALL["llama"] | {"_name_or_path": "some/Model-7B"}))
    assert "\nname: model-7b\n" in good("hf", named).out


def check_hf_include() -> None:
    """State beside the tensors is asked for by name, and its lack is said."""
    source = put("beside.json", json.dumps(hf_tensors.SMALL["llama"]))
    plain, full = good("hf", source), good("hf", source, "--include", "megatron-state")
    assert "--include megatron-state" in plain.err and "optimizer.step" in plain.out, plain.err
    assert "\ninclude: megatron-state\n" in full.out and "scalars:" not in full.out and full.err == "", full.out
    shunt_loads_model(put("beside.yaml", full.out))
    says(convert("hf", source, "--include", "deepspeed"), 2, "--include", "megatron-state")


# ---- megatron ------------------------------------------------------------------------------------------


def strings(value: object) -> object:
    """With numbers as texts, as the YAML reader gives them."""
    if isinstance(value, dict):
        return {key: strings(entry) for key, entry in value.items() if entry is not None}
    if isinstance(value, list):
        return [strings(entry) for entry in value]
    return str(value)


def check_layout(run: Run, wanted: dict[str, object]) -> None:
    """The document says this and nothing else; `name` and `state` have a usual value."""
    document = yaml_in.read("stdout", run.out)
    assert isinstance(document, dict) and document.pop("kind") == "layout"
    name = document.pop("name")
    assert name == wanted.get("name", name)
    rest = {key: value for key, value in wanted.items() if key != "name"}
    found, expected = strings(document), strings({"state": rows.ADAM} | rest)
    assert found == expected, f"{found}\nnot {expected}"
    if "model" in wanted:
        shunt_loads(run.out)


def check_accepted(name: str) -> None:
    words, wanted = rows.ACCEPTED[name]
    check_layout(good("megatron", *shlex.split(words.replace("|", "'|'"))), wanted)


def check_refused(name: str) -> None:
    words, texts = rows.REFUSED[name]
    says(convert("megatron", *shlex.split(words.replace("|", "'|'").replace("(", "'('"))), 1, "arguments: ", *texts)


def check_yaml(name: str) -> None:
    text, words, wanted = rows.YAML[name]
    check_layout(good("megatron", "--yaml", put("options.yaml", text), *words.split()), wanted)


def check_yaml_refused(name: str) -> None:
    text, texts = rows.YAML_REFUSED[name]
    path = put("options.yaml", text)
    says(convert("megatron", "--yaml", path, "--world", "8"), 1, path, *texts)


def check_published(number: int) -> None:
    """dp of a published layout, and that it loads with its model."""
    name, world, tp, pp, vpp, cp, ep, dp, extra = rows.PUBLISHED[number]
    chunks = f" --num-virtual-stages-per-pipeline-rank {vpp}" if vpp > 1 else ""
    words = rows.sizes(world, tp, pp, cp, ep) + f"{chunks} {extra} --bf16 {rows.DIST} --model {name}"
    run = good("megatron", *words.split())
    parallel = yaml_in.read("stdout", run.out)["parallel"]  # type: ignore[index]
    assert parallel["dp"] == str(dp), f"dp {parallel['dp']}, not {dp}"
    shunt_loads(run.out)


def check_notes() -> None:
    """What is said on stderr of arguments that have no effect."""
    words = "--overlap-param-gather --untie-embeddings-and-output-weights --lr 1e-3 pretrain"
    run = good("megatron", *f"--world 8 --bf16 {rows.DIST} {words}".split())
    for text in ("--untie-embeddings-and-output-weights: a matter of the model document", "ignored: --lr",
                 "--overlap-param-gather: weights are current on their owner only"):  # fmt: skip
        assert text in run.err, run.err
    run = good("megatron", *"--world 8 --bf16 --use-distributed-optimizer --ddp-num-buckets 3".split())
    assert "--ddp-num-buckets: has no effect here" in run.err, run.err
    version = "for an earlier one add `expert_buffer: ep`"
    words = rows.sizes(8, 2, etp=1) + " --bf16 --use-distributed-optimizer --num-experts 8"
    assert version in good("megatron", *words.split()).err
    assert version not in good("megatron", *words.replace("--num-experts 8", "").split()).err
    streams = good("megatron", *"--world 8 --bf16 --data-parallel-random-init".split()).err
    assert "--data-parallel-random-init: random streams differ" in streams and "per [pp, dp]" in streams, streams


def check_references() -> None:
    """A model file is named relative to the layout that is written."""
    source = put("small.json", json.dumps(hf_tensors.SMALL["llama"]))
    good("hf", source, "-o", str(WORK / "small.yaml"))
    (WORK / "deep").mkdir(exist_ok=True)
    made = str(WORK / "deep" / "layout.yaml")
    good("megatron", "--world", "2", "--bf16", "--model", str(WORK / "small.yaml"), "-o", made)
    text = Path(made).read_text(encoding="utf-8")
    assert '\nmodel: "../small.yaml"\n' in text, text
    if SHUNT is not None:
        subprocess.run([SHUNT, "layout", made], capture_output=True, check=True)
    says(convert("megatron", "--world", "2", "--model", "nothing"), 3, "nothing: no such file, and no built-in")


# ---- safetensors ----------------------------------------------------------------------------------------

DTYPE_BYTES = {"BF16": 2, "F32": 4, "I64": 8, "U8": 1, "F8_E8M0": 1}


def header(entries: dict[str, tuple[int, ...]], dtypes: dict[str, str] | None = None) -> tuple[bytes, int]:
    """A header for these shapes, and the bytes of data that it speaks of."""
    values: dict[str, object] = {"__metadata__": {"format": "pt"}}
    at = 0
    for name, shape in entries.items():
        dtype = (dtypes or {}).get(name, "BF16")
        end = at + prod(shape) * DTYPE_BYTES[dtype]
        values[name] = {"dtype": dtype, "shape": list(shape), "data_offsets": [at, end]}
        at = end
    text = json.dumps(values).encode()
    return struct.pack("<Q", len(text)) + text, at


def checkpoint(name: str, entries: dict[str, tuple[int, ...]], dtypes: dict[str, str] | None = None) -> str:
    """A checkpoint file whose data is a hole."""
    head, size = header(entries, dtypes)
    path = WORK / name
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(path, "wb") as stream:
        stream.write(head)
        stream.truncate(len(head) + size)
    return str(path)


def small_model(family: str, *extra: str) -> str:
    """The document of a small network; returns its path."""
    source = put(f"small-{family}.json", json.dumps(hf_tensors.SMALL[family]))
    made = str(WORK / f"small-{family}.yaml")
    good("hf", source, "-o", made, "--name", family, *extra)
    shunt_loads_model(made)
    return made


def check_checkpoint(family: str) -> None:
    """A checkpoint agrees with the document of its config, in one file and in two with an index."""
    document, entries = small_model(family), hf_tensors.entries(family)
    run = good("safetensors", checkpoint(f"{family}.safetensors", entries), "--model", document)
    count = model.load(document).count()
    assert run.out == f"{family}: {count} tensors of the model agree with {len(entries)} entries in 1 file\n", run.out
    names = list(entries)
    halves = {"a.safetensors": names[::2], "b.safetensors": names[1::2]}
    for file, half in halves.items():
        checkpoint(f"two/{file}", {name: entries[name] for name in half})
    mapping = {name: file for file, half in halves.items() for name in half}
    index = put("two/model.safetensors.index.json", json.dumps({"metadata": {}, "weight_map": mapping}))
    assert good("safetensors", index, "--model", document).out.endswith("in 2 files\n")


def check_every_entry(family: str) -> None:
    """Each entry matters: with another shape, or without it, the check fails and names it."""
    document, entries = small_model(family), hf_tensors.entries(family)
    for name, shape in entries.items():
        if any(mark in name for mark in ("inv_freq", "attn.bias", "scale_inv")):
            continue
        path = checkpoint("wrong.safetensors", entries | {name: (*shape[:-1], shape[-1] + 1)})
        says(convert("safetensors", path, "--model", document), 1, f"{name}: found [")
        if name.endswith(("shared_head.head.weight", "3.embed_tokens.weight", "_scales")):
            continue  # copies and scales may be left out
        path = checkpoint("less.safetensors", {key: value for key, value in entries.items() if key != name})
        says(convert("safetensors", path, "--model", document), 1, "as the model has it")


def check_other_entries() -> None:
    """Entries that the document does not have, or has once."""
    document, entries = small_model("llama"), hf_tensors.entries("llama")
    more = entries | {"model.layers.0.self_attn.o_proj.bias": (48,)}
    says(convert("safetensors", checkpoint("x.safetensors", more), "--model", document), 1,
         "o_proj.bias: found a tensor, expected no such tensor: the model has no `layer.0.attn.o.bias`")  # fmt: skip
    more = entries | {"model.something.else": (48,)}
    says(convert("safetensors", checkpoint("x.safetensors", more), "--model", document), 1, "something.else: found")
    more = entries | {"model.layers.9.input_layernorm.weight": (48,)}
    says(convert("safetensors", checkpoint("x.safetensors", more), "--model", document), 1, "layers.9")
    twice = entries | {"transformer.layers.0.self_attn.q_proj.weight": (48, 48)}
    says(convert("safetensors", checkpoint("x.safetensors", twice), "--model", document), 1, "a second time")
    tied = hf_tensors.entries("gpt2") | {"lm_head.weight": (101, 48)}
    good("safetensors", checkpoint("x.safetensors", tied), "--model", small_model("gpt2"))
    run = good("safetensors", checkpoint("x.safetensors", hf_tensors.entries("deepseek_v3")), "--model",
               small_model("deepseek_v3", "--no-mtp"))  # fmt: skip
    assert "entries of a prediction block, which is not in the model" in run.err, run.err


def raw(name: str, value: object) -> str:
    """A file with this header and 64 bytes of data."""
    text = json.dumps(value).encode() if not isinstance(value, bytes) else value
    path = WORK / name
    path.write_bytes(struct.pack("<Q", len(text)) + text + bytes(64))
    return str(path)


HEADERS: tuple[tuple[object, str], ...] = (
    (b"{", "found no JSON"),
    ([], "found no JSON object"),
    ({"a": 1}, "a: found `1`, expected an object"),
    ({"a": {"dtype": "F3", "shape": [1], "data_offsets": [0, 4]}}, "a.dtype: found `F3`, expected one of BF16"),
    ({"a": {"dtype": "F32", "shape": [-1], "data_offsets": [0, 4]}}, "a.shape: found `[-1]`"),
    ({"a": {"dtype": "F32", "shape": [1] * 17, "data_offsets": [0, 4]}}, "a.shape"),
    ({"a": {"dtype": "F32", "shape": [True], "data_offsets": [0, 4]}}, "a.shape"),
    ({"a": {"dtype": "F32", "shape": [1], "data_offsets": [0]}}, "a.data_offsets: found `[0]`"),
    ({"a": {"dtype": "F32", "shape": [1], "data_offsets": [0, 8]}}, "a.data_offsets", ),
    ({"a": {"dtype": "F32", "shape": [32], "data_offsets": [0, 128]}}, "a.data_offsets: found `[0, 128]`"),
    ({"a": {"dtype": "F32", "shape": [1 << 40, 1 << 40], "data_offsets": [0, 4]}}, "a.data_offsets"),
    ({"a": {"dtype": "F32", "shape": [1], "data_offsets": [8, 4]}}, "a.data_offsets"),
)  # fmt: skip


def check_headers() -> None:
    """Broken headers are refused; none makes the tool fall."""
    for value, text in HEADERS:
        says(convert("safetensors", raw("broken.safetensors", value)), 1, text)
    (WORK / "short.safetensors").write_bytes(b"abc")
    says(convert("safetensors", str(WORK / "short.safetensors")), 1, "header: found 3 bytes")
    (WORK / "long.safetensors").write_bytes(struct.pack("<Q", 1 << 60) + b"{}")
    says(convert("safetensors", str(WORK / "long.safetensors")), 1, "a header of 1152921504606846976 bytes")
    says(convert("safetensors", str(WORK / "no.safetensors")), 3, "No such file")


def check_index() -> None:
    """An index must be right about its files, which lie beside it."""
    checkpoint("one/a.safetensors", {"x": (2,), "y": (2,)})

    def index(mapping: object) -> Run:
        return convert("safetensors", put("one/index.json", json.dumps({"weight_map": mapping})))

    says(index({"x": "../one/a.safetensors", "y": "a.safetensors"}), 1, "the name of a file beside the index")
    says(index({"x": 1}), 1, "weight_map: found")
    says(index({"x": "a.safetensors"}), 1, "weight_map.y: found no such entry, expected `a.safetensors`")
    says(index({"x": "a.safetensors", "y": "a.safetensors", "z": "a.safetensors"}), 1, "weight_map.z: found")
    says(index({"x": "b.safetensors", "y": "a.safetensors"}), 3, "b.safetensors: No such file")
    assert index({"x": "a.safetensors", "y": "a.safetensors"}).code == 0


def generic(entries: dict[str, tuple[int, ...]], dtypes: dict[str, str] | None = None) -> model.Model:
    """The document that is made from a checkpoint alone."""
    made = put("generic.yaml", good("safetensors", checkpoint("g.safetensors", entries, dtypes), "--name", "g").out)
    shunt_loads_model(made)
    return model.load(made)


def check_generic() -> None:
    """Families where layers agree, element types, experts."""
    document = generic(
        {"model.embed_tokens.weight": (7, 4), "model.layers.0.a": (4, 4), "model.layers.1.a": (4, 4),
         "model.layers.0.b": (3,), "model.layers.1.b": (5,), "model.layers.1.c": (2,), "model.norm.weight": (4,),
         "lm_head.weight": (7, 4), "odd": (1, 2, 3), "mask": (8,), "step": ()},
        {"model.layers.1.c": "F32", "mask": "U8", "step": "I64"})  # fmt: skip
    found = [(t.name, t.shape, t.stage, t.numbers(2), t.kind, t.dtype) for t in document.tensors]
    both = (0, 1)
    assert found == [
        ("model.embed_tokens.weight", (7, 4), "first", both, "weight", None),
        ("model.layers.{i}.a", (4, 4), "layer", both, "weight", None),
        ("model.layers.{i}.b", (3,), "layer", (0,), "weight", None),
        ("model.layers.{i}.b", (5,), "layer", (1,), "weight", None),
        ("model.layers.{i}.c", (2,), "layer", (1,), "weight", "fp32"),
        ("model.norm.weight", (4,), "final", both, "weight", None),
        ("lm_head.weight", (7, 4), "last", both, "weight", None),
        ("odd", (1, 2, 3), "all", both, "weight", None),
        ("mask", (8,), "all", both, "buffer", "u8"),
    ], found
    assert document.scalars == (("step", "i64", 1),) and document.layers == 2


def check_generic_experts() -> None:
    """Experts are numbered where every layer has the same ones."""
    moe = {f"layers.{i}.mlp.experts.{e}.up": (4, 2) for i in (1, 2) for e in range(3)}
    document = generic({"layers.0.a": (2,)} | moe)
    assert document.experts == 3 and document.tensors[1].name == "layers.{i}.mlp.experts.{e}.up"
    assert document.tensors[1].layers == (1, 2) and document.count() == 7
    fewer = generic({name: shape for name, shape in moe.items() if name != "layers.2.mlp.experts.0.up"})
    assert fewer.experts is None and fewer.count() == 5
    uneven = generic(moe | {"layers.2.mlp.experts.0.up": (4, 3)})
    assert uneven.count() == 6 and uneven.elements() == 5 * 8 + 12


def check_generic_whole() -> None:
    """Documents made from checkpoints of every family hold the same elements."""
    for family in hf_tensors.SMALL:
        entries = hf_tensors.entries(family)
        document = generic(entries)
        assert document.elements() == sum(prod(shape) for shape in entries.values()), family
        assert document.count() == len(entries), family


def check_generic_refused() -> None:
    """What a document cannot hold."""
    for entries, dtypes, text in (
        ({"a": (2, 0)}, {}, "without 0"), ({"a": (1,) * 7}, {}, "1 to 6 dimensions"), ({"a/b": (1,)}, {}, "its name"),
        ({"a{i}": (1,)}, {}, "its name"), ({"a": (1,)}, {"a": "F8_E8M0"}, "an element type"), ({}, {}, "no tensors"),
    ):  # fmt: skip
        says(convert("safetensors", checkpoint("r.safetensors", entries, dtypes)), 1, text)


# ---- the reader of YAML, the command ------------------------------------------------------------------------

YAML_VALUES: tuple[tuple[str, object], ...] = (
    ("a: 1 # one\nb: 'x # y'\n", {"a": "1", "b": "x # y"}),
    ("a:\n  b:\n    c: d\n  e: f\n", {"a": {"b": {"c": "d"}, "e": "f"}}),
    ("a:\n- 1\n- b: 2\n  c: 3\n-\n  - 4\n", {"a": ["1", {"b": "2", "c": "3"}, ["4"]]}),
    ("a: {b: [1, 'two', \"th\\u0072ee\"], c: {}}\n", {"a": {"b": ["1", "two", "three"], "c": {}}}),
    ("a: {b: 1,\n   c: [2,  # two\n  3]}\nd: ~\n", {"a": {"b": "1", "c": ["2", "3"]}, "d": None}),
    ("a: &x [1, 2]\nb: *x\nc: {d: &y 3, e: *y}\n", {"a": ["1", "2"], "b": ["1", "2"], "c": {"d": "3", "e": "3"}}),
    ("a: one\n  two\nb: 'it''s\n  so'\n", {"a": "one two", "b": "it's so"}),
    ("a: |-\n  x: y\n  z\nb: >\n  w\n", {"a": "x: y\nz", "b": "w"}),
    ("a: 'x\n\n\n  # y'\nb: \"\\x41\\\n  \\ \\_\"\n...\n", {"a": "x\n\n# y", "b": "A \xa0"}),
    ("---\na: http://x\n\"b c\": 1e-3\n", {"a": "http://x", "b c": "1e-3"}),
    ("", None),
)
YAML_BROKEN = (
    "a: [1", "a: {b 1}", "a: 'x", "a: *x", "a:\n\tb: 1", "a: 1\n  b: 2\n c: 3", "a: b: c: [", "--- \na\n---\n",
    "[" * 100, "a: {<: }}", "- a\nb: 1", '"a\\x": 1', "a: 1\n...\nb: 2\n", "? x\n: y\n", "%YAML 1.2\n",
    "a: <<\n<<: 1\n",
)  # fmt: skip


def check_yaml_reader() -> None:
    for text, value in YAML_VALUES:
        assert yaml_in.read("t", text) == value, f"{text!r}: {yaml_in.read('t', text)}"
    for text in YAML_BROKEN:
        try:
            value = yaml_in.read("t", text)
        except yaml_in.Refused as error:
            assert str(error).startswith("t:"), error
        else:
            assert False, f"{text!r} gave {value!r}"


def check_command() -> None:
    """Help, usage, exit codes, as a process."""
    for words in ([], ["hf"], ["megatron"], ["safetensors"]):
        run = subprocess.run([str(TOOL), *words, "--help"], capture_output=True, text=True, check=False)
        assert run.returncode == 0 and run.stdout.startswith("usage: shunt-convert") and run.stderr == "", words
        assert "exit codes:" in run.stdout, words
    run = subprocess.run([str(TOOL), "megatron", "--world", "2"], capture_output=True, text=True, check=True)
    assert run.stdout.startswith("kind: layout\n")
    says(convert(), 2, "no command")
    says(convert("hff"), 2, "found hff, expected hf, megatron, safetensors")
    says(convert("hf"), 2, "CONFIG.json")
    says(convert("hf", "a", "b"), 2, "b")
    says(convert("megatron", "--bf16"), 2, "--world")
    says(convert("megatron", "--world"), 2, "--world: found no value")
    says(convert("safetensors", "a", "--model", "b", "--name", "c"), 2, "--name")
    config = put("ok.json", json.dumps(hf_tensors.SMALL["llama"]))
    says(convert("hf", config, "-o", str(WORK / "no" / "folder")), 3, "No such file")


# ---- all of them ----------------------------------------------------------------------------------------------


def tests() -> list[tuple[str, Callable[[], None]]]:
    """Name and check of every test."""
    out: list[tuple[str, Callable[[], None]]] = []

    def each(prefix: str, check: Callable[..., None], keys: object, label: Callable[[object], str] = str) -> None:
        for key in keys:  # type: ignore[attr-defined]
            out.append((f"{prefix}: {label(key)}", lambda key=key: check(key)))

    each("hf", check_model, configs.MODELS)
    out.extend([("hf: variants", check_variants), ("hf: hybrid variants", check_hybrid_variants)])
    each("hf refuses", check_hf_refused, range(len(HF_REFUSED)), lambda k: " ".join(map(str, HF_REFUSED[k][:2])))
    out.extend([("hf: input", check_hf_input), ("hf: include", check_hf_include)])
    each("megatron", check_accepted, rows.ACCEPTED)
    each("megatron refuses", check_refused, rows.REFUSED)
    each("megatron yaml", check_yaml, rows.YAML)
    each("megatron yaml refuses", check_yaml_refused, rows.YAML_REFUSED)
    each("megatron published", check_published, range(len(rows.PUBLISHED)), lambda k: str(rows.PUBLISHED[k][:8]))
    out.extend([("megatron: notes", check_notes), ("megatron: references", check_references)])
    each("safetensors", check_checkpoint, hf_tensors.SMALL)
    each("safetensors, every entry", check_every_entry, hf_tensors.SMALL)
    out.extend([("safetensors: other entries", check_other_entries), ("safetensors: headers", check_headers),
                ("safetensors: index", check_index), ("generic", check_generic),
                ("generic: experts", check_generic_experts), ("generic: every family", check_generic_whole),
                ("generic refuses", check_generic_refused), ("yaml reader", check_yaml_reader),
                ("command", check_command)])  # fmt: skip
    return out


def main() -> int:
    part = sys.argv[1] if len(sys.argv) > 1 else ""
    chosen = [(name, check) for name, check in tests() if part in name]
    print(f"TAP version 13\n1..{len(chosen)}", flush=True)
    failed = 0
    for number, (name, check) in enumerate(chosen, 1):
        try:
            check()
            print(f"ok {number} - {name}")
        except Exception:  # whatever it is, the test fails and the others go on
            failed += 1
            detail = traceback.format_exc().rstrip().splitlines()
            print(f"not ok {number} - {name}\n" + "\n".join(f"# {line}" for line in detail))
    return 1 if failed else 0


if __name__ == "__main__":
    try:
        code = main()
    finally:
        subprocess.run(["rm", "-rf", str(WORK)], check=False)
    sys.exit(code)
