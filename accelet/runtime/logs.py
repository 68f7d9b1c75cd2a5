"""Structured logs: one JSON object a line, with a constant message and its values as keys."""

import logging
import sys
from collections.abc import Mapping
from datetime import UTC, datetime
from itertools import islice
from typing import Any, Literal, TextIO

from pythonjsonlogger.json import JsonFormatter

Level = Literal["debug", "info", "warning", "error"]
_LEVELS: Mapping[Level, int] = {
    "debug": logging.DEBUG,
    "info": logging.INFO,
    "warning": logging.WARNING,
    "error": logging.ERROR,
}


class Log:
    """Writes constant messages with named values: `log.info("registered", resource=name)`."""

    def __init__(self, name: str, **bound: object) -> None:
        self._logger, self._bound = logging.getLogger(name), bound

    def bind(self, **values: object) -> "Log":
        """A log whose every line has these values as well."""
        return Log(self._logger.name, **{**self._bound, **values})

    def debug(self, message: str, **values: object) -> None:
        self.write("debug", message, **values)

    def info(self, message: str, **values: object) -> None:
        self.write("info", message, **values)

    def warning(self, message: str, **values: object) -> None:
        self.write("warning", message, **values)

    def error(self, message: str, **values: object) -> None:
        self.write("error", message, **values)

    def exception(self, message: str, cause: Exception | None = None, **values: object) -> None:
        """An error of ours, with its traceback in the field `exc_info` of the one line.

        Without `cause` it is the one that is being handled.
        """
        extra = {"values": {**self._bound, **values}}
        self._logger.error(message, exc_info=cause or True, extra=extra)

    def write(self, level: Level, message: str, **values: object) -> None:
        """A line of a level that is only known when it is written."""
        self._logger.log(_LEVELS[level], message, extra={"values": {**self._bound, **values}})


_LONGEST_TEXT = 2000
_LONGEST_TRACEBACK = 20_000
_MOST_ITEMS = 100


def _bounded(value: object, longest: int = _LONGEST_TEXT) -> object:
    """`value` as it is logged: texts may be of those who write objects, who choose how long they are."""
    if isinstance(value, str):
        rest = len(value) - longest
        return value if rest <= 0 else f"{value[:longest]}… and {rest:,} characters more"
    if isinstance(value, list | tuple | set | frozenset) and len(value) > _MOST_ITEMS:
        return [*map(_bounded, islice(value, _MOST_ITEMS)), f"and {len(value) - _MOST_ITEMS:,} more"]
    if isinstance(value, list | tuple | set | frozenset):
        return [_bounded(one) for one in value]
    return value


class _Formatter(JsonFormatter):
    def add_fields(
        self, log_data: dict[str, Any], record: logging.LogRecord, message_dict: dict[str, Any]
    ) -> None:
        log_data["ts"] = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        log_data["level"] = record.levelname.lower()
        log_data["msg"] = record.getMessage()
        values = getattr(record, "values", {})
        log_data.update({name: _bounded(value) for name, value in values.items()})
        if record.exc_info:
            log_data["exc_info"] = _bounded(self.formatException(record.exc_info), _LONGEST_TRACEBACK)
        if not values and record.name.split(".")[0] not in ("accelet", "deviceplugin"):
            log_data["logger"] = record.name


def configure_logs(level: Level, stream: TextIO = sys.stderr) -> None:
    """Sends everything that is logged in this process to `stream` as JSON."""
    handler = logging.StreamHandler(stream)
    handler.setFormatter(_Formatter())
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)
    # The library reports each event at debug level, and its own orderly end as an error.
    logging.getLogger("watchdog").setLevel(logging.CRITICAL)
