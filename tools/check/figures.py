"""figures.py: every figure in README.md says how it was made.

Figures stand in tables. A table with a measured number in it is followed, after at most one empty line, by

    Measured with `COMMAND` on YYYY-MM-DD, MACHINE.

and outside of tables and code no number carries a unit of speed, time or memory.
"""
import re

import tree

MEASURED = re.compile(r"Measured with `[^`]+` on \d{4}-\d\d-\d\d, \S.*")
UNIT = re.compile(r"\d[\d.,]*\s*(tok/s|tokens/s|t/s|x\b|×|ms\b|us\b|µs\b|ns\b|GB/s|MB/s|GB\b|MB\b|MiB\b|GiB\b|GFLOP|TOP|%)")
NUMBER = re.compile(r"(?<![\w-])\d+(\.\d+)?")


def check(path="README.md", text=None):
    faults = []
    lines = (tree.read(path) if text is None else text).splitlines()
    number, in_code = 0, False
    while number < len(lines):
        line = lines[number]
        if line.startswith("```"):
            in_code = not in_code
        elif not in_code and line.startswith("|"):
            first = number
            while number < len(lines) and lines[number].startswith("|"):
                number += 1
            body = [re.sub(r"`[^`]*`", "", row) for row in lines[first + 2:number]]
            after = [row for row in lines[number:number + 2] if row.strip()]
            if any(UNIT.search(row) or NUMBER.search(row) for row in body) and not (after and MEASURED.match(after[0])):
                faults.append(f"{path}:{first + 1}: a table of figures without its line: Measured with `COMMAND` on DATE, MACHINE")
            continue
        elif not in_code and UNIT.search(re.sub(r"`[^`]*`", "", line)) and not MEASURED.match(line):
            faults.append(f"{path}:{number + 1}: a figure outside of a table (put it into one that says how it was measured)")
        number += 1
    return faults
