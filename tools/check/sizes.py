"""sizes.py: no file of C over 1200 lines, no function over 120.

A function that has to be longer stands in long_functions.txt with its reason, and not by the change that made it so.
"""
import os
import re

import tree

FILE_LINES = 1200
FUNCTION_LINES = 120


def exceptions():
    listed = {}
    for line in tree.read("tools/check/long_functions.txt").splitlines():
        if line.strip() and not line.startswith("#"):
            path, function, reason = line.split(None, 2)
            listed[(path, function)] = reason
    return listed


def functions(text):
    """Yields (name, first line, lines) of each function body: braces in column 0, as the formatter puts them."""
    lines = tree.without_comments(text).splitlines()
    start = None
    for number, line in enumerate(lines, 1):
        if line.rstrip() == "{":
            start = number
        elif line.startswith("}") and start is not None:
            head = " ".join(lines[max(0, start - 12):start - 1])
            names = re.findall(r"(\w+)\s*\(", head[max(head.rfind(";"), head.rfind("}")) + 1:])
            yield (names[0] if names else "?"), start, number - start + 1
            start = None


def check():
    faults = []
    allowed = exceptions()
    for path in tree.c_files():
        text = tree.read(path)
        count = text.count("\n")
        if count > FILE_LINES:
            faults.append(f"{path}: {count} lines, the ceiling is {FILE_LINES} (split it by what it does)")
        for name, first, length in functions(text):
            if length > FUNCTION_LINES and (path, name) not in allowed:
                faults.append(f"{path}:{first}: {name} has {length} lines, the ceiling is {FUNCTION_LINES}")
    for path, name in allowed:
        if not os.path.exists(os.path.join(tree.ROOT, path)):
            faults.append(f"tools/check/long_functions.txt: {path} ({name}) is gone; take the line out")
    return faults
