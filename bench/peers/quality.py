#!/usr/bin/env python3
"""Does foray say what llama.cpp says? Along llama.cpp's own greedy text, position by position.

For each prompt of quality_prompts.txt llama.cpp continues greedily, 64 tokens, without a chat template. foray
then scores the same ids. At each of the 64 positions: is foray's arg-max llama.cpp's (it must be wherever
llama.cpp's two best logits are more than 0.15 apart), and what is the divergence KL(llama.cpp || foray) of the two
distributions (its mean must be below 1e-3)?

--foray none compares llama.cpp's one-row passes with its own pass over the whole text instead: how far it is from
itself.

Needs llama-cpp-python and numpy. Exit status 1 if a limit is missed.

    bench/peers/quality.py MODEL.gguf [--foray build/release/foray]
"""

import argparse
import os
import sys

import numpy as np

import foray_runs
import llama_peer

TOKENS = 64
GAP = 0.15
MEAN_KL = 1e-3


def log_softmax(logits):
    x = logits.astype(np.float64)
    x -= x.max(axis=-1, keepdims=True)
    return x - np.log(np.exp(x).sum(axis=-1, keepdims=True))


def greedy(peer, prompt):
    """Continues a prompt (ids). Returns the 64 ids and the logits that each was chosen from, [64, vocab]."""
    peer.clear()
    peer.feed(prompt, False)
    ids, rows = [], []
    while True:
        rows.append(peer.logits().copy())
        ids.append(int(rows[-1].argmax()))
        if len(ids) == TOKENS:
            return ids, np.array(rows)
        peer.feed(ids[-1:], False)


def own_logits(peer, ids):
    """llama.cpp's logits of every position in one pass, [ids, vocab]."""
    peer.clear()
    peer.feed(ids, True)
    return np.array([peer.logits(i) for i in range(len(ids))])


def compare(reference, other):
    """Per position: gap between the reference's two best, whether the arg-max agrees, KL(reference || other)."""
    best = np.sort(np.partition(reference, -2, axis=1)[:, -2:], axis=1)
    p, q = log_softmax(reference), log_softmax(other)
    return best[:, 1] - best[:, 0], reference.argmax(1) == other.argmax(1), (np.exp(p) * (p - q)).sum(axis=1)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("model")
    parser.add_argument("--foray", default="build/release/foray")
    parser.add_argument("--threads", type=int, default=2)
    a = parser.parse_args()
    peer = llama_peer.Peer(a.model, 512, a.threads)
    print(llama_peer.version(peer))
    here = os.path.dirname(os.path.abspath(__file__))
    with open(os.path.join(here, "quality_prompts.txt"), "rb") as f:
        prompts = [p for p in f.read().split(b"\n") if p]
    parts = []
    for n, text in enumerate(prompts):
        prompt = peer.tokenize(text)
        ids, reference = greedy(peer, prompt)
        whole = prompt + ids[:-1]
        other = own_logits(peer, whole) if a.foray == "none" else \
            foray_runs.all_logits(a.foray, a.model, whole, peer.vocab, ["-t", str(a.threads)])
        gap, same, kl = compare(reference, other[len(prompt) - 1:])
        parts.append((gap, same, kl))
        print(f"prompt {n + 1:2}: arg-max equal {same.sum()}/{TOKENS}, unequal with a gap above {GAP}: "
              f"{(~same & (gap > GAP)).sum()}, mean KL {kl.mean():.1e}, largest {kl.max():.1e}")
    gap, same, kl = map(np.concatenate, zip(*parts))
    wrong = int((~same & (gap > GAP)).sum())
    print(f"all: arg-max equal {same.sum()}/{same.size}, unequal with a gap above {GAP}: {wrong}, "
          f"largest gap where unequal {max(gap[~same], default=0.0):.3f}, mean KL {kl.mean():.2e} (limit {MEAN_KL:g})")
    sys.exit(wrong > 0 or bool(kl.mean() >= MEAN_KL))


if __name__ == "__main__":
    main()
