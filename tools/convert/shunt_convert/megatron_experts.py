# SPDX-License-Identifier: Apache-2.0
"""How Megatron keeps the experts of a rank: one by one, grouped, or in one tensor."""

from __future__ import annotations

from .megatron_args import Options
from .model import Model, Tensor


def there_are(options: Options, model: Model | None, ep: int) -> bool:
    """Whether the network has experts."""
    return bool(options.count("num_experts")) or ep > 1 or (model is not None and model.experts is not None)


def order(options: Options, model: Model | None) -> str:
    """`experts` of `shard`: how they are registered. Without grouped GEMM each is a module of its own."""
    legacy, single = options.flag("moe_use_legacy_grouped_gemm"), options.flag("moe_single_grouped_weight")
    if options.flag("moe_single_grouped_bias") and not single:
        options.refuse(options.shown("moe_single_grouped_bias"), "it", f"`{options.shown('moe_single_grouped_weight')}`"
                       " beside it: biases in one tensor without the weights are not supported")  # fmt: skip
    if legacy and single:
        shown = options.shown("moe_use_legacy_grouped_gemm")
        options.refuse(shown, f"it beside `{options.shown('moe_single_grouped_weight')}`", "one or the other")
    if single and not options.flag("moe_single_grouped_bias") and any(is_bias(t) for t in tensors(model)):
        shown = options.shown("moe_single_grouped_weight")
        options.refuse(shown, "it for experts with biases", f"`{options.shown('moe_single_grouped_bias')}` beside it: "
                       "weights in one tensor and biases apart are not supported")  # fmt: skip
    if legacy or single:
        return "stacked"
    return "grouped" if options.flag("moe_grouped_gemm") else "sequential"


def storage(options: Options, model: Model | None) -> list[dict[str, object]]:
    """`storage` of a layout: the first grouped GEMM keeps its weights as (in, out)."""
    if not options.flag("moe_use_legacy_grouped_gemm"):
        return []
    shown, families = options.shown("moe_use_legacy_grouped_gemm"), tensors(model)
    if not families:
        options.refuse(shown, "it", "a --model with experts beside it: their weights lie transposed, and `storage` of "
                       "the layout must name them")  # fmt: skip
    if any(is_bias(tensor) for tensor in families):
        options.refuse(shown, "it for experts with biases", "experts without")
    return [{"tensor": tensor.name, "dims": [1, 0]} for tensor in families if len(tensor.shape) == 2]


def tensors(model: Model | None) -> list[Tensor]:
    """Weights of single experts."""
    return [t for t in model.tensors if "{e}" in t.name and t.kind == "weight"] if model is not None else []


def is_bias(tensor: Tensor) -> bool:
    return len(tensor.shape) == 1
