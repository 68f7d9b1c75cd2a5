"""The configuration file, and when it is another one."""

import asyncio
from pathlib import Path

from accelet.agent.config import DEFAULT_CONFIG, AgentConfig, parse_config
from accelet.runtime.logs import Log
from accelet.runtime.settings import Mistake, SettingsError
from accelet.runtime.waiting import wait_for_hint
from accelet.runtime.watch import DirectoryWatcher

LOOK_S = 10.0
"""How often the file is read without any hint that it changed."""

SETTLE_S = 0.1
"""From a hint to the look: an editor removes the old file before it writes the new one."""

_log = Log(__name__)


class ConfigFile:
    """Reads the configuration at start and whenever it changes; without a file, the built-in one.

    It follows the content: a mounted ConfigMap changes by a link swap in the folder above the file.
    """

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._text: str | None = None
        self._unreadable: SettingsError | None = None
        self._hint = asyncio.Event()

    def load(self) -> AgentConfig:
        """The configuration as it stands.

        Raises:
            SettingsError: it cannot be read, or is wrong.
        """
        if self._path is None:
            return parse_config(DEFAULT_CONFIG, "built-in configuration")
        self._text = _read(self._path)
        return parse_config(self._text, str(self._path))

    def log_warnings(self, config: AgentConfig) -> None:
        """Says what is written in the file and means nothing."""
        for warning in config.warnings:
            _log.warning("a key of the configuration means nothing here", said=warning)

    def watch_with(self, watcher: DirectoryWatcher) -> None:
        if self._path is not None:
            watcher.watch(self._path.parent, self._hint)

    async def next_config(self) -> AgentConfig | None:
        """Waits for another content; None, and the reasons in the log, when it is wrong or there is none."""
        while True:
            if self._path is not None and await self._is_news(self._path):
                return self._parse(self._path)
            if await wait_for_hint(self._hint, LOOK_S):
                await asyncio.sleep(SETTLE_S)
            self._hint.clear()

    async def _is_news(self, path: Path) -> bool:
        """Reads the file; whether it says something else, or is unreadable in another way, than before."""
        before = (self._text, self._unreadable)
        try:
            self._text, self._unreadable = await asyncio.to_thread(_read, path), None
        except SettingsError as error:
            self._unreadable = error
        return (self._text, str(self._unreadable)) != (before[0], str(before[1]))

    def _parse(self, path: Path) -> AgentConfig | None:
        try:
            if self._unreadable is not None:
                raise self._unreadable
            config = parse_config(self._text or "", str(path))
        except SettingsError as error:
            for problem in error.problems:
                _log.error("configuration not taken over; the last good one stays", problem=str(problem))
            return None
        self.log_warnings(config)
        _log.info("configuration taken over", resources=[resource.name for resource in config.resources])
        return config


def _read(path: Path) -> str:
    try:
        return path.read_text()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise SettingsError([Mistake(str(path), 1, "", f"cannot be read: {reason}")]) from error
