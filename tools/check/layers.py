"""layers.py: includes point only downward through the rooms of src/."""
import re

import tree

ROOMS = ["base", "measure", "observe", "timeline", "format", "text", "kernel", "device", "cache", "model", "spec",
         "batch", "engine", "serve", "cli"]  # lowest first
# timeline/ must also serve traces that foray did not write: it knows only these.
ONLY = {"timeline": {"base", "observe", "timeline"}}


def check():
    faults = []
    for path in tree.files(r"(src|include)/.*\.(c|h|inc)"):
        room = path.split("/")[1] if path.startswith("src/") else None
        if room is not None and room not in ROOMS:
            faults.append(f"{path}: src/{room} is not a room (tools/check/layers.py lists them)")
            continue
        for number, line in enumerate(tree.read(path).splitlines(), 1):
            match = re.match(r'\s*#\s*include\s+"([^"]+)"', line)
            if not match:
                continue
            target = match.group(1)
            where = f"{path}:{number}: includes {target}"
            if room is None:
                faults.append(f"{where}: the public header stands alone")
            elif target.startswith(".."):
                faults.append(f"{where}: name files from src/, as \"room/file.h\"")
            elif "/" in target:
                other = target.split("/")[0]
                if other not in ROOMS:
                    faults.append(f"{where}: {other} is not a room")
                elif ROOMS.index(other) > ROOMS.index(room):
                    faults.append(f"{where}: {other} lies above {room}")
                elif room in ONLY and other not in ONLY[room]:
                    faults.append(f"{where}: {room} may only use {', '.join(sorted(ONLY[room]))}")
    return faults
