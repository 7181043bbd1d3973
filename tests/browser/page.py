#!/usr/bin/env python3
"""page.py: looks at `foray trace --report html` in a real browser: python3 tests/browser/page.py FORAY [FOLDER]

Pages of real traces and of a run are opened headless at a phone's and a desktop's size and used: hovered, zoomed, dragged, sorted,
other steps picked. Fails on an error in the console, on a page wider than the window, on an empty timeline, and where an action shows
nothing. Screenshots of every state go to FOLDER (build/browser), to be looked at.

Needs chromium and chromedriver (Debian: chromium, chromium-driver); speaks WebDriver to it with Python's own library. Uses no network.
"""
import base64
import json
import os
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request

SIZES = {
    "phone": {"width": 390, "height": 844, "pixelRatio": 2, "touch": True},
    "desktop": {"width": 1440, "height": 900, "pixelRatio": 1, "touch": False},
}
HERE = os.path.dirname(os.path.abspath(__file__))
TRACES = os.path.join(HERE, "..", "golden", "traces")
ELEMENT = "element-6066-11e4-a52e-4f735466cecf"


class Driver:
    """One chromedriver and one session at a time."""

    def __init__(self):
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        self.process = subprocess.Popen(
            ["chromedriver", f"--port={self.port}"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        self.session = None
        for _ in range(100):
            try:
                if self.ask("GET", "/status")["ready"]:
                    return
            except (urllib.error.URLError, ConnectionError):
                time.sleep(0.1)
        raise SystemExit("page.py: chromedriver does not answer")

    def ask(self, method, path, body=None):
        data = json.dumps(body).encode() if body is not None else None
        request = urllib.request.Request(f"http://127.0.0.1:{self.port}{path}", data, method=method)
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:
                return json.load(answer)["value"]
        except urllib.error.HTTPError as problem:
            raise SystemExit(f"page.py: {path}: {problem.read().decode()[:400]}") from None

    def open(self, size, dark):
        arguments = ["--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"]
        arguments += ["--blink-settings=preferredColorScheme=0"] if dark else []
        arguments += [f"--window-size={size['width']},{size['height']}"]
        options = {"args": arguments, "mobileEmulation": {"deviceMetrics": size}}
        asked = {"browserName": "chrome", "goog:chromeOptions": options, "goog:loggingPrefs": {"browser": "ALL"}}
        self.session = "/session/" + self.ask("POST", "/session", {"capabilities": {"alwaysMatch": asked}})["sessionId"]

    def close(self):
        if self.session:
            self.ask("DELETE", self.session)
        self.session = None

    def post(self, path, body):
        return self.ask("POST", self.session + path, body)

    def script(self, text, *arguments):
        return self.post("/execute/sync", {"script": text, "args": list(arguments)})

    def pointer(self, *actions, touch=False):
        kind = {"pointerType": "touch" if touch else "mouse"}
        self.post("/actions", {"actions": [{"type": "pointer", "id": "p", "parameters": kind, "actions": list(actions)}]})

    def wheel(self, x, y, turns):
        for _ in range(abs(turns)):
            scroll = {"type": "scroll", "x": x, "y": y, "deltaX": 0, "deltaY": 100 if turns < 0 else -100, "duration": 0}
            self.post("/actions", {"actions": [{"type": "wheel", "id": "w", "actions": [scroll]}]})

    def shot(self, path):
        with open(path, "wb") as out:
            out.write(base64.b64decode(self.ask("GET", self.session + "/screenshot")))

    def end(self):
        self.close()
        self.process.terminate()
        self.process.wait()


def demand(true, what):
    if not true:
        raise AssertionError(what)


def move(x, y, duration=0):
    return {"type": "pointerMove", "x": round(x), "y": round(y), "duration": duration}


def look(driver, page, name, size, folder):
    """Uses one page at one size."""
    shots = 0

    def shot(what):
        nonlocal shots
        shots += 1
        driver.shot(os.path.join(folder, f"{name}-{shots}-{what}.png"))

    driver.post("/url", {"url": "file://" + page})
    demand(driver.script("return document.querySelectorAll('#quality li').length") > 0, "no quality head")
    shot("top")
    wide = driver.script(
        "return [document.documentElement.scrollWidth, innerWidth,"
        "[...document.body.querySelectorAll('*')].filter(e=>e.getBoundingClientRect().right>innerWidth+1&&"
        "!e.closest('.wide')&&getComputedStyle(e).display!=='none').map(e=>e.tagName+'#'+e.id).slice(0,5)]"
    )
    demand(wide[0] <= wide[1] and not wide[2], f"wider than the window: {wide}")
    for table in ("buckets", "steps", "path", "what"):
        demand(driver.script("return $(arguments[0]).tHead.rows.length", table) == 1, f"no table {table}")

    # Sorting: twice on the second heading, up and down.
    orders = []
    demand(driver.script("return document.querySelectorAll('#steps tr.pick').length") == 1, "the step is not marked")
    for _ in range(2):
        driver.script("document.querySelectorAll('#steps th')[1].click()")
        orders.append(driver.script("return [...$('steps').tBodies[0].rows].map(r=>parseFloat(r.cells[1].textContent))"))
    demand(orders[0] == sorted(orders[0]) and orders[1] == sorted(orders[1], reverse=True), "steps are not sorted")
    demand(driver.script("return document.querySelectorAll('#steps th')[1].getAttribute('aria-sort')") == "descending",
           "the heading does not say how it is sorted")

    # A hover over the longest stretch that is drawn says what it is.
    driver.script("$('c').scrollIntoView({block:'center'})")
    box = driver.script("const b=$('c').getBoundingClientRect();return [b.left,b.top,b.width,b.height]")
    demand(box[2] > 200 and box[3] > 60, f"the timeline is {box[2]}x{box[3]}")
    spot = driver.script("const h=hits.reduce((a,b)=>b[2]>a[2]?b:a);return [h[0]+Math.min(h[2],400)/2,h[1]+9,h[4]]")
    x, y = box[0] + spot[0], box[1] + spot[1]
    if size["touch"]:
        driver.pointer(move(x, y), {"type": "pointerDown", "button": 0}, {"type": "pointerUp", "button": 0}, touch=True)
    else:
        driver.pointer(move(x - 3, y), move(x, y, 50))
    tip = driver.script("const t=$('tip'),b=t.getBoundingClientRect();"
                        "return [t.style.display,t.textContent,b.left,b.top,b.right,b.bottom,innerWidth,innerHeight]")
    demand(tip[0] == "block" and spot[2] in tip[1], f"no word for '{spot[2]}': {tip[:2]}")
    demand(tip[2] >= 0 and tip[3] >= 0 and tip[4] <= tip[6] and tip[5] <= tip[7], f"the word lies outside: {tip[2:]}")
    shot("hover")

    # Zoom with the buttons and the wheel, move, and back to all.
    full = driver.script("return [...view]")
    driver.script("$('in').click();$('in').click()")
    near = driver.script("return [...view]")
    demand(near[1] - near[0] < 0.3 * (full[1] - full[0]), "+ does not zoom")
    if not size["touch"]:
        driver.wheel(round(x), round(y), 5)
        nearer = driver.script("return [...view]")
        demand(nearer[1] - nearer[0] < 0.5 * (near[1] - near[0]), "the wheel does not zoom")
        near = nearer
    shot("zoomed")
    middle = box[0] + box[2] / 2
    driver.pointer(move(middle, y), {"type": "pointerDown", "button": 0}, move(middle - 80, y, 50),
                   {"type": "pointerUp", "button": 0}, touch=size["touch"])
    moved = driver.script("return [...view]")
    demand(moved[0] > near[0], "a drag does not move it")
    driver.script("$('all').click()")
    demand(driver.script("return [...view]") == full, "'all' is not all")

    # Another step.
    rows = driver.script("return $('steps').tBodies[0].rows.length")
    driver.script("$('steps').tBodies[0].rows[arguments[0]].click()", rows // 2)
    picked = driver.script("return document.querySelector('#steps tr.pick').cells[0].textContent")
    demand(driver.script("return $('which').textContent").split(",")[0] == "step " + picked.split()[0],
           "another step is shown than the marked one")
    driver.script("$('path').scrollIntoView({block:'center'})")
    shot("path")
    driver.script("scrollTo(0,document.body.scrollHeight)")
    shot("end")
    said = driver.ask("POST", driver.session + "/se/log", {"type": "browser"})
    demand(not said, f"the console says: {said[:3]}")
    print(f"page.py: {name}: {rows} steps, {shots} screenshots, nothing in the console")


def make_pages(foray, folder):
    """The reports to look at: name and path."""
    timeline, steps = os.path.join(folder, "run.json"), os.path.join(folder, "run.jsonl")
    subprocess.run([foray, "run", "-m", "nano", "-p", "Once upon a time", "-n", "60", "--temp", "0", "-q",
                    "--timeline", timeline, "--steps", steps], check=True, stdout=subprocess.DEVNULL)
    wanted = {
        "sglang": [os.path.join(TRACES, "sglang_decode.json.gz")],
        "ascend": [os.path.join(TRACES, "ascend_rank0.json.gz"), os.path.join(TRACES, "ascend_rank1.json.gz")],
        "foray": [timeline, steps],
    }
    for name, files in wanted.items():
        path = os.path.join(folder, name + ".html")
        with open(path, "wb") as out:
            subprocess.run([foray, "trace", *files, "--report", "html"], check=True, stdout=out)
        yield name, path


def main():
    foray = os.path.abspath(sys.argv[1])
    folder = os.path.abspath(sys.argv[2] if len(sys.argv) > 2 else "build/browser")
    os.makedirs(folder, exist_ok=True)
    failed = 0
    with tempfile.TemporaryDirectory() as pages:
        driver = Driver()
        try:
            for name, path in make_pages(foray, pages):
                for size_name, size in SIZES.items():
                    driver.open(size, dark=False)
                    try:
                        look(driver, path, f"{name}-{size_name}", size, folder)
                    except AssertionError as problem:
                        print(f"page.py: {name} on a {size_name}: {problem}")
                        failed += 1
                    driver.close()
        finally:
            driver.end()
    print(f"page.py: {failed} faults; the screenshots are in {folder}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
