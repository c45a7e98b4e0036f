# SPDX-License-Identifier: Apache-2.0
"""Help of `shunt-convert megatron`, whose words are Megatron's but for a few."""

from __future__ import annotations

TEXT = """usage: shunt-convert megatron --world N [OPTIONS] [--] [MEGATRON ARGUMENTS]
       shunt-convert megatron --yaml FILE [OPTIONS] [MEGATRON ARGUMENTS]

Make a layout document from the launch arguments of Megatron-LM, or from a YAML file with the same names
in snake case (sections, as Megatron-Bridge writes them, do not matter). Arguments beside a file override it.

options:
  --world N            ranks in all; dp follows from it
  --yaml FILE          read options from FILE
  --model MODEL        the layout's `model`: a document, or a built-in's name. It is read too where the
                       arguments do not say how many layers there are
  --cluster CLUSTER    the layout's `cluster`
  --devices LIST       the layout's `devices`, such as 8-15
  --name NAME          name of the layout
  -o LAYOUT.yaml       write there, in place of stdout
  -h, --help           print this text

read:
  sizes        --tensor-model-parallel-size --pipeline-model-parallel-size --context-parallel-size
               --expert-model-parallel-size --expert-tensor-parallel-size --use-tp-pp-dp-mapping
  pipeline     --num-layers --num-layers-per-virtual-pipeline-stage --num-virtual-stages-per-pipeline-rank
               --decoder-first-pipeline-num-layers --decoder-last-pipeline-num-layers
               --account-for-embedding-in-pipeline-split --account-for-loss-in-pipeline-split
               --pipeline-model-parallel-layout --hybrid-layer-pattern
  optimizer    --use-distributed-optimizer --num-distributed-optimizer-instances --overlap-grad-reduce
               --overlap-param-gather-with-optimizer-step --ddp-bucket-size --ddp-num-buckets
               --ddp-pad-buckets-for-high-nccl-busbw --optimizer --use-torch-fsdp2
  experts      --num-experts --moe-grouped-gemm --moe-use-legacy-grouped-gemm (needs --model)
               --moe-single-grouped-weight --moe-single-grouped-bias
  states       --bf16 --fp16 --use-precision-aware-optimizer --main-params-dtype --exp-avg-dtype
               --exp-avg-sq-dtype --optimizer-cpu-offload --optimizer-offload-fraction
  vocabulary   --make-vocab-size-divisible-by --padded-vocab-size

Arguments that would move state in a way that Shunt does not know are refused by name. All others are listed
on stderr as ignored.
"""


def wanted(words: list[str]) -> bool:
    """Whether help is asked for."""
    return "-h" in words or "--help" in words
