#!/usr/bin/env python3
"""Mean log-likelihood of a text, foray against llama.cpp: within 1 %.

Takes the first 64 KiB of a text file, cut at a whole character. Windows of 512 ids that do not overlap, each from an
empty context, every token but a window's first scored: `foray score -c 512 --stride 512` on one side, on the other
llama.cpp, fed the same windows of ids. Also says whether both tokenized the text into as many ids.

Needs llama-cpp-python and numpy. Exit status 1 if the limit is missed.

    bench/peers/perplexity.py MODEL.gguf TEXT [--foray build/release/foray] [--bytes 65536]
"""

import argparse
import math
import os
import sys
import tempfile

os.environ.setdefault("OMP_WAIT_POLICY", "passive")  # not a speed test: llama.cpp's threads need not spin

import foray_runs
import llama_peer
from quality import log_softmax

WINDOW = 512
LIMIT = 0.01


def head_of(path, size):
    """The first `size` bytes of a file, less the pieces of a character that was cut."""
    with open(path, "rb") as f:
        text = f.read(size)
    return text.decode("utf-8", errors="ignore").encode()


def llama_likelihood(peer, ids):
    """Sum of log-probabilities (natural) and number of scored tokens over the windows of ids."""
    total, count = 0.0, 0
    for start in range(0, len(ids), WINDOW):
        window = ids[start:start + WINDOW]
        peer.clear()
        peer.feed(window, True)
        for i, token in enumerate(window[1:]):
            total += float(log_softmax(peer.logits(i))[token])
        count += len(window) - 1
        print(f"llama.cpp: {start + len(window)} of {len(ids)} tokens", end="\r", file=sys.stderr)
    return total, count


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("model")
    parser.add_argument("text")
    parser.add_argument("--foray", default="build/release/foray", help="'none' scores with llama.cpp alone")
    parser.add_argument("--bytes", type=int, default=65536)
    parser.add_argument("--threads", type=int, default=2)
    a = parser.parse_args()
    text = head_of(a.text, a.bytes)
    peer = llama_peer.Peer(a.model, WINDOW, a.threads)
    print(llama_peer.version(peer))
    total, count = llama_likelihood(peer, peer.tokenize(text))
    theirs = total / count
    print(f"llama.cpp: {count} tokens scored, mean log-likelihood {theirs:.5f}, perplexity {math.exp(-theirs):.3f}")
    if a.foray == "none":
        return
    with tempfile.NamedTemporaryFile(suffix=".txt") as f:
        f.write(text)
        f.flush()
        result = foray_runs.score(a.foray, a.model, ["-f", f.name, "-c", str(WINDOW), "--stride", str(WINDOW),
                                                     "-t", str(a.threads)])
    ours = -math.log(result["ppl"])
    off = abs(ours / theirs - 1)
    print(f"foray:     {result['tokens']} tokens scored, mean log-likelihood {ours:.5f}, perplexity {result['ppl']:.3f}"
          f"   apart by {100 * off:.2f} % (limit {100 * LIMIT:g} %)")
    if result["tokens"] != count:
        print("the two do not score as many tokens: the tokenizers or the windows differ")
    sys.exit(off > LIMIT or result["tokens"] != count)


if __name__ == "__main__":
    main()
