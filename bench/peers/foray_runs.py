"""foray_runs.py: foray's side of the comparisons: runs the program, reads what it prints or writes."""

import json
import os
import subprocess
import sys
import tempfile

import numpy as np


def run(command):
    """Runs a command and returns its stdout; a failure ends this program with the command's own words."""
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{' '.join(command[:2])} … failed with {done.returncode}: {done.stderr.strip()}")
    return done.stdout


def bench(foray, model, options):
    """`foray bench` with JSON lines: {test name: row}."""
    lines = run([foray, "bench", "-m", model, "-o", "jsonl", *options]).splitlines()
    return {row["test"]: row for row in map(json.loads, filter(None, lines)) if "test" in row}


def score(foray, model, options):
    """`foray score`: the object that it prints."""
    return json.loads(run([foray, "score", "-m", model, *options]))


def all_logits(foray, model, ids, vocab, options=()):
    """Logits of every position of a sequence of ids, [ids, vocab] f32."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "logits")
        score(foray, model, ["--ids", ",".join(map(str, ids)), "--logits", path, "--logits-rows", "all", *options])
        logits = np.fromfile(path, "<f4")
    if logits.size != len(ids) * vocab:
        sys.exit(f"foray score wrote {logits.size} logits, not {len(ids)} x {vocab}")
    return logits.reshape(len(ids), vocab)
