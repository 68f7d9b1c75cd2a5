"""Structured logs: one JSON object a line, with a constant message and its values as keys."""

import logging
import sys
from datetime import UTC, datetime
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


class _Formatter(JsonFormatter):
    def add_fields(
        self, log_data: dict[str, Any], record: logging.LogRecord, message_dict: dict[str, Any]
    ) -> None:
        log_data["ts"] = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        log_data["level"] = record.levelname.lower()
        log_data["msg"] = record.getMessage()
        values = getattr(record, "values", {})
        log_data.update(values)
        if record.exc_info:
            log_data["exc_info"] = self.formatException(record.exc_info)
        if not values and record.name.split(".")[0] not in ("accelet", "deviceplugin"):
            log_data["logger"] = record.name


def configure_logs(level: Level, stream: TextIO = sys.stderr) -> None:
    """Sends everything that is logged in this process to `stream` as JSON."""
    handler = logging.StreamHandler(stream)
    handler.setFormatter(_Formatter())
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)
    # The library reports each event at debug level, and its own orderly end as an error.
    logging.getLogger("watchdog").setLevel(logging.CRITICAL)
