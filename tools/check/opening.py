"""opening.py: every C file opens with a comment of at most 20 lines that says what it is; headers have their guard."""
import re

import tree


def guard(path):
    inner = re.sub(r"^(src|include)/", "", path)
    name = re.sub(r"\W", "_", inner[:-2]).upper() + "_H"
    return name if name.startswith("FORAY") else "FORAY_" + name


def check():
    faults = []
    for path in tree.c_files():
        text = tree.read(path)
        match = re.match(r"/\*.*?\*/", text, flags=re.S)
        if not match:
            faults.append(f"{path}:1: does not open with a comment that says what the file is")
        elif match.group(0).count("\n") + 1 > 20:
            faults.append(f"{path}:1: the opening comment has {match.group(0).count(chr(10)) + 1} lines (3 to 15, 20 with a picture)")
        if re.fullmatch(r"(src|include)/.*\.h", path) and f"#ifndef {guard(path)}\n" not in text:
            faults.append(f"{path}: the include guard should be {guard(path)}")
    return faults
