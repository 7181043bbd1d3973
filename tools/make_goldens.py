#!/usr/bin/env python3
"""Makes the tiny checkpoints of tests/golden/models and the logits that `transformers` gives for them.

For each model family: a Hugging Face folder with random weights, the same weights as a GGUF file (through
convert_gguf.py), 44 token ids, and the reference logits of every position, computed in float32 with eager
attention from the folder as a user would load it. The random numbers come from numpy's PCG64, seeded by family
and tensor name, so the weights do not depend on the version of torch.

The reference rounds K and V to f16, as foray's cache does; what then remains between two correct implementations
is measured too and kept four times below the stated limits. Everything measured is written into
tests/golden/models/README.md.

Needs torch, transformers, safetensors, gguf, numpy. Never needed to build, run or test foray.

    tools/make_goldens.py [--out tests/golden/models]
"""

import argparse
import json
import os
import shutil
import sys
import zlib

import numpy as np
import torch
from safetensors.torch import save_file
from transformers import AutoModelForCausalLM, DynamicCache

import convert_gguf

VOCAB = 256
IDS = 44

# ---- the families -------------------------------------------------------------------------------------------

LLAMA = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "hidden_act": "silu",
    "hidden_size": 64,
    "intermediate_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 256,
    "rms_norm_eps": 1e-5,
    "rope_theta": 10000.0,
    "attention_bias": False,
    "mlp_bias": False,
    "tie_word_embeddings": False,
    "vocab_size": VOCAB,
    "bos_token_id": 1,
    "eos_token_id": 2,
}

# The RoPE variants need no width: half as wide keeps the files small.
NARROW = LLAMA | {"hidden_size": 32, "num_attention_heads": 2, "num_key_value_heads": 1,
                  "tie_word_embeddings": True}

# name: (seed, storage type, files, config.json as checkpoints of that family write it, generation_config.json)
FAMILIES = {
    "llama2": (1, torch.float32, 1, LLAMA, {"bos_token_id": 1, "eos_token_id": 2}),
    # Written as transformers 5 writes it: everything about RoPE in one object, `rope_parameters`.
    "llama3": (2, torch.bfloat16, 1, LLAMA | {
        "intermediate_size": 96,
        "tie_word_embeddings": True,
        "rope_theta": None,
        "rope_parameters": {"rope_type": "llama3", "rope_theta": 500000.0, "factor": 8.0, "low_freq_factor": 1.0,
                            "high_freq_factor": 4.0, "original_max_position_embeddings": 64},
        "head_dim": 16,
        "eos_token_id": [2, 3],
    }, {"bos_token_id": 1, "eos_token_id": [2, 3], "do_sample": True, "temperature": 0.6, "top_p": 0.9}),
    # The oldest spelling: `type` instead of `rope_type`.
    "llama-linear": (3, torch.float16, 1, NARROW | {"rope_scaling": {"type": "linear", "factor": 4.0}}, None),
    "llama-yarn": (4, torch.float16, 1, NARROW | {
        "rope_scaling": {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 64},
    }, None),
    "mistral": (5, torch.bfloat16, 1, {k: v for k, v in LLAMA.items() if not k.endswith("_bias")} | {
        "architectures": ["MistralForCausalLM"],
        "model_type": "mistral",
        "sliding_window": 8,
    }, {"bos_token_id": 1, "eos_token_id": 2}),
    "qwen2": (6, torch.bfloat16, 2, {
        "architectures": ["Qwen2ForCausalLM"],
        "model_type": "qwen2",
        "hidden_act": "silu",
        "hidden_size": 64,
        "intermediate_size": 96,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "max_position_embeddings": 256,
        "max_window_layers": 2,
        "sliding_window": 8,
        "use_sliding_window": False,
        "rms_norm_eps": 1e-6,
        "rope_theta": 1000000.0,
        "tie_word_embeddings": True,
        "vocab_size": VOCAB,
        "bos_token_id": 3,
        "eos_token_id": 5,
    }, {"bos_token_id": 3, "eos_token_id": [5, 3], "do_sample": True, "temperature": 0.7, "top_k": 20,
        "top_p": 0.8, "repetition_penalty": 1.1}),
    "qwen3": (7, torch.float16, 1, {
        "architectures": ["Qwen3ForCausalLM"],
        "model_type": "qwen3",
        "attention_bias": False,
        "head_dim": 32,
        "hidden_act": "silu",
        "hidden_size": 64,
        "intermediate_size": 64,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "max_position_embeddings": 256,
        "max_window_layers": 2,
        "rope_scaling": None,
        "sliding_window": None,
        "use_sliding_window": False,
        "rms_norm_eps": 1e-6,
        "rope_theta": 1000000.0,
        "tie_word_embeddings": True,
        "vocab_size": VOCAB,
        "bos_token_id": 3,
        "eos_token_id": 5,
    }, {"bos_token_id": 3, "eos_token_id": [5, 3], "do_sample": True, "temperature": 0.6, "top_k": 20,
        "top_p": 0.95}),
    # Six layers, the last of them global: GGUF files do not say which layers are local, six is the rule.
    # The scaling applies to the global layers only.
    "gemma3": (8, torch.bfloat16, 1, {
        "architectures": ["Gemma3ForCausalLM"],
        "model_type": "gemma3_text",
        "attention_bias": False,
        "attn_logit_softcapping": None,
        "final_logit_softcapping": None,
        "head_dim": 32,
        "hidden_activation": "gelu_pytorch_tanh",
        "hidden_size": 32,
        "intermediate_size": 64,
        "num_hidden_layers": 6,
        "num_attention_heads": 2,
        "num_key_value_heads": 1,
        "max_position_embeddings": 256,
        "query_pre_attn_scalar": 32,
        "rms_norm_eps": 1e-6,
        "rope_local_base_freq": 10000.0,
        "rope_scaling": {"factor": 8.0, "rope_type": "linear"},
        "rope_theta": 1000000.0,
        "sliding_window": 8,
        "sliding_window_pattern": 6,
        "vocab_size": VOCAB,
        "bos_token_id": 2,
        "eos_token_id": [1, 106],
        "pad_token_id": 0,
    }, {"bos_token_id": 2, "eos_token_id": [1, 106], "do_sample": True, "top_k": 64, "top_p": 0.95}),
}


def config_of(name):
    """The config.json of a family: nulls that only mask a default of the table above are left out."""
    config = dict(FAMILIES[name][3])
    if config.get("rope_theta", 0) is None:
        del config["rope_theta"]
    return config


# ---- weights ------------------------------------------------------------------------------------------------

def random_tensor(family, seed, name, shape):
    """Random f32 values for one tensor, scaled so that the logits spread by 1 to 3 and attention has peaks."""
    rng = np.random.Generator(np.random.PCG64([seed, zlib.crc32(name.encode())]))
    x = rng.standard_normal(shape).astype(np.float32)
    if name.endswith("norm.weight"):
        return 0.2 * x if family == "gemma3" else 1 + 0.2 * x
    if name.endswith(".bias"):
        return 0.5 * x
    if "embed_tokens" in name or "lm_head" in name:
        return x * np.float32(2.0 / np.sqrt(shape[1]))
    gain = 1.6 if name.endswith(("q_proj.weight", "k_proj.weight")) else 1.2
    return x * np.float32(gain / np.sqrt(shape[1]))


def write_folder(name, folder):
    """Writes config.json, generation_config.json and the safetensors file or files of one family."""
    seed, dtype, files, _, generation = FAMILIES[name]
    os.makedirs(folder)
    config = config_of(name) | {"torch_dtype": str(dtype).removeprefix("torch.")}
    for file, content in (("config.json", config), ("generation_config.json", generation)):
        if content is not None:
            with open(os.path.join(folder, file), "w") as f:
                json.dump(content, f, indent=2)
                f.write("\n")

    from transformers import AutoConfig
    with torch.device("meta"):
        shapes = AutoModelForCausalLM.from_config(AutoConfig.from_pretrained(folder)).state_dict()
    tied = config.get("tie_word_embeddings", name == "gemma3")
    tensors = {n: torch.from_numpy(random_tensor(name, seed, n, tuple(t.shape))).to(dtype).contiguous()
               for n, t in shapes.items() if not (tied and n == "lm_head.weight")}
    if files == 1:
        save_file(tensors, os.path.join(folder, "model.safetensors"), metadata={"format": "pt"})
        return
    names = list(tensors)
    index = {"metadata": {"total_size": sum(t.numel() * t.element_size() for t in tensors.values())},
             "weight_map": {}}
    for i in range(files):
        file = f"model-{i + 1:05}-of-{files:05}.safetensors"
        part = names[i * len(names) // files:(i + 1) * len(names) // files]
        save_file({n: tensors[n] for n in part}, os.path.join(folder, file), metadata={"format": "pt"})
        index["weight_map"] |= {n: file for n in part}
    with open(os.path.join(folder, "model.safetensors.index.json"), "w") as f:
        json.dump(index, f, indent=2)
        f.write("\n")


# ---- the reference ------------------------------------------------------------------------------------------

class F16Cache(DynamicCache):
    """A cache that holds K and V as f16, as foray's does."""

    def update(self, key, value, layer, *args, **kwargs):
        return super().update(key.half().to(key.dtype), value.half().to(value.dtype), layer, *args, **kwargs)


def reference(folder, ids, dtype=torch.float32, f16_cache=True):
    """Logits of every position, [ids, vocab] f32."""
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=dtype, attn_implementation="eager").eval()
    with torch.no_grad():
        out = model(torch.tensor([ids.tolist()]), past_key_values=F16Cache() if f16_cache else None,
                    use_cache=f16_cache)
    return out.logits[0].numpy().astype("<f4")


def difference(a, b):
    """The largest and the mean absolute difference."""
    d = np.abs(a - b)
    return float(d.max()), float(d.mean())


README = """# Tiny checkpoints and their reference logits

Made by `tools/make_goldens.py` (transformers {transformers}, torch {torch}): random weights, no training data,
no other source. For each family: the Hugging Face folder, the same weights as GGUF (`tools/convert_gguf.py`),
`NAME.ids` ({ids} token ids, int32) and `NAME.logits` ({ids} x {vocab} float32, all little-endian): what transformers
gives for them in float32 with eager attention, every K and V entry rounded to f16 on its way into the cache.

Why K and V are rounded: foray's cache holds f16, and that is by far the largest difference between two correct
implementations (column *f16 K/V*: how far the reference without that rounding is away). With it, what is left is
the order of sums and, because of it, an entry here and there that rounds to the other neighbour. Column *noise*
measures just that: the reference in float64 (norms stay float32) against the reference in float32. Which entries
round the other way is chance, so one limit serves all families: a correct implementation differs by at most
**{largest:g}** in any logit and by at most **{mean:g}** in the mean over all of them, at least four times the noise
of every family. That is small enough to tell the two forms of GELU apart (mean 5e-4) and, in llama2, an epsilon of
1e-5 from one of 1e-6 (1e-3); a window that is one too long shows as 0.4. `tests/golden/golden_models.c` holds the same
two numbers.

| model | stored as | spread of logits | f16 K/V: largest, mean | noise: largest, mean |
|---|---|---|---|---|
{rows}
"""
LIMIT_LARGEST, LIMIT_MEAN = 6e-3, 2e-4


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    here = os.path.dirname(os.path.abspath(__file__))
    parser.add_argument("--out", default=os.path.join(here, "..", "tests", "golden", "models"))
    out = parser.parse_args().out
    torch.set_num_threads(1)
    rows = []
    for name, (seed, dtype, *_) in FAMILIES.items():
        folder = os.path.join(out, name)
        shutil.rmtree(folder, ignore_errors=True)
        write_folder(name, folder)
        convert_gguf.convert(folder, os.path.join(out, name + ".gguf"))
        ids = np.random.Generator(np.random.PCG64(100 + seed)).integers(0, VOCAB, IDS).astype("<i4")
        logits = reference(folder, ids)
        ids.tofile(os.path.join(out, name + ".ids"))
        logits.tofile(os.path.join(out, name + ".logits"))
        effect = difference(reference(folder, ids, f16_cache=False), logits)
        noise = difference(reference(folder, ids, torch.float64), logits)
        rows.append(f"| {name} | {str(dtype).removeprefix('torch.')} | {logits.std():.2f} | "
                    f"{effect[0]:.1e}, {effect[1]:.1e} | {noise[0]:.1e}, {noise[1]:.1e} |")
        print(rows[-1], file=sys.stderr)
        if 4 * noise[0] > LIMIT_LARGEST or 4 * noise[1] > LIMIT_MEAN:
            sys.exit(f"{name}: the limits are too small for this noise; raise them here and in the test")
    import transformers
    with open(os.path.join(out, "README.md"), "w") as f:
        f.write(README.format(transformers=transformers.__version__, torch=torch.__version__, largest=LIMIT_LARGEST,
                              mean=LIMIT_MEAN, ids=IDS, vocab=VOCAB, rows="\n".join(rows)))


if __name__ == "__main__":
    main()
