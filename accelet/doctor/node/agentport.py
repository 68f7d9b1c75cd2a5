"""Asks the node's agent at its own port: its readiness, and what it counts."""

import http.client
import re
from collections.abc import Iterator, Mapping

from prometheus_client.parser import text_string_to_metric_families

from accelet.doctor.node.seen import AgentSeen, ReadinessLine
from accelet.runtime.probes import AddressError, parse_address

ANSWER_S = 6.0
MOST_BYTES = 4 << 20
MOST_LINES = 200

_LINE = re.compile(r"\[([+-])\] ([^:]+): (.*)")
_ENDS = "accelet_registration_ends"
_NEWEST = "accelet_config_last_reload_successful"


def ask_agent(address: str, *, is_running: bool) -> AgentSeen:
    """What the agent at `address` (as of its --http) says of itself; blocks for ANSWER_S at most twice."""
    try:
        host, port = parse_address(address)
        lines = tuple(parse_readiness(_get(host or "127.0.0.1", port, "/readyz?verbose")))
        ends, newest = parse_metrics(_get(host or "127.0.0.1", port, "/metrics"))
    except AddressError as error:
        return AgentSeen(address, is_running, problem=str(error))
    except (OSError, http.client.HTTPException) as error:
        return AgentSeen(address, is_running, problem=str(error) or type(error).__name__)
    if not lines:
        return AgentSeen(address, is_running, problem="what answers there is no agent")
    return AgentSeen(address, is_running, lines, ends, newest)


def parse_readiness(text: str) -> Iterator[ReadinessLine]:
    for line in text.splitlines()[:MOST_LINES]:
        if found := _LINE.fullmatch(line):
            yield ReadinessLine(found[2], found[1] == "+", found[3])


def parse_metrics(text: str) -> tuple[Mapping[tuple[str, str], int], bool | None]:
    """Ends of registrations by resource and cause, and whether the newest configuration is in force."""
    ends: dict[tuple[str, str], int] = {}
    newest: bool | None = None
    try:
        for family in text_string_to_metric_families(text):
            for sample in family.samples:
                if sample.name == f"{_ENDS}_total":
                    key = sample.labels.get("resource", ""), sample.labels.get("cause", "")
                    ends[key] = int(sample.value)
                elif sample.name == _NEWEST:
                    newest = sample.value == 1
    except (ValueError, KeyError, IndexError, OverflowError):  # what the parser says of other texts
        return {}, None
    return ends, newest


def _get(host: str, port: int, path: str) -> str:
    connection = http.client.HTTPConnection(host, port, timeout=ANSWER_S)
    try:
        connection.request("GET", path)
        return connection.getresponse().read(MOST_BYTES).decode("utf-8", "replace")
    finally:
        connection.close()
