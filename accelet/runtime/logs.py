"""Structured logs: one JSON object a line, with a constant message and its values as keys."""

import logging
import sys
from datetime import UTC, datetime
from itertools import islice
from typing import Any, Literal, TextIO

from pythonjsonlogger.json import JsonFormatter

Level = Literal["debug", "info", "warning", "error"]


class Log:
    """Writes constant messages with named values: `log.info("registered", resource=name)`."""

    def __init__(self, name: str) -> None:
        self._logger = logging.getLogger(name)

    def debug(self, message: str, **values: object) -> None:
        self._logger.debug(message, extra={"values": values})

    def info(self, message: str, **values: object) -> None:
        self._logger.info(message, extra={"values": values})

    def warning(self, message: str, **values: object) -> None:
        self._logger.warning(message, extra={"values": values})

    def error(self, message: str, **values: object) -> None:
        self._logger.error(message, extra={"values": values})

    def exception(self, message: str, cause: Exception | None = None, **values: object) -> None:
        """An error of ours, with its traceback in the field `exc_info` of the one line.

        Without `cause` it is the one that is being handled.
        """
        self._logger.error(message, exc_info=cause or True, extra={"values": values})


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
