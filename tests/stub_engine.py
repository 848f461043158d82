"""A program that stands for llama-server: its help, its version, its answers; no model in it."""

from __future__ import annotations

import sys
from pathlib import Path

HELP = """\
-m,    --model FNAME                    model path
--spec-draft-n-max N                    number of tokens to draft
--spec-type none,draft-simple,ngram-simple,ngram-mod
                                        comma-separated list of types
--spec-ngram-mod-n-min N                minimum
--spec-ngram-mod-n-max N                maximum
--spec-ngram-mod-n-match N              ngram-mod lookup length
"""
BODY = """
import json, sys, threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

flags = sys.argv[1:]
folder = Path(__file__).parent
if flags == ["--help"]:
    print(HELP)
    sys.exit()
if flags == ["--version"]:
    print("version: 4321 (stub)", file=sys.stderr)
    sys.exit()
with open(folder / "log", "a") as log:
    log.write("start " + " ".join(flags[:-4]) + "\\n")
if "ngram-simple" in flags:
    sys.exit("cannot look n-grams up today")

together = threading.Barrier(2, timeout=60)

class Handler(BaseHTTPRequestHandler):
    healthy = 0

    def do_GET(self):
        Handler.healthy += 1  # still loading when it is asked first
        self.reply(200 if Handler.healthy > 1 else 503, {})

    def do_POST(self):
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        with open(folder / "asked", "a") as log:
            log.write(json.dumps(asked) + "\\n")
        if flags[flags.index("-np") + 1] == "2":
            together.wait()  # two at once, or nobody is answered
        n = asked["n_predict"]
        fast = 2 if "-md" in flags else 1
        tokens = [7 + ("ngram-mod" in flags)] * n
        times = {"predicted_n": n, "predicted_ms": 1e3 * (n - 1) / (50 * fast)}
        self.reply(200, {"tokens": tokens, "timings": times})

    def reply(self, status, told):
        data = json.dumps(told).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *of):
        pass

ThreadingHTTPServer(("127.0.0.1", int(flags[-1])), Handler).serve_forever()
"""


def write_stub(folder: Path) -> Path:
    """Write it as `llama-server`; it logs its starts in `log` and what it is asked in `asked`."""
    path = folder / "llama-server"
    path.write_text(f"#!{sys.executable}\nHELP = {HELP!r}\n{BODY}", "utf-8")
    path.chmod(0o755)
    return path
