"""scripts.py: shell and Python files can be parsed."""
import ast
import os
import subprocess

import tree


def check():
    faults = []
    for path, shell in (("dev", "sh"), (".ci/run", "bash")):
        run = subprocess.run([shell, "-n", os.path.join(tree.ROOT, path)], capture_output=True, text=True)
        if run.returncode:
            faults.append(run.stderr.strip())
        if not os.access(os.path.join(tree.ROOT, path), os.X_OK):
            faults.append(f"{path}: not executable")
    for path in tree.files(r".*\.py"):
        try:
            ast.parse(tree.read(path), path)
        except SyntaxError as fault:
            faults.append(f"{path}:{fault.lineno}: {fault.msg}")
    return faults
