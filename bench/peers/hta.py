#!/usr/bin/env python3
"""foray trace against Holistic Trace Analysis (pip install HolisticTraceAnalysis), on one file, in one run.

Makes a file of 0.1 GB (with --peers also one of 1 GB, which takes the peer minutes) by repeating a real profile, and times
`foray trace FILE`, process start included, and the peer's loading and temporal breakdown, its imports left out. foray runs
five times before and five times after the peer; the median counts. Prints seconds, the ratio, and both sides' peak memory.
"""
import os
import statistics
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
BUILD = os.path.join(HERE, "..", "..", "build", "release")

PEER = """
import logging, os, resource, sys, time
logging.disable(logging.CRITICAL)
from hta.trace_analysis import TraceAnalysis
start = time.monotonic()
analysis = TraceAnalysis(trace_files={0: sys.argv[1]}, trace_dir=os.path.dirname(sys.argv[1]))
loaded = time.monotonic()
analysis.get_temporal_breakdown(visualize=False)
done = time.monotonic()
most = max(resource.getrusage(w).ru_maxrss for w in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
print("RESULT", loaded - start, done - loaded, most)
"""


def foray(path):
    """Seconds and peak bytes of one run."""
    start = time.monotonic()
    run = subprocess.Popen([os.path.join(BUILD, "foray"), "trace", path], stdout=subprocess.DEVNULL)
    _, status, used = os.wait4(run.pid, 0)
    run.returncode = os.waitstatus_to_exitcode(status)
    if run.returncode != 0:
        sys.exit("hta.py: foray trace failed")
    return time.monotonic() - start, used.ru_maxrss * 1024


def peer(path):
    got = subprocess.run([sys.executable, "-c", PEER, path], capture_output=True, text=True)
    line = [words for words in map(str.split, got.stdout.splitlines()) if words[:1] == ["RESULT"]]
    if not line:
        sys.exit("hta.py: the peer failed:\n" + got.stderr[-2000:])
    load, breakdown, most = map(float, line[0][1:])
    return load, breakdown, most * 1024


def compare(megabytes, wanted):
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "trace.json")
        subprocess.run([os.path.join(BUILD, "bench_trace"), "make", "kineto", str(round(megabytes / 1.048576)), path],
                       check=True, stdout=subprocess.DEVNULL)
        size = os.path.getsize(path)
        foray(path)  # the file is in memory from here on
        runs = [foray(path) for _ in range(5)]
        load, breakdown, most = peer(path)
        runs += [foray(path) for _ in range(5)]
        seconds = [run[0] for run in runs]
        mine = statistics.median(seconds)
    print(f"{size / 1e6:.0f} MB: Holistic Trace Analysis {load:.1f} s to load, {breakdown:.1f} s for its breakdown, "
          f"{most / 1e6:.0f} MB; foray {mine:.3f} s ({min(seconds):.3f} – {max(seconds):.3f}), "
          f"{max(run[1] for run in runs) / 1e6:.0f} MB")
    print(f"{size / 1e6:.0f} MB: foray is {(load + breakdown) / mine:.0f} times as fast (wanted: at least {wanted})")


compare(100, 50)
if "--peers" in sys.argv[1:]:
    compare(1000, 100)
