#!/usr/bin/env python3
"""Speed of foray and of llama.cpp on one model file, interleaved: decode, prefill of 512, verify of a few rows.

Each round measures one of them, then the other; the figure is the median over the rounds, the ratio is the median
of the rounds' ratios with its extremes. Both do the same work: plain decode of 128 tokens from an empty context,
each token the arg-max of the last logits; a prompt of 512 ids with logits of its last row; and passes of R rows at a
context of 64 with logits of every row, as a verify step needs them (foray's include acceptance).

Needs llama-cpp-python and numpy. Read bench/README.md before comparing figures.

    bench/peers/speed.py MODEL.gguf [--foray build/release/foray] [--rounds 5] [--threads 2] [--json FILE]
"""

import argparse
import json
import statistics
import sys
import time

import foray_runs
import llama_peer

DECODE, PREFILL, DEPTH = 128, 512, 64
ROWS = (1, 2, 4, 8)
PASSES = 24  # of each number of rows in one round

# Ratios to llama.cpp that foray aims for: (test, weight type): by instruction set, or one for all.
GATES = {"tg128": {"avx2": 1.7, "avx512": 2.5}, "pp512": {"Q4_1": 2.0, "Q8_0": 1.3}}


def seconds(work):
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def llama_decode(peer):
    """Tokens per second of plain greedy decode."""
    peer.clear()
    peer.feed([1], False)

    def work():
        for _ in range(DECODE - 1):
            peer.feed([int(peer.logits().argmax())], False)
    return (DECODE - 1) / seconds(work)


def llama_prefill(peer):
    """Tokens per second of a prompt."""
    ids = [(i * 7919 + 13) % peer.vocab for i in range(PREFILL)]
    peer.clear()
    return PREFILL / seconds(lambda: peer.feed(ids, False))


def llama_verify(peer):
    """Milliseconds of a pass of R rows at DEPTH, {R: median}; the numbers of rows take turns."""
    ids = [(i * 7919 + 13) % peer.vocab for i in range(DEPTH)]
    peer.clear()
    peer.feed(ids, False)
    times = {rows: [] for rows in ROWS}
    for _ in range(PASSES):
        for rows in ROWS:
            times[rows].append(1e3 * seconds(lambda: peer.feed(ids[:rows], True)))
            peer.cut(DEPTH)
    return {rows: statistics.median(t) for rows, t in times.items()}


def llama_round(peer):
    """One round of llama.cpp: {test: figure}."""
    verify = llama_verify(peer)
    return {"tg128": llama_decode(peer), "pp512": llama_prefill(peer)} | {f"verify{r}": verify[r] for r in ROWS}


def foray_round(foray, model, threads):
    """One round of foray: ({test: figure}, {test: row} as `foray bench` printed it)."""
    common = ["-t", str(threads), "-r", "1", "--spec", "off"]
    rows = foray_runs.bench(foray, model, [*common, "-p", str(PREFILL), "-n", str(DECODE)])
    figures = {test: rows[test]["avg_ts"] for test in ("tg128", "pp512")}
    verify = foray_runs.bench(foray, model, [*common, "-p", "0", "-n", "0", "-d", str(DEPTH),
                                             "--rows", ",".join(map(str, ROWS))])
    rows |= {f"verify{r}": verify[f"verify{r} @ d{DEPTH}"] for r in ROWS}
    return figures | {f"verify{r}": rows[f"verify{r}"]["ms_median"] for r in ROWS}, rows


def spread(values, digits):
    """Median and extremes, as text."""
    return f"{statistics.median(values):.{digits}f} ({min(values):.{digits}f}…{max(values):.{digits}f})"


def gain(test, foray, llama):
    """How many times faster foray is: tokens per second for tg and pp, milliseconds for verify."""
    return llama / foray if test.startswith("verify") else foray / llama


def report(peer_rounds, foray_rounds, bench_rows):
    for test in peer_rounds[0]:
        unit, digits = ("ms", 2) if test.startswith("verify") else ("tok/s", 0)
        peer = [r[test] for r in peer_rounds]
        line = f"{test:8} {unit:5}  llama.cpp {spread(peer, digits)}"
        if foray_rounds:
            ours = [r[test] for r in foray_rounds]
            line += f"   foray {spread(ours, digits)}   {spread([gain(test, *p) for p in zip(ours, peer)], 2)} times"
            wanted = GATES.get(test, {})
            row = bench_rows[test]
            for key in (row.get("isa"), row.get("model_type")):
                if key in wanted:
                    line += f"   gate {wanted[key]}"
        print(line)
    for name, rounds in (("llama.cpp", peer_rounds), ("foray", foray_rounds)):
        for rows in ROWS[1:]:
            if rounds:
                print(f"verify({rows})/decode(1)  {name:9} "
                      f"{spread([r[f'verify{rows}'] / r['verify1'] for r in rounds], 2)}")
    if foray_rounds and "bandwidth_share" in bench_rows["tg128"]:
        print(f"foray's share of the read bandwidth B2 (decode, last round): "
              f"{bench_rows['tg128']['bandwidth_share']:.2f}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("model")
    parser.add_argument("--foray", default="build/release/foray", help="'none' measures llama.cpp alone")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--json", help="every round's figures, into this file")
    a = parser.parse_args()
    peer = llama_peer.Peer(a.model, 1024, a.threads)
    print(llama_peer.version(peer))
    llama_round(peer)  # nobody's first pass counts
    peer_rounds, foray_rounds, bench_rows = [], [], {}
    for i in range(a.rounds):
        print(f"round {i + 1} of {a.rounds}", end="\r", file=sys.stderr)
        peer_rounds.append(llama_round(peer))
        if a.foray != "none":
            figures, bench_rows = foray_round(a.foray, a.model, a.threads)
            foray_rounds.append(figures)
    report(peer_rounds, foray_rounds, bench_rows)
    if a.json:
        with open(a.json, "w") as f:
            json.dump({"peer": llama_peer.version(peer), "model": a.model, "threads": a.threads,
                       "llama": peer_rounds, "foray": foray_rounds, "bench": bench_rows}, f, indent=1)


if __name__ == "__main__":
    main()
