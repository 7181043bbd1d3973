"""options.py: docs/options.md is what the program says about its options (`foray help --markdown` prints it)."""
import os
import subprocess

import builds
import tree


def check():
    program = os.path.join(tree.ROOT, builds.PROGRAM)
    if not os.path.exists(program):
        return [f"docs/options.md: cannot be checked, {builds.PROGRAM} was not built"]
    run = subprocess.run([program, "help", "--markdown"], capture_output=True, text=True)
    if run.returncode:
        return [f"foray help --markdown: {run.stderr.strip()}"]
    if run.stdout != tree.read("docs/options.md"):
        return ["docs/options.md: differs from the code (foray help --markdown > docs/options.md)"]
    return []
