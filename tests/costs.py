"""Which test files take the most processor time: `make test` prints ten of them at its end.

A plugin of pytest: `pytest -p tests.costs`, with pytest-xdist or without. Counted is user and system time of
the process that runs a test, with all its threads, and of the child processes that it has waited for.
"""

import os
import time
from collections.abc import Generator, Mapping
from dataclasses import dataclass, field
from typing import Final

import pytest

_PRINTED: Final = 10
_OUTPUT: Final = "processor_seconds"


@dataclass(slots=True)
class Costs:
    """Processor seconds of processes that run tests: all of them, those to collect, and by test file."""

    all_s: float = 0.0
    collecting_s: float = 0.0
    by_file_s: dict[str, float] = field(default_factory=dict)

    def add(self, all_s: float, collecting_s: float, by_file_s: Mapping[str, float]) -> None:
        self.all_s += all_s
        self.collecting_s += collecting_s
        for file, seconds in by_file_s.items():
            self.by_file_s[file] = self.by_file_s.get(file, 0.0) + seconds

    def lines(self) -> list[str]:
        """The most expensive file first."""
        dear = sorted(self.by_file_s.items(), key=lambda item: (-item[1], item[0]))
        return [f"{seconds:7.1f} s  {file}" for file, seconds in dear[:_PRINTED]]


class Plugin:
    """Counts in the process that runs the tests, and tells the one that was started by the user."""

    def __init__(self, config: pytest.Config) -> None:
        self._config, self._costs = config, Costs()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, object, object]:
        before_s = _used_s()
        try:
            return (yield)
        finally:
            self._costs.add(0.0, 0.0, {item.nodeid.partition("::")[0]: _used_s() - before_s})

    @pytest.hookimpl(wrapper=True)
    def pytest_collection(self) -> Generator[None, object, object]:
        before_s = _used_s()
        try:
            return (yield)
        finally:
            self._costs.add(0.0, _used_s() - before_s, {})

    def pytest_sessionfinish(self) -> None:
        has_workers = self._config.pluginmanager.hasplugin("dsession")  # they are its children
        self._costs.add(time.process_time() if has_workers else _used_s(), 0.0, {})
        if (output := getattr(self._config, "workeroutput", None)) is not None:
            output[_OUTPUT] = [self._costs.all_s, self._costs.collecting_s, dict(self._costs.by_file_s)]

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: object) -> None:
        """A worker that crashed has told nothing."""
        self._costs.add(*getattr(node, "workeroutput", {}).get(_OUTPUT, (0.0, 0.0, {})))

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        costs = self._costs
        terminalreporter.section(
            f"processor time: {costs.all_s:.0f} s, of which {costs.collecting_s:.0f} s to collect"
        )
        for line in costs.lines():
            terminalreporter.write_line(line)


def _used_s() -> float:
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(Plugin(config))
