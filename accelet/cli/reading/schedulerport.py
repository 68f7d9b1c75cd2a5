"""What the scheduler alone knows, asked at its HTTP port, which tells its own pod or host."""

import http.client
from collections.abc import Sequence

from accelet.cli.reading.cardobjects import CardObjects
from accelet.runtime.probes import parse_address
from accelet.scheduler.cards.lingering import PAGE, LingeringPod, parse_lingering

IN_ITS_POD = "127.0.0.1:9401"
"""By deploy/scheduler.yaml."""

_ANSWER_S = 5.0
_MOST_BYTES = 64 * 2**20


def with_lingering(objects: CardObjects, address: str) -> CardObjects:
    """The objects with the pods deleted by force that still count as holders, or with a note why not.

    Raises:
        AddressError: the address is none.
    """
    host, port = parse_address(address)
    try:
        lingering = _ask(host or "127.0.0.1", port)
    except (OSError, http.client.HTTPException, ValueError) as error:
        note = f"Pods deleted by force are not shown: the scheduler at {address} does not tell ({error})."
        return CardObjects(objects.nodes, objects.pods, objects.plans, [*objects.notes, note])
    return CardObjects(objects.nodes, objects.pods, objects.plans, objects.notes, tuple(lingering))


def _ask(host: str, port: int) -> Sequence[LingeringPod]:
    connection = http.client.HTTPConnection(host, port, timeout=_ANSWER_S)
    try:
        connection.request("GET", PAGE)
        answer = connection.getresponse()
        if answer.status != http.HTTPStatus.OK:
            raise ValueError(f"{answer.status} {answer.reason}")
        return parse_lingering(answer.read(_MOST_BYTES))
    finally:
        connection.close()
