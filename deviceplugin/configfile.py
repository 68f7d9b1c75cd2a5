"""The configuration file, and when it is another one."""

import asyncio
from contextlib import suppress
from pathlib import Path

from accelet.runtime.logs import Log
from accelet.runtime.settings import Problem, SettingsError
from accelet.runtime.watch import DirectoryWatcher
from deviceplugin.config import DEFAULT_CONFIG, AgentConfig, parse_config

LOOK_S = 10.0
"""How often the file is read without any hint that it changed."""

_log = Log(__name__)


class ConfigFile:
    """Reads the configuration at start and whenever it changes; without a file, the built-in one.

    It follows the content: a mounted ConfigMap changes by a link swap in the folder above the file.
    """

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._text: str | None = None
        self._changed = asyncio.Event()

    def load(self) -> AgentConfig:
        """The configuration as it stands.

        Raises:
            SettingsError: it cannot be read, or is wrong.
        """
        if self._path is None:
            return parse_config(DEFAULT_CONFIG, "built-in configuration")
        self._text = _read(self._path)
        return parse_config(self._text, str(self._path))

    def watch_with(self, watcher: DirectoryWatcher) -> None:
        if self._path is not None:
            watcher.watch(self._path.parent, self._changed)

    async def changed(self) -> AgentConfig | None:
        """Waits for another content; None, and the reasons in the log, when it is wrong."""
        while self._path is None or not await self._has_new_text(self._path):
            with suppress(TimeoutError):
                async with asyncio.timeout(LOOK_S):
                    await self._changed.wait()
            self._changed.clear()
        assert self._text is not None
        try:
            config = parse_config(self._text, str(self._path))
        except SettingsError as error:
            for problem in error.problems:
                _log.error("configuration not taken over; the last good one stays", problem=str(problem))
            return None
        _log.info("configuration taken over", resources=[resource.name for resource in config.resources])
        return config

    async def _has_new_text(self, path: Path) -> bool:
        try:
            text = await asyncio.to_thread(_read, path)
        except SettingsError as error:
            # Half-way through a swap there may be no file; one that stays away changes nothing.
            _log.debug("cannot read the configuration", problem=str(error))
            return False
        if text == self._text:
            return False
        self._text = text
        return True


def _read(path: Path) -> str:
    try:
        return path.read_text()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise SettingsError([Problem(str(path), 1, "", f"cannot be read: {reason}")]) from error
