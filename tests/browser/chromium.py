"""A headless Chromium, driven over two pipes by its own DevTools protocol."""

from __future__ import annotations

import base64
import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

FLAGS = (
    *("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"),
    *("--no-first-run", "--disable-background-networking", "--disable-component-update"),
    *("--disable-sync", "--disable-quic", "--remote-debugging-pipe", "about:blank"),
)


class Page:
    """One page of a running browser."""

    def __init__(self, commands: BinaryIO, answers: BinaryIO) -> None:
        """Commands go into one pipe, answers come out of the other, each with a NUL behind it."""
        self._commands, self._answers = commands, answers
        self._held, self._last, self._session = b"", 0, None
        self.problems: list[str] = []
        """What the page logged as an error, and exceptions that nothing caught."""
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        attached = self.call("Target.attachToTarget", targetId=target, flatten=True)
        self._session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")
        self.requests: list[str] = []

    def call(self, method: str, **params: Any) -> dict[str, Any]:
        """The result of a command."""
        self._last += 1
        message: dict[str, Any] = {"id": self._last, "method": method, "params": params}
        if self._session:
            message["sessionId"] = self._session
        self._commands.write(json.dumps(message).encode() + b"\0")
        self._commands.flush()
        while True:
            told = self._read()
            if told.get("id") == self._last:
                assert "error" not in told, told
                return told["result"]
            self._note(told)

    def run(self, script: str) -> Any:
        """The value of an expression, awaited if it is a promise."""
        told = self.call(
            "Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True
        )
        assert "exceptionDetails" not in told, told["exceptionDetails"]
        return told["result"].get("value")

    def open(self, url: str) -> None:
        """Go to a page and wait until it has loaded."""
        self.call("Page.navigate", url=url)
        self.run(
            "new Promise(done => document.readyState === 'complete' && location.href !== "
            "'about:blank' ? done() : addEventListener('load', done))"
        )

    def until(self, condition: str) -> None:
        """Wait until an expression of the page holds."""
        self.run(
            "new Promise((done, fail) => { const end = Date.now() + 30000; (function look() {"
            f"if ({condition}) done(); else if (Date.now() > end) fail(new Error('never'));"
            " else requestAnimationFrame(look); })(); })"
        )

    def press(self, key: str, modifiers: int = 0) -> None:
        """A key, pressed and let go; 2 is Ctrl."""
        code = {"Enter": 13, "Escape": 27, "Tab": 9, " ": 32}[key]
        text = {"Enter": "\r", " ": " "}.get(key, "")
        for kind in ("keyDown", "keyUp"):
            pressed = text if kind == "keyDown" and not modifiers else ""
            self.call(
                "Input.dispatchKeyEvent", type=kind, key=key, code=key, modifiers=modifiers,
                windowsVirtualKeyCode=code, text=pressed,
            )  # fmt: skip

    def size(self, width: int, height: int, dark: bool = False) -> None:
        """Give the page another size and colour scheme."""
        self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width, height=height, deviceScaleFactor=1, mobile=width < 600,
        )  # fmt: skip
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setEmulatedMedia", features=[scheme])

    def screenshot(self, path: Path) -> None:
        """Save what the page looks like."""
        told = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=True)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(base64.b64decode(told["data"]))

    def _read(self) -> dict[str, Any]:
        while b"\0" not in self._held:
            part = os.read(self._answers.fileno(), 1 << 16)
            assert part, "Chromium has ended"
            self._held += part
        message, _, self._held = self._held.partition(b"\0")
        told: dict[str, Any] = json.loads(message)
        return told

    def _note(self, told: dict[str, Any]) -> None:
        match told.get("method"), told.get("params"):
            case "Runtime.exceptionThrown", {"exceptionDetails": details}:
                self.problems.append(json.dumps(details))
            case "Log.entryAdded", {"entry": {"level": "error"} as entry}:
                self.problems.append(json.dumps(entry))
            case "Network.requestWillBeSent", {"request": {"url": url}}:
                self.requests.append(url)


@contextmanager
def browse(profile: Path) -> Iterator[Page]:
    """A browser for the block, with a profile of its own."""
    found = shutil.which(os.environ.get("CHROMIUM", "chromium"))
    assert found, "No Chromium is on the path; run make browser, which finds or installs one."
    into, commands = os.pipe()
    answers, out = os.pipe()
    flags = " ".join([*FLAGS, f"--user-data-dir='{profile}'"])
    shell = ["bash", "-c", f"exec '{found}' {flags} 3<&{into} 4>&{out} 2>/dev/null"]
    with subprocess.Popen(shell, pass_fds=(into, out)) as process:
        os.close(into)
        os.close(out)
        with os.fdopen(commands, "wb") as told, os.fdopen(answers, "rb") as heard:
            try:
                yield Page(told, heard)
            finally:
                process.kill()
