"""paths.py: nothing that ties the project to one machine or to one host: no home or work folders, no addresses.

Packages come through their ordinary clients, so no host name is ever needed.
"""
import re

import tree

FOLDERS = re.compile(r"(?<![\w.$}~/-])/(home|root|work|mnt|srv|opt|Users)/")
ADDRESS = re.compile(r"\b(?:https?|git|ssh)://([\w.-]+)")
KNOWN = {"license.coscl.org.cn", "localhost", "127.0.0.1", "0.0.0.0", "example.com", "www.apache.org"}
INDEX = re.compile(r"--(extra-)?index-url|--find-links|\b(deb|deb-src) +\[?http")


def check():
    faults = []
    for path in tree.files():
        if path == "tools/check/paths.py" or re.search(r"\.(gguf|safetensors|bin|npy|zst|gz|png)$", path):
            continue
        for number, line in enumerate(tree.read(path).splitlines(), 1):
            if FOLDERS.search(line):
                faults.append(f"{path}:{number}: a path of one machine")
            for match in ADDRESS.finditer(line):
                if match.group(1) not in KNOWN:
                    faults.append(f"{path}:{number}: the address {match.group(0)}")
            if INDEX.search(line):
                faults.append(f"{path}:{number}: names a package index")
    return faults
