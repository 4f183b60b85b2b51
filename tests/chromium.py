"""Looks at a page in a real headless Chromium, over its debugging pipe: what the console said, its width, a picture.

`python -m tests.chromium PAGE [FOLDER]` checks one page at both widths and puts screenshots into FOLDER.
"""

from __future__ import annotations

import base64
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

WIDTHS = {"desktop": 1440, "phone": 390}
_NAMES = ("chromium", "chromium-browser", "google-chrome")
_FLAGS = ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars")


class NoChromiumError(RuntimeError):
    """Raised when no Chromium is found."""


def chromium() -> str:
    """The browser's path."""
    found = next(filter(None, map(shutil.which, _NAMES)), None)
    if found is None:
        raise NoChromiumError("no Chromium was found on PATH; install one (Debian: apt-get install chromium).")
    return found


class Tab:
    """One tab: commands and events of the DevTools protocol."""

    def __init__(self, to_browser: int, from_browser: int) -> None:
        self._out = os.fdopen(to_browser, "wb", buffering=0)
        self._in = os.fdopen(from_browser, "rb", buffering=0)
        self._rest = b""
        self._number = 0
        self._session: str | None = None
        self.events: list[dict[str, Any]] = []
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    def call(self, method: str, **params: Any) -> dict[str, Any]:
        """A command's result; what happens meanwhile is added to ``events``."""
        self._number += 1
        message = {"id": self._number, "method": method, "params": params}
        if self._session:
            message["sessionId"] = self._session
        self._out.write(json.dumps(message).encode() + b"\0")
        while True:
            answer = self._next()
            if answer.get("id") == self._number:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']['message']}")
                return answer["result"]
            self.events.append(answer)

    def _next(self) -> dict[str, Any]:
        while b"\0" not in self._rest:
            read = os.read(self._in.fileno(), 1 << 20)
            if not read:
                raise RuntimeError("Chromium ended")
            self._rest += read
        text, _, self._rest = self._rest.partition(b"\0")
        return json.loads(text)

    def open(self, page: Path, width: int, height: int = 900) -> None:
        """Load a page at a width, and let it draw."""
        self.events.clear()
        metrics = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600}
        self.call("Emulation.setDeviceMetricsOverride", screenWidth=width, screenHeight=height, **metrics)
        self.call("Page.navigate", url=page.resolve().as_uri())
        for _ in range(200):
            time.sleep(0.05)
            if self.value("document.readyState") == "complete":
                break
        self.value("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")

    def value(self, expression: str) -> Any:
        """What an expression gives in the page."""
        given = self.call("Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True)
        if "exceptionDetails" in given:
            raise RuntimeError(given["exceptionDetails"]["exception"].get("description", "an exception"))
        return given["result"].get("value")

    def complaints(self) -> list[str]:
        """Console errors and warnings, exceptions, and every request that left the page."""
        said = []
        for event in self.events:
            method, params = event.get("method"), event.get("params", {})
            if method == "Runtime.exceptionThrown":
                said.append(params["exceptionDetails"]["exception"].get("description", "exception"))
            elif method == "Runtime.consoleAPICalled" and params["type"] in ("error", "warning", "assert"):
                said.append(f"console {params['type']}: {params['args']}")
            elif method == "Log.entryAdded" and params["entry"]["level"] in ("error", "warning"):
                said.append(f"log: {params['entry']['text']}")
            elif method == "Network.requestWillBeSent":
                url = params["request"]["url"]
                if not url.startswith(("file:", "data:")):
                    said.append(f"asked the network for {url}")
        return said

    def overflow(self) -> list[str]:
        """Elements that make the page wider than the window; scrolling inside a box of its own is none."""
        return self.value(_OVERFLOW)

    def screenshot(self, to: Path, *, height: int | None = None) -> None:
        """The page, from its top, whole or ``height`` pixels of it."""
        size = self.call("Page.getLayoutMetrics")["cssContentSize"]
        clip = {"x": 0, "y": 0, "width": size["width"], "height": height or size["height"], "scale": 1}
        shot = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=True, clip=clip)
        to.write_bytes(base64.b64decode(shot["data"]))


_OVERFLOW = """(() => {
  const wide = window.screen.width < 600 ? window.screen.width : document.documentElement.clientWidth;
  if (document.documentElement.scrollWidth <= wide) return [];
  const scrolls = (node) => node && (getComputedStyle(node).overflowX !== "visible" || scrolls(node.parentElement));
  const over = [...document.querySelectorAll("body *")].filter(
    (node) => node.getBoundingClientRect().right > wide + 1 && !scrolls(node.parentElement));
  return ["the page is " + document.documentElement.scrollWidth + " px wide",
    ...over.slice(0, 5).map((n) => n.tagName + "." + n.getAttribute("class") + " " + n.textContent.slice(0, 40))];
})()"""


@contextmanager
def tab() -> Iterator[Tab]:
    """A tab of a browser of its own, ended afterwards."""
    to_child, ours_out = os.pipe()
    ours_in, from_child = os.pipe()
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        # The browser reads commands from descriptor 3 and answers on 4.
        command = f'exec "$0" "$@" 3<&{to_child} 4>&{from_child}'
        browser = subprocess.Popen(
            ["bash", "-c", command, chromium(), *_FLAGS, "--remote-debugging-pipe", f"--user-data-dir={profile}"],
            pass_fds=(to_child, from_child),
            stderr=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
        )
        os.close(to_child)
        os.close(from_child)
        try:
            yield Tab(ours_out, ours_in)
        finally:
            browser.terminate()
            browser.wait(timeout=30)


def check(page: Path, pictures: Path | None = None) -> list[str]:
    """What is wrong with a page at both widths, a sentence each; empty: nothing."""
    wrong = []
    with tab() as looked:
        for name, width in WIDTHS.items():
            looked.open(page, width)
            wrong += [f"{name} ({width} px): {what}" for what in [*looked.complaints(), *looked.overflow()]]
            if pictures:
                pictures.mkdir(parents=True, exist_ok=True)
                looked.screenshot(pictures / f"report-{name}.png")
    return wrong


def main(page: str, pictures: str | None = None) -> int:
    """Say what was checked; 0: nothing is wrong, 1: something is, 3: it could not be checked."""
    if not Path(page).exists():
        print(f"there is no page at {page}; run `make demo` first.", file=sys.stderr)
        return 3
    try:
        wrong = check(Path(page), Path(pictures) if pictures else None)
    except NoChromiumError as error:
        print(error, file=sys.stderr)
        return 3
    print("\n".join(wrong) or f"{page}: no console error, no request, no overflow at {list(WIDTHS.values())} px")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
