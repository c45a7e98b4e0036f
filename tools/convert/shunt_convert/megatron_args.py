# SPDX-License-Identifier: Apache-2.0
"""Megatron's options as read from launch arguments or from YAML: what each is, and what is refused by name.

Options are known by their snake-case name. A name that is in no table is ignored, unless it looks as if it moved
state; such a name is refused, so that a new option of Megatron cannot change a layout unnoticed.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from . import yaml_in
from .errors import Refused, Usage, problem, quoted, read_text

# ---- tables ---------------------------------------------------------------------------------

COUNTS = {
    "world_size", "tensor_model_parallel_size", "pipeline_model_parallel_size", "context_parallel_size",
    "expert_model_parallel_size", "expert_tensor_parallel_size", "virtual_pipeline_model_parallel_size",
    "num_layers_per_virtual_pipeline_stage", "num_virtual_stages_per_pipeline_rank", "num_layers", "num_experts",
    "decoder_first_pipeline_num_layers", "decoder_last_pipeline_num_layers", "num_distributed_optimizer_instances",
    "ddp_bucket_size", "ddp_num_buckets", "make_vocab_size_divisible_by", "padded_vocab_size", "mtp_num_layers",
}  # fmt: skip
FLAGS = {
    "account_for_embedding_in_pipeline_split", "account_for_loss_in_pipeline_split", "use_distributed_optimizer",
    "overlap_grad_reduce", "overlap_param_gather", "overlap_param_gather_with_optimizer_step",
    "ddp_pad_buckets_for_high_nccl_busbw", "use_tp_pp_dp_mapping", "untie_embeddings_and_output_weights",
    "bf16", "fp16", "use_precision_aware_optimizer", "store_param_remainders", "should_pad_vocab",
    "optimizer_cpu_offload", "use_torch_fsdp2", "data_parallel_random_init", "moe_grouped_gemm",
    "moe_use_legacy_grouped_gemm", "moe_single_grouped_weight", "moe_single_grouped_bias",
}  # fmt: skip
TEXTS = {
    "pipeline_model_parallel_layout", "hybrid_layer_pattern", "optimizer", "mixed_precision",
    "main_params_dtype", "exp_avg_dtype", "exp_avg_sq_dtype", "optimizer_offload_fraction",
}  # fmt: skip

# other spellings; those of Megatron-Bridge among them
ALIASES = {
    "num_layers_in_first_pipeline_stage": "decoder_first_pipeline_num_layers",
    "num_layers_in_last_pipeline_stage": "decoder_last_pipeline_num_layers",
    "hybrid_override_pattern": "hybrid_layer_pattern",
    "num_moe_experts": "num_experts",
    "encoder_num_layers": "num_layers",
    "pad_vocab_size": "should_pad_vocab",
    "pad_buckets_for_high_nccl_busbw": "ddp_pad_buckets_for_high_nccl_busbw",
    "ddp.bucket_size": "ddp_bucket_size",
    "ddp.num_buckets": "ddp_num_buckets",
}

SLICED = "weights cut below tensor parallelism are not supported"
QUANTIZED = "quantized weights are not supported"
INTERLEAVED = "rows of gate and up in turn are not supported"
PARTED = "encoder and decoder apart are not supported"
FSDP = "not supported"

# name: why, whatever the value is, unless it is null, false, or one of 0 and 1 for a number
REFUSED = {
    "use_megatron_fsdp": FSDP, "use_custom_fsdp": FSDP,
    "model_parallel_size": "not supported; write tensor_model_parallel_size",
    "fp8_param_gather": QUANTIZED, "fp8_param": QUANTIZED, "fp4_param_gather": QUANTIZED, "fp4_param": QUANTIZED,
    "reuse_grad_buf_for_mxfp8_param_ag": QUANTIZED,
    "gtp_weight_remat_size": SLICED, "expert_gtp_weight_remat_size": SLICED,
    "moe_mlp_glu_interleave_size": INTERLEAVED, "moe_shared_expert_glu_interleave_size": INTERLEAVED,
    "moe_extended_tp": "not supported; write expert_tensor_parallel_size",
    "cpu_offloading_weights": "weights on the host are not supported",
    "use_layer_wise_distributed_optimizer": "whole matrices on single ranks are not supported",
    "use_checkpoint_args": "not supported: the sizes are in the checkpoint; write them as arguments",
    "use_mp_args_from_checkpoint_args": "not supported: the sizes are in the checkpoint; write them as arguments",
    "freeze_all_layers": "weights without optimizer states are not supported",
    "yaml_cfg": "not supported here; give the file with --yaml",
    "decoder_num_layers": PARTED, "pipeline_model_parallel_split_rank": PARTED,
    "encoder_tensor_model_parallel_size": PARTED, "encoder_pipeline_model_parallel_size": PARTED,
    "encoder_context_parallel_size": PARTED, "standalone_embedding_stage": "not supported",
}  # fmt: skip

# refused unless they say what the named size says
SAME_AS = {
    "tensor_parallel_num_weight_shards": "tensor_model_parallel_size",
    "expert_tensor_parallel_num_weight_shards": "expert_tensor_parallel_size",
}

# these belong to the model document
MODEL_MATTERS = {
    "untie_embeddings_and_output_weights", "share_embeddings_and_output_weights", "mtp_num_layers",
    "mtp_use_repeated_layer", "mla_down_proj_fusion", "heterogeneous_layers_config_path",
    "heterogeneous_layers_config_encoded_json",
}  # fmt: skip

# names that sound as if they moved state, and do not
HARMLESS = re.compile(
    r"""(sequence_parallel | .*data_parallel_sharding_strategy | outer_dp_sharding_strategy
    | (torch_)?fsdp\d?_.* | megatron_fsdp_.* | .*_in_hsdp | enable_full_sharding_in_hsdp | strict_fsdp_.*
    | gtp_.* | pipeline_dtype | deallocate_pipeline_outputs | .*_comm_backend | hierarchical_context_parallel_sizes
    | hybrid_context_parallel | (rl_)?inference_.* | microbatch_group_size_per_vp_stage | no_data_sharding
    | .*ckpt_.* | fully_parallel_.* | overlap_.* | .*_validate_.* | save_.* | log_.*
    | .*reshardable.* | no_use_layer_wise_param_layout | use_layer_wise_param_layout | .*offload_bytes_across_pp_ranks
    | num_microbatches.*)\Z""",
    re.X,
)
SUSPECT = re.compile(r"fsdp|hsdp|zero_?\d|zero_stage|shard|parallel|pipeline|split_rank|param_layout|remat_size")

OWN = {"-o": "output", "--name": "name", "--model": "model", "--cluster": "cluster", "--devices": "devices",
       "--world": "world_size", "--yaml": "yaml"}  # fmt: skip


# ---- options ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Given:
    """A value as it was written. `shown` is the option as its writer spells it."""

    shown: str
    value: object


class Options:
    """All options of one run."""

    def __init__(self, source: str, dashed: bool) -> None:
        self.source, self.dashed = source, dashed
        self.given: dict[str, Given] = {}
        self.ignored: list[str] = []
        self.problems: list[str] = []
        self.params_dtypes: list[Given] = []

    def refuse(self, shown: str, found: object, expected: str) -> None:
        self.problems.append(problem(self.source, shown, found, expected))

    def finish(self) -> None:
        if self.problems:
            raise Refused(self.problems)

    def shown(self, name: str) -> str:
        """How the writer spells an option."""
        if name in self.given:
            return self.given[name].shown
        return "--" + name.replace("_", "-") if self.dashed else name

    def count(self, name: str, default: int | None = None) -> int | None:
        given = self.given.get(name)
        return given.value if given is not None and isinstance(given.value, int) else default

    def size(self, name: str) -> int:
        """A degree of parallelism, 1 by default."""
        return self.count(name, 1) or 1

    def flag(self, name: str, default: bool = False) -> bool:
        given = self.given.get(name)
        return given.value is True if given is not None else default

    def text(self, name: str) -> str | None:
        given = self.given.get(name)
        return str(given.value) if given is not None else None

    # -- reading one value --

    def add(self, name: str, shown: str, value: object) -> None:
        """Take an option: None as value stands for null."""
        name = ALIASES.get(name, name)
        if value is None:
            return
        if name in COUNTS or name in FLAGS or name in TEXTS:
            self.store(name, shown, value)
        elif name == "params_dtype":
            self.params_dtypes.append(Given(shown, value))
        elif name in SAME_AS:
            self.given[name] = Given(shown, value)
        elif name in REFUSED:
            if not idle(value):
                self.refuse(shown, quoted(plain(value)), f"none: {REFUSED[name]}")
        elif SUSPECT.search(name) and not HARMLESS.match(name) and not idle(value):
            self.refuse(shown, quoted(plain(value)), "no option that may move state and is not known here")
        else:
            self.ignored.append(shown)

    def store(self, name: str, shown: str, value: object) -> None:
        read: Callable[[object], object | None] = as_text
        expected = "a text"
        if name in COUNTS:
            read, expected = as_count, "a whole number"
        elif name in FLAGS:
            read, expected = as_flag, "true or false"
        result = read(value)
        if result is None:
            self.refuse(shown, quoted(plain(value)), expected)
            return
        before = self.given.get(name)
        if before is not None and name == "use_distributed_optimizer":
            result = result or before.value  # Bridge has it in two sections, either of which is enough
        elif before is not None and before.value != result and not self.overrides(before.shown, shown):
            self.refuse(shown, quoted(plain(value)), f"{before.value}, as `{before.shown}` says")
            return
        if before is None or not before.shown.startswith("mixed_precision."):
            self.given[name] = Given(shown, result)

    def overrides(self, before: str, now: str) -> bool:
        """On a command line the last one counts; in Bridge's YAML `mixed_precision` sets other sections at start."""
        return before == now or "mixed_precision." in (before[:16], now[:16])


def plain(value: object) -> str:
    """A value for a message."""
    return "set" if value is True else "not set" if value is False else str(value)


def idle(value: object) -> bool:
    """Whether a value asks for nothing."""
    return value is False or str(value).lower() in ("false", "0", "1", "none", "null", "no_shard", "")


def as_count(value: object) -> int | None:
    """A whole number."""
    text = str(value)
    return int(text) if not isinstance(value, bool) and text.isascii() and text.isdecimal() and len(text) < 13 else None


def as_flag(value: object) -> bool | None:
    """True or false."""
    return value if isinstance(value, bool) else {"true": True, "false": False}.get(str(value).lower())


def as_text(value: object) -> str | None:
    """A text, which a flag is not."""
    return None if isinstance(value, (bool, dict)) or value == "" else str(value)


# ---- launch arguments ---------------------------------------------------------------------------


def split_words(words: list[str]) -> tuple[dict[str, str], list[tuple[str, object]], list[str]]:
    """Options of this tool, Megatron's options with their values, and words that belong to none."""
    own: dict[str, str] = {}
    options: list[tuple[str, object]] = []
    strays: list[str] = []
    at = 0
    while at < len(words):
        word, at = words[at], at + 1
        head, mark, tail = word.partition("=")
        if word == "--":
            continue
        if head in OWN:
            if not mark and at == len(words):
                raise Usage(f"shunt-convert megatron: {head}: found no value, expected one")
            own[OWN[head]] = tail if mark else words[at]
            at += 0 if mark else 1
        elif head.startswith("--"):
            values = [tail] if mark else []
            while not mark and at < len(words) and not words[at].startswith("--") and words[at] not in OWN:
                values.append(words[at])
                at += 1
            options.append((head, " ".join(values) if values else True))
        else:
            strays.append(word)
    return own, options, strays


def from_words(options: list[tuple[str, object]]) -> Options:
    """Options of a command line."""
    out = Options("arguments", dashed=True)
    for shown, value in options:
        name = shown[2:].replace("-", "_")
        known = ALIASES.get(name, name)
        if value is True and (known in COUNTS or known in TEXTS):
            out.refuse(shown, "no value", "one")
        else:
            out.add(name, shown, value)
    return out


# ---- YAML ---------------------------------------------------------------------------------------


def leaves(value: object, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], object]]:
    """Every value of a nest of mappings with its path; a `_target_` of torch stands for its name."""
    if isinstance(value, dict):
        target = value.get("_target_")
        if isinstance(target, str) and target.startswith("torch."):
            yield path, target
            return
        for key, entry in value.items():
            yield from leaves(entry, (*path, key))
    else:
        yield path, value


def chunk_letters(value: object) -> str | None:
    """A pipeline layout in list form as text: a list of chunks, each a text or a list of words."""
    words = {"embedding": "E", "decoder": "t", "mtp": "m", "loss": "L", "E": "E", "t": "t", "m": "m", "L": "L"}
    if not isinstance(value, list):
        return None
    chunks = []
    for chunk in value:
        entries = chunk if isinstance(chunk, list) else [chunk] if chunk in words else list(str(chunk or ""))
        if any(entry not in words for entry in entries):
            return None
        chunks.append("".join(words[entry] for entry in entries))
    return "|".join(chunks)


def from_yaml(path: str) -> Options:
    """Options of a YAML file, in sections or not."""
    document = yaml_in.read(path, read_text(path))
    out = Options(path, dashed=False)
    if not isinstance(document, dict):
        raise Refused(problem(path, "document", "no mapping", "option names and values"))
    for keys, value in leaves(document, ()):
        shown, name = ".".join(keys), keys[-1]
        qualified = ".".join(keys[-2:])
        name = qualified if qualified in ALIASES else name
        if name == "pipeline_model_parallel_layout" and isinstance(value, list):
            letters = chunk_letters(value)
            if letters is None:
                out.refuse(shown, quoted(str(value)), "chunks of embedding, decoder, mtp and loss")
            value = letters
        out.add(name, shown, value if not isinstance(value, list) else str(value))
    return out
