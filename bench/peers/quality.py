#!/usr/bin/env python3
"""Does foray say what llama.cpp says? Along llama.cpp's own greedy text, position by position.

For each prompt of quality_prompts.txt llama.cpp continues greedily, 64 tokens, without a chat template. foray
then scores the same ids. At each of the 64 positions: is foray's arg-max llama.cpp's (it must be wherever
llama.cpp's two best logits are more than 0.15 apart), and what is the divergence KL(llama.cpp || foray) of the two
distributions (its mean must be below 1e-3)?

Where weights are quantised, activations are rounded to 8 bits on the way, and two engines that do so in two ways
are both off from what the weights say. Two options show by how much:
--exact FILE.gguf    the same weights in F32 (tools/requant.py): how far each of the two is from that;
--foray none         llama.cpp's one-row passes against its own pass over the whole text: how far it is from itself.

Needs llama-cpp-python and numpy. Exit status 1 if a limit is missed.

    bench/peers/quality.py MODEL.gguf [--foray build/release/foray] [--exact F32.gguf]
"""

import argparse
import os
import sys

import numpy as np

os.environ.setdefault("OMP_WAIT_POLICY", "passive")  # not a speed test: llama.cpp's threads need not spin

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


def describe(gap, same, kl):
    """One comparison in words, and whether it keeps the limits."""
    wrong = int((~same & (gap > GAP)).sum())
    return (f"arg-max equal {same.sum()}/{same.size}, unequal with a gap above {GAP}: {wrong}, "
            f"mean KL {kl.mean():.1e}, largest {kl.max():.1e}"), wrong == 0 and kl.mean() < MEAN_KL


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("model")
    parser.add_argument("--foray", default="build/release/foray")
    parser.add_argument("--exact")
    parser.add_argument("--threads", type=int, default=2)
    a = parser.parse_args()
    peer = llama_peer.Peer(a.model, 512, a.threads)
    exact = llama_peer.Peer(a.exact, 512, a.threads) if a.exact else None
    print(llama_peer.version(peer))
    here = os.path.dirname(os.path.abspath(__file__))
    with open(os.path.join(here, "quality_prompts.txt"), "rb") as f:
        prompts = [p for p in f.read().split(b"\n") if p]
    other_name = "llama.cpp in one pass" if a.foray == "none" else "foray"
    pairs = {f"llama.cpp, {other_name}": []}
    if exact:
        pairs |= {"exact, llama.cpp": [], f"exact, {other_name}": []}
    for n, text in enumerate(prompts):
        prompt = peer.tokenize(text)
        ids, reference = greedy(peer, prompt)
        whole, first = prompt + ids[:-1], len(prompt) - 1
        other = (own_logits(peer, whole) if a.foray == "none" else
                 foray_runs.all_logits(a.foray, a.model, whole, peer.vocab, ["-t", str(a.threads)]))[first:]
        sides = [(reference, other)]
        if exact:
            truth = own_logits(exact, whole)[first:]
            sides += [(truth, reference), (truth, other)]
        for parts, side in zip(pairs.values(), sides):
            parts.append(compare(*side))
        print(f"prompt {n + 1:2}: {describe(*next(iter(pairs.values()))[-1])[0]}", flush=True)
    kept = []
    for name, parts in pairs.items():
        text, good = describe(*map(np.concatenate, zip(*parts)))
        kept.append(good)
        print(f"{name}: {text}")
    sys.exit(0 if kept[0] else 1)


if __name__ == "__main__":
    main()
