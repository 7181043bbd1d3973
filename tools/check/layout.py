"""layout.py: the C sources stand as clang-format 14 and .clang-format put them (`./dev fmt` does it)."""
import subprocess

import tree


def check():
    paths = tree.c_files()
    if not paths:
        return []
    run = subprocess.run(["clang-format-14", "--dry-run", "--ferror-limit=1", *paths], cwd=tree.ROOT, capture_output=True, text=True)
    found = {line.split(":")[0] for line in run.stderr.splitlines() if "[-Wclang-format-violations]" in line}
    return [f"{path}: not formatted (./dev fmt)" for path in sorted(found)] + ([] if found or run.returncode == 0 else [run.stderr])
