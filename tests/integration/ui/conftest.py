"""`accelet ui` as a process of its own, before a fake API server."""

import os
import queue
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import pytest

from accelet.fakeapi import FakeApi

START_S = 60.0


class PageProcess:
    """The command while it runs; what it prints, line by line."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self.process = process
        self.said: list[str] = []
        self._lines: queue.SimpleQueue[str] = queue.SimpleQueue()
        threading.Thread(target=self._read, daemon=True).start()

    @property
    def port(self) -> int:
        return int(self.said[0].split(":")[3].partition("/")[0])

    def next_link(self) -> str:
        """The next link that it prints."""
        while "http://" not in (line := self._lines.get(timeout=START_S)):
            continue
        return line.split()[-1]

    def end(self, number: int = signal.SIGINT) -> int:
        self.process.send_signal(number)
        return self.process.wait(START_S)

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.said.append(line)
            self._lines.put(line)


@contextmanager
def page_of(kubeconfig: Path, *flags: str) -> Iterator[PageProcess]:
    words = [str(Path(sys.executable).with_name("accelet")), "ui", "--kubeconfig", str(kubeconfig), *flags]
    environment = {**os.environ, "PYTHONUNBUFFERED": "1"}
    with subprocess.Popen(
        words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment
    ) as process:
        try:
            yield PageProcess(process)
        finally:
            process.kill()


@pytest.fixture
def api() -> Iterator[FakeApi]:
    with FakeApi() as server:
        yield server


@pytest.fixture
def start(api: FakeApi, tmp_path: Path) -> Callable[..., AbstractContextManager[PageProcess]]:
    kubeconfig = api.write_kubeconfig(tmp_path / "kubeconfig")
    return lambda *flags: page_of(kubeconfig, *flags)
