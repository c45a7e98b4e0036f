# SPDX-License-Identifier: Apache-2.0
"""Converters: Hugging Face configs, Megatron arguments and safetensors headers to Shunt's documents."""
