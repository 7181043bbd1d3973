#!/usr/bin/env python3
"""Writes a Hugging Face folder of a dense model as a GGUF file, with the same values.

For tests and experiments: no tokenizer is written, so the result can be scored by token ids only. Families:
llama and mistral (GGUF architecture `llama`), qwen2, qwen3, gemma3_text. What differs between the two formats
beside names:
 - llama: rows of q and k are reordered, because GGUF's llama rotates neighbouring pairs and transformers
   rotates i with i + d/2;
 - gemma3: norm weights are stored as 1 + w;
 - llama3 RoPE: the divisor of each frequency is a tensor, `rope_freqs.weight`;
 - norms and biases are F32, matrices keep their type unless --type says otherwise.

Needs torch, safetensors, gguf, numpy. Never needed to build, run or test foray.

    tools/convert_gguf.py FOLDER OUT.gguf [--type file|f32|f16|bf16] [--no-vocab]
"""

import argparse
import glob
import json
import math
import os

import gguf
import numpy as np
import torch
from safetensors.torch import load_file

ARCHITECTURES = {"llama": "llama", "mistral": "llama", "qwen2": "qwen2", "qwen3": "qwen3", "gemma3_text": "gemma3"}

TOP_NAMES = {
    "model.embed_tokens.weight": "token_embd.weight",
    "model.norm.weight": "output_norm.weight",
    "lm_head.weight": "output.weight",
}

LAYER_NAMES = {
    "input_layernorm": "attn_norm",
    "post_attention_layernorm": "ffn_norm",
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "self_attn.q_norm": "attn_q_norm",
    "self_attn.k_norm": "attn_k_norm",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
}

# Gemma 3 has a norm on both sides of each half of a layer.
GEMMA_NAMES = LAYER_NAMES | {
    "post_attention_layernorm": "post_attention_norm",
    "pre_feedforward_layernorm": "ffn_norm",
    "post_feedforward_layernorm": "post_ffw_norm",
}

TYPES = {
    torch.float32: gguf.GGMLQuantizationType.F32,
    torch.float16: gguf.GGMLQuantizationType.F16,
    torch.bfloat16: gguf.GGMLQuantizationType.BF16,
}


def gguf_name(name, names):
    """The GGUF name of a tensor, or a KeyError that names it."""
    if name in TOP_NAMES:
        return TOP_NAMES[name]
    _, _, layer, rest = name.split(".", 3)
    stem, kind = rest.rsplit(".", 1)
    return f"blk.{layer}.{names[stem]}.{kind}"


def neighbour_pairs(t, heads):
    """Reorders the rows of q or k: in each head row i and row i + d/2 become rows 2i and 2i + 1."""
    return t.reshape(heads, 2, t.shape[0] // heads // 2, *t.shape[1:]).transpose(1, 2).reshape(t.shape)


def rope_settings(config):
    """RoPE base and scaling of a config.json, old spelling (rope_theta, rope_scaling) or new (rope_parameters)."""
    rope = config.get("rope_parameters") or {}
    scaling = config.get("rope_scaling") or rope
    kind = scaling.get("rope_type", scaling.get("type", "default"))
    return config.get("rope_theta", rope.get("rope_theta", 10000.0)), kind, scaling


def llama3_divisors(theta, head_dim, s):
    """By how much each frequency is divided, f32 [head_dim / 2]: 1 for short waves, factor for long ones."""
    original = s["original_max_position_embeddings"]
    low, high, factor = s["low_freq_factor"], s["high_freq_factor"], s["factor"]
    divisors = []
    for i in range(head_dim // 2):
        turns = original / (2 * math.pi * theta ** (2 * i / head_dim))  # of this wave within the original context
        if turns > high:
            divisors.append(1.0)
        elif turns < low:
            divisors.append(factor)
        else:
            smooth = (turns - low) / (high - low)
            divisors.append(1 / ((1 - smooth) / factor + smooth))
    return np.array(divisors, np.float32)


def write_settings(w, config, head_dim):
    w.add_name(config["model_type"] + "-tiny")
    w.add_vocab_size(config["vocab_size"])
    w.add_context_length(config["max_position_embeddings"])
    w.add_embedding_length(config["hidden_size"])
    w.add_block_count(config["num_hidden_layers"])
    w.add_feed_forward_length(config["intermediate_size"])
    w.add_head_count(config["num_attention_heads"])
    w.add_head_count_kv(config["num_key_value_heads"])
    w.add_key_length(head_dim)
    w.add_value_length(head_dim)
    w.add_layer_norm_rms_eps(config["rms_norm_eps"])
    w.add_rope_dimension_count(head_dim)
    theta, kind, scaling = rope_settings(config)
    w.add_rope_freq_base(theta)
    if kind in ("linear", "yarn"):
        w.add_rope_scaling_type(gguf.RopeScalingType(kind))
        w.add_rope_scaling_factor(scaling["factor"])
    if kind == "yarn":
        w.add_rope_scaling_orig_ctx_len(scaling["original_max_position_embeddings"])
    if kind == "llama3":
        w.add_tensor("rope_freqs.weight", llama3_divisors(theta, head_dim, scaling))
    if config.get("sliding_window") and config.get("use_sliding_window", True):
        w.add_sliding_window(config["sliding_window"])


def convert(folder, path, matrix_type=None, no_vocab=False):
    """Writes the model in folder to path. matrix_type: a torch type for all matrices; None: as stored."""
    with open(os.path.join(folder, "config.json")) as f:
        config = json.load(f)
    family = config["model_type"]
    arch = ARCHITECTURES[family]
    head_dim = config.get("head_dim") or config["hidden_size"] // config["num_attention_heads"]
    w = gguf.GGUFWriter(path, arch)
    write_settings(w, config, head_dim)
    if no_vocab:
        w.add_tokenizer_model("none")
    tensors = {}
    for file in sorted(glob.glob(os.path.join(folder, "*.safetensors"))):
        tensors |= load_file(file)
    for name, t in tensors.items():
        if name.endswith("norm.weight") and arch == "gemma3":
            t = t.float() + 1
        if arch == "llama" and ".self_attn.q_proj." in name:
            t = neighbour_pairs(t, config["num_attention_heads"])
        if arch == "llama" and ".self_attn.k_proj." in name:
            t = neighbour_pairs(t, config["num_key_value_heads"])
        t = t.float() if t.dim() == 1 else t.to(matrix_type or t.dtype)
        data = t.contiguous()
        w.add_tensor(gguf_name(name, GEMMA_NAMES if arch == "gemma3" else LAYER_NAMES),
                     data.view(torch.uint8).numpy() if t.dtype == torch.bfloat16 else data.numpy(),
                     raw_dtype=TYPES[t.dtype])
    w.write_header_to_file()
    w.write_kv_data_to_file()
    w.write_tensors_to_file()
    w.close()


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("folder")
    parser.add_argument("out")
    parser.add_argument("--type", choices=("file", "f32", "f16", "bf16"), default="file")
    parser.add_argument("--no-vocab", action="store_true", help="say in the file that there is no tokenizer")
    a = parser.parse_args()
    types = {"file": None, "f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16}
    convert(a.folder, a.out, types[a.type], a.no_vocab)


if __name__ == "__main__":
    main()
