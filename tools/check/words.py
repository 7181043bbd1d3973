"""words.py: what may be called only in certain places, and what may stand nowhere."""
import re

import tree

# (what, pattern, where it is looked for, files that may use it, why)
RULES = [
    ("the C allocator", r"(?<![\w.>])(malloc|calloc|realloc|free|strdup|strndup|aligned_alloc|posix_memalign)\s*\(",
     r"src/.*", {"src/base/mem.c"}, "memory comes from base/mem.h and is counted"),
    ("getenv", r"\b(secure_)?getenv\s*\(", r"src/.*", {"src/base/options.c"}, "settings come from base/options.h"),
    ("libm", r"(?<![\w.>])(expm?1?|exp2|log|log2|log10|log1p|pow|sin|cos|sincos|tan|tanh|erf)f?\s*\(",
     r"src/(kernel|device|cache|model|spec|batch)/.*", set(), "a token may not depend on libm (use kernel/ref's)"),
    ("exit or abort", r"(?<![\w.>])(exit|_exit|abort)\s*\(", r"src/(?!cli/).*",
     {"src/base/mem.c"}, "a library returns errors"),
    ("printing", r"(?<![\w.>])(printf|puts|putchar|perror)\s*\(", r"src/(?!cli/).*", {"src/base/log.c"},
     "only base/log.h and the command line write to the terminal"),
]
UNFINISHED = re.compile(r"\b(TODO|FIXME|XXX|HACK)\b")


def check():
    faults = []
    for path in tree.c_files():
        text = tree.read(path)
        for number, line in enumerate(text.splitlines(), 1):
            match = UNFINISHED.search(line)
            if match:
                faults.append(f"{path}:{number}: {match.group(0)} (finish it, or write an issue)")
        lines = tree.without_comments(text).splitlines()
        for what, pattern, where, allowed, why in RULES:
            if path in allowed or not re.fullmatch(where, path):
                continue
            for number, line in enumerate(lines, 1):
                if re.search(pattern, line) and not line.lstrip().startswith("#"):
                    faults.append(f"{path}:{number}: {what}: {why}")
    return faults
