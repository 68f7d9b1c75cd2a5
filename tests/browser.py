"""A real browser without a window, driven over the DevTools protocol: Debian's chromium."""

import base64
import json
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import websocket

BROWSER = "chromium"
_START_S = 60.0
_ANSWER_S = 60.0
_LOOK_S = 0.05
_WAIT = f"new Promise((done) => setTimeout(done, {_LOOK_S * 1000}))"
_NAVIGATED = ("navigated", "context was destroyed", "Cannot find context", "default execution context")
_FLAGS = (
    "--headless=new",
    "--no-sandbox",  # Chromium's own needs another user than root
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
    "--remote-allow-origins=*",
    "--remote-debugging-port=0",
    # No name leads anywhere: what the page would ask of others is refused, and seen.
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
)


class BrowserError(Exception):
    """The browser did not do what it was told to; says what."""


class NavigatedError(BrowserError):
    """The page that was asked is not there any more: another one has come."""


class Tab:
    """One tab. `requested` are the addresses that anything in it has asked for, `told` its errors."""

    def __init__(self, address: str) -> None:
        self._socket = websocket.create_connection(address, timeout=_ANSWER_S)
        self._count = 0
        self._session = ""
        self.requested: list[str] = []
        self.told: list[str] = []
        target = self._call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self._call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Network", "Log"):
            self._call(f"{domain}.enable")

    def close(self) -> None:
        self._socket.close()

    def open(self, address: str) -> None:
        self._call("Page.navigate", url=address)

    def evaluate(self, expression: str) -> Any:
        """The value of a JavaScript expression, as JSON has it."""
        answer = self._call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in answer:
            raise BrowserError(json.dumps(answer["exceptionDetails"])[:2000])
        return answer["result"].get("value")

    def until(self, expression: str, within_s: float = 60.0) -> Any:
        """Waits until an expression is true; its value."""
        ends_s = time.monotonic() + within_s
        while time.monotonic() < ends_s:
            try:
                if value := self.evaluate(f"Boolean(globalThis.document && document.body) && ({expression})"):
                    return value
                self.evaluate(_WAIT)
            except NavigatedError:
                continue  # what was asked for went with the page; the next one is asked
        text = self.evaluate("document.body.innerText")
        raise BrowserError(f"not so within {within_s:g} s: {expression}; the page says {text!r}; {self.told}")

    def press(self, key: str, text: str = "") -> None:
        """One key, as a person presses it."""
        self._call("Input.dispatchKeyEvent", type="keyDown", key=key, text=text)
        self._call("Input.dispatchKeyEvent", type="keyUp", key=key)

    def look(self, *, width: int, height: int, dark: bool) -> None:
        """Sets the size of the window, and whether the machine is dark."""
        self._call(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=False,
        )
        feature = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self._call("Emulation.setEmulatedMedia", features=[feature])

    def screenshot(self, path: Path) -> Path:
        path.write_bytes(base64.b64decode(self._call("Page.captureScreenshot", format="png")["data"]))
        return path

    def _call(self, method: str, **params: Any) -> dict[str, Any]:
        self._count += 1
        session = {"sessionId": self._session} if self._session else {}
        self._socket.send(json.dumps({"id": self._count, "method": method, "params": params, **session}))
        while True:
            message = json.loads(self._socket.recv())
            if message.get("id") == self._count:
                if "error" in message:
                    text = f"{method}: {message['error']}"
                    raise (NavigatedError if any(sign in text for sign in _NAVIGATED) else BrowserError)(text)
                return dict(message["result"])
            self._hear(message.get("method", ""), message.get("params", {}))

    def _hear(self, method: str, params: dict[str, Any]) -> None:
        match method:
            case "Network.requestWillBeSent":
                self.requested.append(params["request"]["url"])
            case "Runtime.exceptionThrown":
                self.told.append(json.dumps(params["exceptionDetails"])[:1000])
            case "Log.entryAdded":
                self.told.append(params["entry"]["text"])


@contextmanager
def open_tab() -> Iterator[Tab]:
    """A browser of its own with one tab; nothing of it stays."""
    with tempfile.TemporaryDirectory(prefix="accelet-browser-", ignore_cleanup_errors=True) as folder:
        words = [BROWSER, *_FLAGS, f"--user-data-dir={folder}"]
        with subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
            try:
                tab = Tab(_address(Path(folder), process))
                try:
                    yield tab
                finally:
                    tab.close()
            finally:
                process.terminate()
                process.wait(_START_S)


def _address(folder: Path, process: "subprocess.Popen[bytes]") -> str:
    """Where the browser takes orders, once it does."""
    port = folder / "DevToolsActivePort"
    ends_s = time.monotonic() + _START_S
    while time.monotonic() < ends_s and process.poll() is None:
        lines = port.read_text().splitlines() if port.exists() else []
        if len(lines) == 2:
            return f"ws://127.0.0.1:{lines[0]}{lines[1]}"
        try:
            process.wait(_LOOK_S)
        except subprocess.TimeoutExpired:
            continue
    raise BrowserError(f"{BROWSER} takes no orders: it ended with {process.poll()}")
