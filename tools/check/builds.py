"""builds.py: everything compiles with gcc and with clang, and without what can be left out, warnings being errors."""
import os
import re
import subprocess

import tree

PROGRAM = "build/gcc/foray"  # what check() leaves for the checks after it
FAULT = re.compile(r"\berror: |undefined reference|multiple definition|CMake Error")


def build(compiler, folder, *settings):
    """Configures and builds; returns the faults: the compiler's own lines."""
    environment = dict(os.environ)
    if subprocess.run(["sh", "-c", "command -v ccache"], capture_output=True).returncode == 0:
        environment["CMAKE_C_COMPILER_LAUNCHER"] = "ccache"
    for command in (["cmake", "-B", folder, f"-DCMAKE_C_COMPILER={compiler}", *settings],
                    ["cmake", "--build", folder, "-j", str(os.cpu_count() or 2), "--", "-k"]):
        run = subprocess.run(command, cwd=tree.ROOT, env=environment, capture_output=True, text=True)
        if run.returncode:
            lines = [line for line in (run.stdout + run.stderr).splitlines() if FAULT.search(line)]
            return [f"{compiler}: {line}" for line in lines[:20] or (run.stdout + run.stderr).splitlines()[-20:]]
    return []


def check():
    return (build("gcc", os.path.dirname(PROGRAM), "-DCMAKE_BUILD_TYPE=Release") +
            build("clang", "build/clang", "-DCMAKE_BUILD_TYPE=Debug") +
            build("gcc", "build/bare", "-DCMAKE_BUILD_TYPE=Debug",
                  "-DFORAY_ZLIB=OFF", "-DFORAY_ZSTD=OFF", "-DFORAY_SQLITE=OFF"))
