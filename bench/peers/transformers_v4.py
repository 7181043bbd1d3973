#!/usr/bin/env python3
"""Greedy decode of foray and of transformers on one DeepSeek-V4 type folder, interleaved.

transformers has the trunk of the family and no drafter, so foray runs with `--spec off`: plain decode against plain
decode of the same prompt ids. Official FP8/FP4 weights are dequantised for transformers into a temporary folder,
since its kernels for them want a GPU; it computes in the type that --dtype says, foray as the folder asks. One
forward per token on a kept cache, without the overhead of generate(), with one thread or --threads, whichever is
faster: a thousand small operations per token gain little from a second thread and lose much to a busy neighbour.
Each round measures one of them, then the other; the figure is the median over the rounds, the ratio the median of
the rounds' ratios with its extremes.

Needs torch and transformers 5.24 or later. Read bench/README.md before comparing figures.

    bench/peers/transformers_v4.py [MODEL] [--foray build/release/foray] [--rounds 5] [--threads 2] [--dtype float32]
"""

import argparse
import json
import os
import statistics
import sys
import tempfile
import time
import warnings

import torch
import transformers
from safetensors.torch import load_file, save_file

import foray_runs

HERE = os.path.dirname(os.path.abspath(__file__))
PROMPT = "Tell me a story about a clever fox."
TRIED, CHECKED = 20, 16  # tokens by which a number of threads is chosen; greedy tokens compared with golden.json
E2M1 = torch.tensor([0, .5, 1, 1.5, 2, 3, 4, 6, 0, -.5, -1, -1.5, -2, -3, -4, -6])


def scale_values(scale):
    """ue8m0 bytes as numbers: 2^(b - 127)."""
    return torch.exp2(scale.view(torch.uint8).float() - 127)


def dequantise(weight, scale):
    """A weight as float32. FP8: [n, k] with a scale per 128x128; FP4: [n, k/2] bytes, low nibble first, per 32."""
    if weight.dtype == torch.int8:
        codes = weight.view(torch.uint8).int()
        values = torch.stack((E2M1[codes & 15], E2M1[codes >> 4]), dim=-1).flatten(-2)
        return values * scale_values(scale).repeat_interleave(32, dim=1)
    spread = scale_values(scale).repeat_interleave(128, dim=0).repeat_interleave(128, dim=1)
    return weight.float() * spread[:weight.shape[0], :weight.shape[1]]


def plain_folder(model, folder, dtype):
    """Writes the model's trunk into folder, without quantisation. mtp.* is left out: transformers does not have it."""
    tensors = load_file(os.path.join(model, "model.safetensors"))
    plain = {}
    for name, value in tensors.items():
        if name.startswith("mtp.") or name.endswith(".scale"):
            continue
        scale = tensors.get(name.removesuffix(".weight") + ".scale") if name.endswith(".weight") else None
        if scale is not None:
            value = dequantise(value, scale)
        plain[name] = value.to(dtype).contiguous() if value.is_floating_point() else value
    with open(os.path.join(model, "config.json"), encoding="utf-8") as f:
        config = json.load(f)
    config.pop("quantization_config", None)
    config.pop("expert_dtype", None)
    with open(os.path.join(folder, "config.json"), "w", encoding="utf-8") as f:
        json.dump(config, f)
    save_file(plain, os.path.join(folder, "model.safetensors"), {"format": "pt"})


def load(model, dtype):
    with tempfile.TemporaryDirectory() as folder:
        plain_folder(model, folder, dtype)
        loaded = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=dtype)
    return loaded.eval()


def decode(peer, ids, count):
    """Greedy continuation: (tokens, seconds of all but the first, which is the prompt's)."""
    tokens, feed, cache = [], torch.tensor([ids]), transformers.DynamicCache(config=peer.config)
    start = 0.0
    with torch.inference_mode():
        for i in range(count):
            out = peer(feed, past_key_values=cache, use_cache=True, logits_to_keep=1)
            feed = out.logits[:, -1].argmax(-1, keepdim=True)
            tokens.append(int(feed))
            if i == 0:
                start = time.perf_counter()
    return tokens, time.perf_counter() - start


def check_goldens(peer, model):
    """How far the peer's greedy tokens follow the folder's golden.json, where it has one."""
    path = os.path.join(model, "golden.json")
    if not os.path.exists(path):
        return
    with open(path, encoding="utf-8") as f:
        prompts = json.load(f)["prompts"]
    for p in prompts:
        tokens, _ = decode(peer, p["prompt"], CHECKED)
        same = next((i for i, pair in enumerate(zip(tokens, p["greedy"])) if pair[0] != pair[1]), len(tokens))
        print(f"golden, prompt of {p['prompt_len']}: {same} of {len(tokens)} greedy tokens as in golden.json")


def choose_threads(peer, ids, most):
    """Sets the number of threads, 1 or most, with which the peer is faster, and returns it."""
    took = {}
    for threads in (1, most):
        torch.set_num_threads(threads)
        decode(peer, ids, 2)  # nobody's first pass counts
        took[threads] = decode(peer, ids, TRIED)[1]
    best = min(took, key=took.get)
    torch.set_num_threads(best)
    return best


def chat_ids(model, text):
    """begin, User, text, Assistant, </think>: what foray's chat format writes."""
    tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_file=os.path.join(model, "tokenizer.json"))
    return tokenizer.encode(f"<｜begin▁of▁sentence｜><｜User｜>{text}<｜Assistant｜></think>", add_special_tokens=False)


def foray_decode(foray, model, count, threads, *more):
    """foray's own answer: (tokens, tokens per second of decoding)."""
    out = json.loads(foray_runs.run([foray, "run", "-m", model, "-p", PROMPT, "-n", str(count), "--temp", "0", "--spec", "off",
                                     "--ignore-eos", "-t", str(threads), "--json", "-q", *more]))
    return out["tokens"], out["timings"]["predicted_per_second"]


def spread(values, digits):
    """Median and extremes, as text."""
    return f"{statistics.median(values):.{digits}f} ({min(values):.{digits}f}…{max(values):.{digits}f})"


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("model", nargs="?", default=os.path.join(HERE, "..", "..", "models", "nano"))
    parser.add_argument("--foray", default="build/release/foray", help="'none' measures transformers alone")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--tokens", type=int, default=128)
    parser.add_argument("--dtype", choices=("float32", "bfloat16"), default="float32")
    a = parser.parse_args()
    torch.set_num_threads(1)
    warnings.simplefilter("ignore", FutureWarning)
    transformers.logging.set_verbosity_error()
    peer = load(a.model, getattr(torch, a.dtype))
    ids = chat_ids(a.model, PROMPT)
    threads = choose_threads(peer, ids, a.threads)
    print(f"transformers {transformers.__version__}, torch {torch.__version__}, {a.dtype}, {threads} of {a.threads} threads")
    check_goldens(peer, a.model)
    theirs, ours = [], []
    for i in range(a.rounds):
        print(f"round {i + 1} of {a.rounds}", end="\r", file=sys.stderr)
        tokens, seconds = decode(peer, ids, a.tokens)
        theirs.append((a.tokens - 1) / seconds)
        if a.foray != "none":
            ours.append(foray_decode(a.foray, a.model, a.tokens, a.threads)[1])
    line = f"tg{a.tokens} tok/s  transformers {spread(theirs, 1)}"
    if ours:
        line += f"   foray {spread(ours, 1)}   {spread([f / t for f, t in zip(ours, theirs)], 2)} times"
        line += "   gate 5"
    print(line)
    if ours:
        own, _ = foray_decode(a.foray, a.model, a.tokens, a.threads, "--act-quant", "off")
        same = next((i for i, pair in enumerate(zip(own, tokens)) if pair[0] != pair[1]), len(own))
        print(f"without rounding of activations, as transformers: the first {same} of {a.tokens} tokens are equal")


if __name__ == "__main__":
    main()
