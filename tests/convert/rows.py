# SPDX-License-Identifier: Apache-2.0
"""Rows of `shunt-convert megatron`: arguments, and what must come of them."""

from __future__ import annotations

ADAM = {"param": "bf16", "master": "fp32", "exp_avg": "fp32", "exp_avg_sq": "fp32"}
PLAIN = {"param": "fp32", "exp_avg": "fp32", "exp_avg_sq": "fp32"}
TP, PP, CP, EP = ("--tensor-model-parallel-size", "--pipeline-model-parallel-size", "--context-parallel-size",
                  "--expert-model-parallel-size")  # fmt: skip
DIST = "--use-distributed-optimizer --overlap-grad-reduce"


def sizes(world: int, tp: int = 1, pp: int = 1, cp: int = 1, ep: int = 1, etp: int | None = None) -> str:
    """Arguments for a grid."""
    words = f"--world {world} {TP} {tp} {PP} {pp} {CP} {cp} {EP} {ep}"
    return words + (f" --expert-tensor-parallel-size {etp}" if etp is not None else "")


TRANSPOSED = [{"tensor": f"layer.{{i}}.moe.expert.{{e}}.{part}.weight", "dims": ["1", "0"]}
              for part in ("gate_up", "down")]  # fmt: skip


def experts_of(how: str | None) -> dict[str, object]:
    """The document of Mixtral on 8 ranks, ep 4, with a distributed optimizer."""
    shard = {"rule": "megatron"} | ({"experts": how} if how is not None else {})
    return {"model": "mixtral-8x7b", "parallel": {"tp": 1, "ep": 4, "dp": 8, "pp": 1}, "shard": shard}


# name: (arguments, what the document must say; `state` is ADAM where it is not there)
ACCEPTED: dict[str, tuple[str, dict[str, object]]] = {
    "one rank, fp32": ("--world 1", {"parallel": {"tp": 1, "dp": 1, "pp": 1}, "state": PLAIN}),
    "dp follows from the world": (
        sizes(64, 4, 4, 2) + " --bf16 --model llama-3-70b",
        {"model": "llama-3-70b", "parallel": {"tp": 4, "cp": 2, "dp": 2, "pp": 4}}),
    "the world by its long name": ("--world-size 8 --bf16", {"parallel": {"tp": 1, "dp": 8, "pp": 1}}),
    "option=value": (f"--world=8 {TP}=2 --bf16", {"parallel": {"tp": 2, "dp": 4, "pp": 1}}),
    "the last one counts": (f"--world 8 {TP} 2 {TP} 4 --bf16", {"parallel": {"tp": 4, "dp": 2, "pp": 1}}),
    "virtual stages by number": (
        sizes(64, 4, 4, 2) + " --bf16 --num-virtual-stages-per-pipeline-rank 5 --num-layers 80 --model llama-3-70b",
        {"model": "llama-3-70b", "parallel": {"tp": 4, "cp": 2, "dp": 2, "pp": 4, "vpp": 5}}),
    "virtual stages by layers": (
        sizes(64, 4, 8) + " --bf16 --num-layers-per-virtual-pipeline-stage 2 --num-layers 80 --model llama-3-70b",
        {"model": "llama-3-70b", "parallel": {"tp": 4, "dp": 2, "pp": 8, "vpp": 5}}),
    "virtual stages by layers of the model": (
        sizes(64, 4, 8) + " --bf16 --num-layers-per-virtual-pipeline-stage 5 --model llama-3-70b",
        {"model": "llama-3-70b", "parallel": {"tp": 4, "dp": 2, "pp": 8, "vpp": 2}}),
    "one chunk is none": (
        sizes(8, 1, 8) + " --bf16 --num-layers-per-virtual-pipeline-stage 10 --num-layers 80",
        {"parallel": {"tp": 1, "dp": 1, "pp": 8}}),
    "H11: 1 of 80 / 16 layers a chunk": (
        sizes(16, 1, 16) + " --bf16 --num-layers 80 --num-layers-per-virtual-pipeline-stage 1",
        {"parallel": {"tp": 1, "dp": 1, "pp": 16, "vpp": 5}}),
    "H11: 5 of 80 / 16 layers a chunk": (
        sizes(16, 1, 16) + " --bf16 --num-layers 80 --num-layers-per-virtual-pipeline-stage 5",
        {"parallel": {"tp": 1, "dp": 1, "pp": 16}}),
    "embedding and loss counted": (
        sizes(128, 8, 8, 2) + " --bf16 --account-for-embedding-in-pipeline-split --num-layers 126 "
        "--account-for-loss-in-pipeline-split --num-layers-per-virtual-pipeline-stage 2 --model llama-3.1-405b",
        {"model": "llama-3.1-405b", "parallel": {"tp": 8, "cp": 2, "dp": 1, "pp": 8, "vpp": 8},
         "pipeline": {"count_embedding": "true", "count_loss": "true"}}),
    "uneven ends": (
        sizes(128, 1, 8, 1, 16) + " --bf16 --decoder-first-pipeline-num-layers 11 "
        "--decoder-last-pipeline-num-layers 11 --num-layers 94 --model qwen3-235b-a22b",
        {"model": "qwen3-235b-a22b", "parallel": {"tp": 1, "ep": 16, "dp": 16, "pp": 8},
         "pipeline": {"first": "11", "last": "11"}}),
    "uneven last with chunks": (
        sizes(8, 1, 4) + " --bf16 --decoder-first-pipeline-num-layers 6 --decoder-last-pipeline-num-layers 6 "
        "--num-layers 28 --num-virtual-stages-per-pipeline-rank 2 --model qwen2.5-7b",
        {"model": "qwen2.5-7b", "parallel": {"tp": 1, "dp": 2, "pp": 4, "vpp": 2},
         "pipeline": {"first": "6", "last": "6"}}),
    "a layout text": (
        sizes(1024, 2, 16, 1, 64, 1) + " --bf16 --pipeline-model-parallel-layout Et*3|(tt|)*29,m|L "
        "--model deepseek-v3-mtp --mtp-num-layers 1",
        {"model": "deepseek-v3-mtp", "parallel": {"tp": 2, "ep": 64, "dp": 32, "pp": 16, "etp": 1, "vpp": 2},
         "pipeline": {"layout": "Et*3|(tt|)*29,m|L"}}),
    "a hybrid pattern with chunks": (
        sizes(4, 1, 2) + " --bf16 --hybrid-layer-pattern M-M|-M*-|M-M|-M* --num-layers 14",
        {"parallel": {"tp": 1, "dp": 2, "pp": 2, "vpp": 2}, "pipeline": {"layout": "Ettt|tttt|ttt|tttL"}}),
    "a hybrid pattern without": (
        sizes(4, 1, 2) + " --bf16 --hybrid-override-pattern M-M*-M-M",
        {"parallel": {"tp": 1, "dp": 2, "pp": 2}}),
    "distributed optimizer, no overlap": (
        sizes(16, 2) + " --bf16 --use-distributed-optimizer --ddp-bucket-size 1000",
        {"parallel": {"tp": 2, "dp": 8, "pp": 1}, "shard": {"rule": "megatron"}}),
    "the default bucket": (
        sizes(16, 2) + f" --bf16 {DIST}",
        {"parallel": {"tp": 2, "dp": 8, "pp": 1}, "shard": {"rule": "megatron", "bucket": "40000000"}}),
    "the default bucket grows": (
        sizes(128, 1, 1, 2) + f" --bf16 {DIST}",
        {"parallel": {"tp": 1, "cp": 2, "dp": 64, "pp": 1}, "shard": {"rule": "megatron", "bucket": "128000000"}}),
    "a given bucket": (
        sizes(16, 2) + f" --bf16 {DIST} --ddp-bucket-size 629145600 --ddp-pad-buckets-for-high-nccl-busbw",
        {"parallel": {"tp": 2, "dp": 8, "pp": 1},
         "shard": {"rule": "megatron", "bucket": "629145600", "pad_high_bandwidth": "true"}}),
    "a number of buckets": (
        sizes(8, 4, 2) + f" --bf16 {DIST} --ddp-num-buckets 4 --model gpt2-124m",  # see stage elements below
        {"model": "gpt2-124m", "parallel": {"tp": 4, "dp": 1, "pp": 2},
         "shard": {"rule": "megatron", "bucket": str(21_171_072 // 4)}}),
    "one bucket with the optimizer step": (
        sizes(16, 2, 2) + f" --bf16 {DIST} --overlap-param-gather --overlap-param-gather-with-optimizer-step",
        {"parallel": {"tp": 2, "dp": 4, "pp": 2}, "shard": {"rule": "megatron"}}),
    "optimizer instances": (
        sizes(32, 2) + f" --bf16 {DIST} --num-distributed-optimizer-instances 4",
        {"parallel": {"tp": 2, "dp": 16, "pp": 1},
         "shard": {"rule": "megatron", "instances": "4", "bucket": "40000000"}}),
    "experts, etp 1": (
        sizes(256, 2, 8, 1, 32, 1) + f" --bf16 {DIST} --num-layers 94 --num-experts 128 --model qwen3-235b-a22b "
        "--account-for-embedding-in-pipeline-split --account-for-loss-in-pipeline-split "
        "--num-virtual-stages-per-pipeline-rank 4",
        {"model": "qwen3-235b-a22b", "parallel": {"tp": 2, "ep": 32, "dp": 16, "pp": 8, "etp": 1, "vpp": 4},
         "shard": {"rule": "megatron", "bucket": "40000000", "experts": "sequential"},
         "pipeline": {"count_embedding": "true", "count_loss": "true"}}),
    "experts one by one": (
        sizes(8, 1, 1, 1, 4) + " --bf16 --use-distributed-optimizer --model mixtral-8x7b", experts_of("sequential")),
    "experts one by one, as arguments say": (
        sizes(8) + " --bf16 --use-distributed-optimizer --num-experts 8",
        {"parallel": {"tp": 1, "dp": 8, "pp": 1}, "shard": {"rule": "megatron", "experts": "sequential"}}),
    "experts grouped": (
        sizes(8, 1, 1, 1, 4) + " --bf16 --use-distributed-optimizer --model mixtral-8x7b --moe-grouped-gemm",
        experts_of(None)),
    "experts in one tensor": (
        sizes(8, 1, 1, 1, 4) + " --bf16 --use-distributed-optimizer --model mixtral-8x7b --moe-grouped-gemm "
        "--moe-single-grouped-weight", experts_of("stacked")),
    "experts of the first grouped GEMM": (
        sizes(8, 1, 1, 1, 4) + " --bf16 --use-distributed-optimizer --model mixtral-8x7b --moe-grouped-gemm "
        "--moe-use-legacy-grouped-gemm", {**experts_of("stacked"), "storage": TRANSPOSED}),
    "experts of the first grouped GEMM, whole states": (
        sizes(8, 1, 1, 1, 4) + " --bf16 --model mixtral-8x7b --moe-grouped-gemm --moe-use-legacy-grouped-gemm",
        {**experts_of(None), "shard": None, "storage": TRANSPOSED}),
    "no experts, no order of them": (
        sizes(8) + " --bf16 --use-distributed-optimizer --model llama-3-8b",
        {"model": "llama-3-8b", "parallel": {"tp": 1, "dp": 8, "pp": 1}, "shard": {"rule": "megatron"}}),
    "torch fsdp2": (
        sizes(8, 2) + " --bf16 --use-torch-fsdp2 --model llama-3-8b",
        {"model": "llama-3-8b", "parallel": {"tp": 2, "dp": 4, "pp": 1}, "shard": {"rule": "fsdp2"}}),
    "the other order": (
        sizes(16, 2, 2) + " --bf16 --use-tp-pp-dp-mapping",
        {"parallel": {"tp": 2, "dp": 4, "pp": 2}, "order": "tp-cp-ep-pp-dp"}),
    "a divisor of the vocabulary": (
        "--world 8 --bf16 --make-vocab-size-divisible-by 1187",
        {"parallel": {"tp": 1, "dp": 8, "pp": 1}, "vocab": {"divisible_by": "1187"}}),
    "a pinned vocabulary": (
        sizes(8, 8) + " --bf16 --padded-vocab-size 129024 --model llama-3-8b",
        {"model": "llama-3-8b", "parallel": {"tp": 8, "dp": 1, "pp": 1}, "vocab": {"padded": "129024"}}),
    "fp16": ("--world 2 --fp16", {"parallel": {"tp": 1, "dp": 2, "pp": 1}, "state": {**ADAM, "param": "fp16"}}),
    "sgd": ("--world 2 --bf16 --optimizer sgd",
            {"parallel": {"tp": 1, "dp": 2, "pp": 1},
             "state": {"param": "bf16", "master": "fp32", "momentum": "fp32"}}),
    "lion": ("--world 2 --bf16 --optimizer lion",
             {"parallel": {"tp": 1, "dp": 2, "pp": 1},
              "state": {"param": "bf16", "master": "fp32", "exp_avg": "fp32"}}),
    "bf16 moments, remainders": (
        f"--world 2 --bf16 {DIST} --use-precision-aware-optimizer --exp-avg-dtype bf16 --exp-avg-sq-dtype bf16",
        {"parallel": {"tp": 1, "dp": 2, "pp": 1}, "shard": {"rule": "megatron", "bucket": "40000000"},
         "state": {"param": "bf16", "master": "i16", "exp_avg": "bf16", "exp_avg_sq": "bf16"}}),
    "fp16 master, fp8 moment": (
        f"--world 2 --bf16 {DIST} --use-precision-aware-optimizer --main-params-dtype fp16 --exp-avg-dtype fp8",
        {"parallel": {"tp": 1, "dp": 2, "pp": 1}, "shard": {"rule": "megatron", "bucket": "40000000"},
         "state": {"param": "bf16", "master": {"dtype": "fp16", "scale": "per-shard"},
                   "exp_avg": {"dtype": "u8", "scale": "per-shard"}, "exp_avg_sq": "fp32"}}),
    "states on the host": (
        f"--world 2 --bf16 {DIST} --use-precision-aware-optimizer --optimizer-cpu-offload",
        {"parallel": {"tp": 1, "dp": 2, "pp": 1}, "shard": {"rule": "megatron", "bucket": "40000000"},
         "state": {"param": "bf16", **{s: {"dtype": "fp32", "tier": "host"}
                                       for s in ("master", "exp_avg", "exp_avg_sq")}}}),
    "name, cluster, devices": (
        "--world 8 --bf16 --name mine --cluster h100 --devices 8-15 --model llama-3-8b",
        {"name": "mine", "model": "llama-3-8b", "cluster": "h100", "devices": "8-15",
         "parallel": {"tp": 1, "dp": 8, "pp": 1}}),
    "what does not matter": (
        "--world 8 --bf16 --sequence-parallel --lr 1e-4 --data-path 0.5 a 0.5 b --no-gradient-accumulation-fusion "
        "--data-parallel-sharding-strategy no_shard --overlap-moe-expert-parallel-comm",
        {"parallel": {"tp": 1, "dp": 8, "pp": 1}}),
}  # fmt: skip

# name: (arguments, texts of the message)
REFUSED: dict[str, tuple[str, tuple[str, ...]]] = {
    "torch fsdp2 with stages": (sizes(8, 1, 2) + " --use-torch-fsdp2", (PP, "found 2", "1 beside `--use-torch-fsdp2`")),
    "torch fsdp2 with experts": (sizes(8, 1, 1, 1, 2) + " --use-torch-fsdp2", (EP, "1 beside `--use-torch-fsdp2`")),
    "torch fsdp2 beside a distributed optimizer": (
        "--world 8 --bf16 --use-torch-fsdp2 --use-distributed-optimizer",
        ("--use-distributed-optimizer", "beside `--use-torch-fsdp2`", "one or the other")),
    "torch fsdp2 with instances": (
        "--world 8 --use-torch-fsdp2 --num-distributed-optimizer-instances 2",
        ("--num-distributed-optimizer-instances", "1 beside `--use-torch-fsdp2`")),
    "the first grouped GEMM without a model": (
        sizes(8, 1, 1, 1, 4) + " --bf16 --num-experts 8 --moe-grouped-gemm --moe-use-legacy-grouped-gemm",
        ("--moe-use-legacy-grouped-gemm", "--model with experts", "`storage`")),
    "the first grouped GEMM with biases": (
        sizes(8, 1, 1, 1, 4) + " --bf16 --model gpt-oss-120b --moe-grouped-gemm --moe-use-legacy-grouped-gemm",
        ("--moe-use-legacy-grouped-gemm", "experts with biases")),
    "two ways to stack experts": (
        sizes(8, 1, 1, 1, 4) + f" --bf16 {DIST} --model mixtral-8x7b --moe-grouped-gemm "
        "--moe-use-legacy-grouped-gemm --moe-single-grouped-weight",
        ("--moe-use-legacy-grouped-gemm", "--moe-single-grouped-weight", "one or the other")),
    "weights in one tensor, biases apart": (
        sizes(8, 1, 1, 1, 4) + f" --bf16 {DIST} --model gpt-oss-120b --moe-grouped-gemm --moe-single-grouped-weight",
        ("--moe-single-grouped-weight", "biases apart")),
    "biases in one tensor alone": (
        sizes(8, 1, 1, 1, 4) + f" --bf16 {DIST} --model gpt-oss-120b --moe-grouped-gemm --moe-single-grouped-bias",
        ("--moe-single-grouped-bias", "without the weights")),
    "megatron fsdp": ("--world 8 --use-megatron-fsdp", ("--use-megatron-fsdp", "not supported")),
    "custom fsdp": ("--world 8 --use-custom-fsdp", ("--use-custom-fsdp", "not supported")),
    "an unknown option that may move state": ("--world 8 --new-sharding-way 3", ("--new-sharding-way", "may move")),
    "a world that does not divide": (sizes(12, 8), ("--world", "found 12", "a multiple of", "which is 8")),
    "experts that do not divide": (sizes(64, 1, 8, 1, 64), ("--world", "etp 1 times ep 64 times pp 8", "512")),
    "a scaled-down benchmark": (sizes(64, 1, 4, 1, 32), ("--world", "found 64", "128")),
    "experts over ep": (sizes(8, 1, 1, 1, 8) + " --num-experts 12", ("--num-experts", "found 12", "multiple of ep")),
    "a size of zero": (f"--world 8 {TP} 0", (TP, "found 0")),
    "a size that is no number": (f"--world 8 {TP} two", (TP, "found `two`", "a whole number")),
    "a size without value": (f"--world 8 {TP} --bf16", (TP, "no value")),
    "a flag with a value": ("--world 8 --bf16 maybe", ("--bf16", "found `maybe`", "true or false")),
    "both precisions": ("--world 8 --bf16 --fp16", ("--fp16", "--bf16")),
    "layers that do not divide": (sizes(8, 1, 8) + " --num-layers 30", ("--num-layers", "found 30", "pp 8")),
    "counted layers that do not divide": (
        sizes(8, 1, 8) + " --num-layers 126 --account-for-embedding-in-pipeline-split", ("--num-layers", "found 127")),
    "two ways to say chunks": (
        sizes(8, 1, 8) + " --num-virtual-stages-per-pipeline-rank 2 --num-layers-per-virtual-pipeline-stage 2",
        ("--num-virtual-stages-per-pipeline-rank", "--num-layers-per-virtual-pipeline-stage")),
    "chunks by layers without layers": (
        sizes(8, 1, 8) + " --num-layers-per-virtual-pipeline-stage 2", ("--num-layers", "no such argument")),
    "chunks by layers with uneven ends": (
        sizes(8, 1, 8) + " --num-layers 80 --num-layers-per-virtual-pipeline-stage 2 "
        "--decoder-first-pipeline-num-layers 9", ("--num-layers-per-virtual", "--num-virtual-stages")),
    "H11: 2 of 80 / 16 layers a chunk": (
        sizes(16, 1, 16) + " --num-layers 80 --num-layers-per-virtual-pipeline-stage 2",
        ("--num-layers-per-virtual-pipeline-stage", "found 2", "80 / 16 = 5 layers of a stage")),
    "chunks on one stage": (
        sizes(8) + " --num-virtual-stages-per-pipeline-rank 2", (PP, "more than 1")),
    "uneven ends that leave too much": (
        sizes(8, 1, 8) + " --num-layers 94 --decoder-first-pipeline-num-layers 12",
        ("--decoder-first-pipeline-num-layers", "82 layers left", "7 other stages")),
    "ends beside counted layers": (
        sizes(8, 1, 8) + " --num-layers 94 --decoder-last-pipeline-num-layers 10 "
        "--account-for-loss-in-pipeline-split", ("--decoder-last-pipeline-num-layers", "one or the other")),
    "a layout beside ends": (
        sizes(2, 1, 2) + " --pipeline-model-parallel-layout Ett|ttL --decoder-first-pipeline-num-layers 2",
        ("--decoder-first-pipeline-num-layers", "--pipeline-model-parallel-layout")),
    "a layout of too few chunks": (
        sizes(4, 1, 4) + " --pipeline-model-parallel-layout Ett|tt|ttL", ("3 chunks", "a multiple of pp")),
    "a layout of other layers": (
        sizes(2, 1, 2) + " --pipeline-model-parallel-layout Ett|ttL --num-layers 6", ("4 layers", "expected 6")),
    "a layout without loss": (sizes(2, 1, 2) + " --pipeline-model-parallel-layout Ett|tt", ("exactly one E",)),
    "a layout that does not parse": (sizes(2, 1, 2) + " --pipeline-model-parallel-layout E(tt|tL", ("chunks of E",)),
    "a hybrid pattern beside chunks": (
        sizes(2, 1, 2) + " --hybrid-layer-pattern M-M- --num-virtual-stages-per-pipeline-rank 2",
        ("--num-virtual-stages-per-pipeline-rank", "--hybrid-layer-pattern")),
    "another model": (sizes(8) + " --num-layers 31 --model llama-3-8b", ("--num-layers", "found 31", "expected 32")),
    "instances without a distributed optimizer": (
        "--world 8 --num-distributed-optimizer-instances 2", ("--num-distributed-optimizer-instances", "found 2")),
    "instances that do not divide": (
        f"--world 8 {DIST} --num-distributed-optimizer-instances 3", ("--num-distributed-optimizer-instances", "8")),
    "buckets that cannot be resolved": (
        f"--world 8 {DIST} --ddp-num-buckets 4", ("--ddp-num-buckets", "--model")),
    "a bucket of nothing": (f"--world 8 {DIST} --ddp-bucket-size 0", ("--ddp-bucket-size", "found 0")),
    "the other order with other expert dp": (
        sizes(64, 2, 2, 2, 8, 1) + " --use-tp-pp-dp-mapping --num-experts 8", ("--use-tp-pp-dp-mapping", "expert dp")),
    "bf16 master": (
        f"--world 8 --bf16 {DIST} --use-precision-aware-optimizer --main-params-dtype bf16",
        ("--main-params-dtype", "found `bf16`", "fp32 or fp16")),
    "int8 moments": (
        f"--world 8 --bf16 {DIST} --use-precision-aware-optimizer --exp-avg-dtype int8",
        ("--exp-avg-dtype", "found `int8`", "fp32 or bf16 or fp16 or fp8")),
    "some states on the host": (
        "--world 8 --bf16 --optimizer-cpu-offload --optimizer-offload-fraction 0.5",
        ("--optimizer-offload-fraction", "found `0.5`", "1.0")),
    "narrow states on the host": (
        f"--world 8 --bf16 {DIST} --use-precision-aware-optimizer --exp-avg-dtype bf16 --optimizer-cpu-offload",
        ("--exp-avg-dtype", "found `bf16`", "on the host")),
    "moments without the precision-aware optimizer": (
        f"--world 8 --bf16 {DIST} --exp-avg-sq-dtype bf16", ("--exp-avg-sq-dtype", "--use-precision-aware-optimizer")),
    "the precision-aware optimizer alone": (
        "--world 8 --bf16 --use-precision-aware-optimizer", ("--use-precision-aware-optimizer", "distributed")),
    "muon": ("--world 8 --bf16 --optimizer muon", ("--optimizer", "found `muon`")),
    "lion over ranks": (f"--world 8 --bf16 {DIST} --optimizer lion", ("--optimizer", "found `lion`")),
    "a vocabulary that does not divide": (
        sizes(8, 8) + " --padded-vocab-size 50257", ("--padded-vocab-size", "a multiple of tp, which is 8")),
    "quantized weights": ("--world 8 --bf16 --fp8-param-gather", ("--fp8-param-gather", "quantized")),
    "sizes from the checkpoint": ("--world 8 --use-checkpoint-args", ("--use-checkpoint-args", "checkpoint")),
    "weights cut below tp": (
        sizes(8, 2) + " --tensor-parallel-num-weight-shards 4", ("--tensor-parallel-num-weight-shards", "found `4`")),
    "interleaved rows": ("--world 8 --moe-mlp-glu-interleave-size 32", ("--moe-mlp-glu-interleave-size", "in turn")),
    "an old name": ("--world 8 --model-parallel-size 8", ("--model-parallel-size", "tensor_model_parallel_size")),
    "encoder and decoder": ("--world 8 --decoder-num-layers 12", ("--decoder-num-layers", "encoder and decoder")),
    "heads that tp does not divide": (
        sizes(8, 8) + " --model gpt2-124m", (TP, "found 8", "a divisor of 12, the heads of model gpt2-124m")),
    "kv heads that tp does not fit": (
        sizes(7, 7) + " --model qwen2.5-7b", (TP, "found 7", "a divisor or a multiple of 4")),
    "experts of a model without": (
        sizes(8, 1, 1, 1, 8) + " --model llama-3-8b", (EP, "found 8", "a divisor of 1, the experts")),
    "experts of another model": (
        sizes(8, 1, 1, 1, 8) + " --model mixtral-8x7b --num-experts 16", ("--num-experts", "found 16", "expected 8")),
    "a vocabulary that is too small": (
        sizes(8, 8) + " --padded-vocab-size 128000 --model llama-3-8b", ("--padded-vocab-size", "at least 128256")),
    "all problems at once": (
        "--world 8 --use-megatron-fsdp --fp8-param-gather --bf16 --fp16 x",
        ("--use-megatron-fsdp", "--fp8-param-gather", "--fp16")),
}  # fmt: skip

# name: (YAML, arguments, what the document must say)
YAML: dict[str, tuple[str, str, dict[str, object]]] = {
    "flat": (
        "world_size: 16\ntensor_model_parallel_size: 2   # of eight\nuse_distributed_optimizer: true\nbf16: True\n",
        "", {"parallel": {"tp": 2, "dp": 8, "pp": 1}, "shard": {"rule": "megatron"}}),
    "sections of Bridge": (
        "model:\n  _target_: some.module.Provider\n  tensor_model_parallel_size: 4\n  pipeline_model_parallel_size: 8\n"
        "  virtual_pipeline_model_parallel_size: 5\n  num_layers: 80\n  should_pad_vocab: true\n  bf16: false\n"
        "  params_dtype:\n    _target_: torch.float32\n    _call_: false\n  cpu_offloading_weights: false\n"
        "  num_layers_in_first_pipeline_stage: null\ndist:\n  use_tp_pp_dp_mapping: false\n"
        "ddp:\n  use_distributed_optimizer: true\n  overlap_grad_reduce: true\n  bucket_size: 134217728\n"
        "  data_parallel_sharding_strategy: no_shard\n  use_megatron_fsdp: false\noptimizer:\n  optimizer: adam\n"
        "  use_distributed_optimizer: false\n  exp_avg_dtype:\n    _target_: torch.float32\n    _call_: false\n"
        "mixed_precision: bf16_mixed\ntokenizer:\n  name: >-\n    a long\n    text\n",
        "--world 64 --model llama-3-70b",
        {"model": "llama-3-70b", "parallel": {"tp": 4, "dp": 2, "pp": 8, "vpp": 5},
         "shard": {"rule": "megatron", "bucket": "134217728"}}),
    "a layout as a list": (
        "pipeline_model_parallel_size: 2\nbf16: true\n"
        "pipeline_model_parallel_layout:\n- [embedding, decoder, decoder]\n- - decoder\n  - decoder\n- []\n"
        "- [decoder, loss]\nnum_layers: 5\n", "--world 2",
        {"parallel": {"tp": 1, "dp": 1, "pp": 2, "vpp": 2}, "pipeline": {"layout": "Ett|tt||tL"}}),
    "no padding": (
        "model: {tensor_model_parallel_size: 2, should_pad_vocab: false, bf16: true}\n", "--world 2",
        {"parallel": {"tp": 2, "dp": 1, "pp": 1}, "vocab": {"divisible_by": "1"}}),
    "arguments over the file": (
        "bf16: true\ntensor_model_parallel_size: 2\n", f"--world 8 {TP} 4", {"parallel": {"tp": 4, "dp": 2, "pp": 1}}),
    "fp32 master": (
        "bf16: true\nuse_distributed_optimizer: true\nuse_precision_aware_optimizer: true\n"
        "store_param_remainders: false\n"
        "exp_avg_dtype: torch.bfloat16\n", "--world 2",
        {"parallel": {"tp": 1, "dp": 2, "pp": 1}, "shard": {"rule": "megatron"},
         "state": {**ADAM, "exp_avg": "bf16"}}),
}  # fmt: skip

YAML_REFUSED: dict[str, tuple[str, tuple[str, ...]]] = {
    "fsdp": ("ddp:\n  use_megatron_fsdp: true\n", ("ddp.use_megatron_fsdp", "not supported")),
    "two values": ("a: {bf16: true}\nb: {bf16: false}\n", ("b.bf16", "a.bf16")),
    "an fp8 recipe": ("mixed_precision: bf16_with_mxfp8_mixed\n", ("mixed_precision", "bf16_mixed")),
    "bf16 without master": ("model:\n  params_dtype: torch.bfloat16\n", ("model.params_dtype", "bf16")),
    "generalized tensor parallelism": ("model: {gtp_weight_remat_size: 2}\n", ("model.gtp_weight_remat_size",)),
    "a tag": ("model: !!python/object:x {}\n", (":1: found `!`",)),
    "a broken list": ("a: [1, 2\nb: 3\n", ("expected `,` or `]`",)),
    "a key twice": ("a: 1\na: 2\n", (":2: found `a`", "distinct keys")),
    "no mapping": ("- 1\n", ("no mapping",)),
    "a layout of other words": ("pipeline_model_parallel_layout: [[embedding, tail]]\n", ("chunks of embedding",)),
}  # fmt: skip

# published layouts: model, world, tp, pp, chunks, cp, ep, dp, extra arguments
PUBLISHED = (
    ("llama-2-7b", 2, 2, 1, 1, 1, 1, 1, ""),
    ("llama-3-8b", 16, 4, 2, 1, 2, 1, 1, ""),
    ("llama-3-70b", 32, 4, 4, 5, 2, 1, 1, ""),
    ("llama-3-70b", 256, 8, 4, 1, 8, 1, 1, ""),
    ("llama-3-70b", 64, 4, 8, 5, 1, 1, 2, ""),
    ("llama-3.1-405b", 256, 8, 8, 2, 4, 1, 1,
     "--account-for-embedding-in-pipeline-split --account-for-loss-in-pipeline-split"),
    ("gpt3-175b", 128, 8, 16, 1, 1, 1, 1, ""),
    ("mixtral-8x7b", 64, 1, 4, 8, 1, 8, 16, ""),
    ("qwen3-30b-a3b", 8, 4, 2, 1, 1, 4, 1, "--expert-tensor-parallel-size 1"),
    ("qwen3-235b-a22b", 256, 4, 16, 1, 2, 8, 2, "--expert-tensor-parallel-size 1 "
     "--account-for-embedding-in-pipeline-split --account-for-loss-in-pipeline-split"),
    ("deepseek-v3", 256, 2, 8, 1, 1, 32, 16,
     "--expert-tensor-parallel-size 1 --decoder-last-pipeline-num-layers 5"),
    ("gpt-oss-120b", 64, 2, 4, 1, 1, 16, 8, "--expert-tensor-parallel-size 1"),
    ("nemotron-3-nano-30b-a3b", 8, 1, 1, 1, 1, 8, 8, ""),
)  # fmt: skip
