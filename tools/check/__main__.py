"""Runs the checks of this folder: `python3 tools/check [NAME…]`. Each is a module with check() -> list of faults.

Prints a line per check and closes with "N passed, N failed"; exit status 1 when one failed.
"""
import importlib
import sys

CHECKS = ["layers", "sizes", "opening", "words", "paths", "figures", "scripts", "layout", "builds", "options"]


def main(names):
    unknown = [name for name in names if name not in CHECKS]
    if unknown:
        print(f"check: no check {unknown[0]!r}; there are: {', '.join(CHECKS)}", file=sys.stderr)
        return 2
    passed = failed = 0
    for name in names or CHECKS:
        faults = importlib.import_module(name).check()
        print(f"{name:8} {'ok' if not faults else 'FAILED'}", flush=True)
        for fault in faults:
            print(f"  {fault}", flush=True)
        passed, failed = passed + (not faults), failed + bool(faults)
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


sys.exit(main(sys.argv[1:]))
