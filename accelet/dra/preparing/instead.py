"""The claim to write instead of extended resources that only device plugins can serve together.

An extended resource is a count of devices of one class and nothing more (docs/dra.md).
"""

from collections.abc import Collection, Iterator, Mapping

from accelet.dra.names import ALL_MILLICORES, STEP_MILLICORES

_TILES, _MILLICORES, _MEMORY = "tiles", "millicores", "memory.max"
_CLAIM = """\
apiVersion: resource.k8s.io/v1
kind: ResourceClaimTemplate
metadata: {{name: {name}}}
spec:
  spec:
    devices:
      requests:
      - name: gpu
        exactly: {{deviceClassName: {device_class}{count}{capacity}}}{same}"""
_SAME = """
      constraints:
      - {requests: [gpu], matchAttribute: gpu.accelet.dev/card}"""


def explain_inexpressible(
    container: str, limits: Mapping[str, int], cards: Collection[str], annotations: Mapping[str, str]
) -> str | None:
    """Why a container's limits cannot be served through DRA, with what to write; None where they can.

    `limits` are its amounts by resource name, `cards` the resources that count cards.
    """
    asked = {name: limits[name] for name in cards if limits.get(name)}
    prefixes = {name.partition("/")[0] for name in cards}
    parts = {
        part: limits[f"{prefix}/{part}"]
        for prefix in prefixes
        for part in (_TILES, _MILLICORES, _MEMORY)
        if limits.get(f"{prefix}/{part}")
    }
    wishes = sorted(name for name in annotations if name.startswith("gas-"))
    beside = [*parts, *wishes]
    if not beside or (not asked and list(parts) == [_TILES] and not wishes):
        return None
    told = " with ".join([*(asked or ["parts of cards"]), ", ".join(beside)])
    why = f"{container} asks for {told}: only nodes with the device plugin give that"
    claim = _write(container, sum(asked.values()) or 1, parts)
    if claim is None:
        return f"{why}; write a claim with selectors instead (docs/dra.md)"
    return f"{why}; write a claim instead:\n{claim}"


def _write(container: str, cards: int, parts: Mapping[str, int]) -> str | None:
    """The claim template; None where these amounts have no plain form."""
    if _TILES in parts:
        if len(parts) > 1 or cards > 1:
            return None
        count = parts[_TILES]
        same = _SAME if count > 1 else ""
        return _CLAIM.format(
            name=container, device_class="tile.gpu.accelet.dev", count=_count(count), capacity="", same=same
        )
    amounts = dict(_capacity(cards, parts))
    capacity = ", ".join(f"{name}: {amount}" for name, amount in amounts.items())
    return _CLAIM.format(
        name=container,
        device_class="gpu.accelet.dev",
        count=_count(cards),
        capacity=f", capacity: {{requests: {{{capacity}}}}}" if capacity else "",
        same="",
    )


def _capacity(cards: int, parts: Mapping[str, int]) -> Iterator[tuple[str, str]]:
    """Of each card, rounded up to what the driver gives in steps of."""
    if _MILLICORES in parts:
        each = -(-parts[_MILLICORES] // cards // STEP_MILLICORES) * STEP_MILLICORES
        yield "millicores", f'"{min(max(each, STEP_MILLICORES), ALL_MILLICORES)}"'
    if _MEMORY in parts:
        yield "memory", f"{-(-parts[_MEMORY] // cards // 2**20)}Mi"


def _count(count: int) -> str:
    return f", count: {count}" if count > 1 else ""
