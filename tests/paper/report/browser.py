"""Drive headless Chromium by its DevTools protocol over a pipe: no driver and no further package is needed."""

from __future__ import annotations

import base64
import fcntl
import json
import os
import select
import shutil
import signal
import tempfile
import time
from pathlib import Path

PROGRAMS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
FLAGS = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync"),
    *("--disable-background-networking", "--disable-component-update", "--disable-dev-shm-usage", "--hide-scrollbars"),
)
TIMEOUT = 60.0


def find_browser():
    """Path of a Chromium on this machine, or None."""
    return next((path for name in PROGRAMS if (path := shutil.which(name))), None)


class Browser:
    """A browser with one page. Console messages at the level of an error, and uncaught exceptions, are collected."""

    def __init__(self, program):
        self._profile = tempfile.mkdtemp(prefix="projbank-browser-")
        theirs_in, self._to = os.pipe()
        self._from, theirs_out = os.pipe()
        ends = [fcntl.fcntl(end, fcntl.F_DUPFD_CLOEXEC, 10) for end in (theirs_in, theirs_out)]  # not 3 or 4
        log = os.open(os.path.join(self._profile, "log"), os.O_WRONLY | os.O_CREAT)
        flags = [program, *FLAGS, f"--user-data-dir={self._profile}", "--remote-debugging-pipe", "about:blank"]
        actions = [(os.POSIX_SPAWN_DUP2, ends[0], 3), (os.POSIX_SPAWN_DUP2, ends[1], 4)]
        actions += [(os.POSIX_SPAWN_DUP2, log, 1), (os.POSIX_SPAWN_DUP2, log, 2)]
        self._process = os.posix_spawn(program, flags, os.environ, file_actions=actions, setsid=True)
        for end in (theirs_in, theirs_out, *ends, log):
            os.close(end)
        self._left, self._number, self.errors, self._events = b"", 0, [], []
        self._session = None
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    def call(self, method, **params):
        """Send a command and wait for its answer."""
        self._number += 1
        message = {"id": self._number, "method": method, "params": params}
        if self._session and not method.startswith("Target."):
            message["sessionId"] = self._session
        os.write(self._to, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._read()
            if answer.get("id") == self._number:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']}")
                return answer["result"]
            self._note(answer)

    def open(self, path, *, width, height=900, dark=False, mobile=False):
        """Load a file at a window size and colour scheme, and wait until all of it is there."""
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": mobile}
        self.call("Emulation.setDeviceMetricsOverride", **size)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setEmulatedMedia", features=[scheme])
        self._events.clear()
        self.call("Page.navigate", url=Path(path).resolve().as_uri())
        while "Page.loadEventFired" not in self._events:
            self._note(self._read())

    def run(self, script):
        """Value of a JavaScript expression."""
        answer = self.call("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in answer:
            raise RuntimeError(answer["exceptionDetails"]["exception"].get("description"))
        return answer["result"].get("value")

    def screenshot(self, path):
        """Write what the window shows as PNG."""
        Path(path).write_bytes(base64.b64decode(self.call("Page.captureScreenshot", format="png")["data"]))

    def pdf(self):
        """The page as printed."""
        return base64.b64decode(self.call("Page.printToPDF", printBackground=True)["data"])

    def close(self):
        """End the browser and remove its profile."""
        for end in (self._to, self._from):
            os.close(end)
        try:
            os.killpg(self._process, signal.SIGKILL)
            os.waitpid(self._process, 0)
        except (ProcessLookupError, ChildProcessError):
            pass
        shutil.rmtree(self._profile, ignore_errors=True)

    def _read(self):
        end = time.monotonic() + TIMEOUT
        while b"\0" not in self._left:
            if not select.select([self._from], [], [], max(0.0, end - time.monotonic()))[0]:
                raise TimeoutError(f"the browser said nothing for {TIMEOUT:g} s")
            data = os.read(self._from, 1 << 20)
            if not data:
                raise RuntimeError("the browser ended: " + Path(self._profile, "log").read_text()[-2000:])
            self._left += data
        message, _, self._left = self._left.partition(b"\0")
        return json.loads(message)

    def _note(self, event):
        name, params = event.get("method"), event.get("params", {})
        self._events.append(name)
        if name == "Runtime.exceptionThrown":
            self.errors.append(params["exceptionDetails"]["exception"].get("description"))
        elif (name == "Runtime.consoleAPICalled" and params["type"] in ("error", "assert")) or (
            name == "Log.entryAdded" and params["entry"]["level"] == "error"
        ):
            self.errors.append(json.dumps(params))
        elif name == "Network.requestWillBeSent" and not params["request"]["url"].startswith(("file:", "data:")):
            self.errors.append("asked for " + params["request"]["url"])
