"""tree.py: the files of the repository, as the checks see them: tracked ones and new ones that git does not ignore."""
import os
import re
import subprocess

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def files(pattern=r".*"):
    """Paths relative to the root whose whole name matches, sorted; files deleted from the work tree are left out."""
    listing = subprocess.run(["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"], cwd=ROOT,
                             capture_output=True, check=True).stdout.decode()
    found = {path for path in listing.split("\0") if path and re.fullmatch(pattern, path)}
    return sorted(path for path in found if os.path.isfile(os.path.join(ROOT, path)))


def c_files(under=r"(src|include|tests|bench)"):
    return files(under + r"/.*\.(c|h|inc)")


def read(path):
    with open(os.path.join(ROOT, path), encoding="utf-8", errors="replace") as handle:
        return handle.read()


def without_comments(text):
    """C text with comments and the insides of strings blanked, line ends kept: line numbers stay true."""
    def blank(match):
        token = match.group(0)
        if token.startswith("/"):
            return re.sub(r"[^\n]", " ", token)
        return token[0] + token[0]
    return re.sub(r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'', blank, text, flags=re.S)
