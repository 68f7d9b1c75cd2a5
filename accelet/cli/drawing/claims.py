"""Claims as people look at them."""

from collections.abc import Iterator

from accelet.cli.drawing.output import Output
from accelet.cli.drawing.records import Records
from accelet.scheduler.claims.outlook import ClaimsView, GivenDevice, NodeReason, Outlook

_HEADS = ("NAMESPACE", "POD", "CLAIM", "STATE", "DEVICES", "WHY")


def print_claims(output: Output, view: ClaimsView) -> None:
    """A row for each claim: what it holds, or where it would get what."""
    if not view.outlooks:
        output.line("No pod uses a resource claim, and there is none.")
        return
    output.table(Records(_HEADS, [row for one in view.outlooks for row in _rows(one)]))


def _rows(one: Outlook) -> Iterator[tuple[str, ...]]:
    for at, line in enumerate(one.claims):
        devices = ", ".join(map(_device, line.devices)) or "-"
        why = _why(one) if at == 0 else ""
        yield one.namespace, one.pod or "-", line.claim, one.state, devices, why


def _device(given: GivenDevice) -> str:
    part = (
        f" ({', '.join(f'{name} {amount}' for name, amount in given.consumed.items())})"
        if given.consumed
        else ""
    )
    return f"{given.request}={given.driver}/{given.pool}/{given.device}{part}"


def _why(one: Outlook) -> str:
    told = "; ".join(map(_reason, one.reasons))
    if one.state != "fits":
        return told
    where = f"{_nodes(one.fitting)} would serve it now, such as {one.first}"
    return f"{where}; {told}" if told else where


def _reason(reason: NodeReason) -> str:
    return f"{_nodes(reason.nodes)}: {reason.reason}" if reason.nodes else reason.reason


def _nodes(count: int) -> str:
    return "1 node" if count == 1 else f"{count} nodes"
