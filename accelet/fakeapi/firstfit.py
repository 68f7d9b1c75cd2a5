"""Devices for claims by plain first fit: far less than kube-scheduler does, enough to show a driver at work.

Of ResourceSlices it knows devices, counters, shares with their amounts, and taints; of requests a type of
device, a count and amounts. It tries devices in the order of the slices and never turns back to try another.
"""

import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from accelet.kube.quantity import Quantity, parse_quantity

Json = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class FitRequest:
    """Some devices of one `type`, and of each these amounts, where it is shared."""

    name: str
    type: str
    count: int = 1
    amounts: Mapping[str, str] = field(default_factory=dict)


class FirstFit:
    """Remembers what was taken; `slices` are all of one pool."""

    def __init__(self, slices: Sequence[Json]) -> None:
        self._slices = slices
        self._counters: dict[tuple[str, str], Quantity] = {
            (one["name"], name): parse_quantity(str(counter["value"]))
            for spec in self._specs()
            for one in spec.get("sharedCounters", ())
            for name, counter in one["counters"].items()
        }
        self._left: dict[tuple[str, str], Quantity] = {}
        self._taken: set[str] = set()

    def allocate(self, request: FitRequest) -> list[dict[str, Any]] | None:
        """The results of an allocation; None where nothing fits any more."""
        before = dict(self._counters), dict(self._left), set(self._taken)
        found: list[dict[str, Any]] = []
        for spec, device in self._devices():
            if len(found) == request.count:
                break
            if device["attributes"]["type"]["string"] == request.type and self._fits(device, request):
                found.append(self._take(spec, device, request))
        if len(found) < request.count:
            self._counters, self._left, self._taken = before
            return None
        return found

    def _specs(self) -> Iterator[Json]:
        yield from (one["spec"] for one in self._slices)

    def _devices(self) -> Iterator[tuple[Json, Json]]:
        yield from ((spec, device) for spec in self._specs() for device in spec.get("devices", ()))

    def _fits(self, device: Json, request: FitRequest) -> bool:
        if device.get("taints"):
            return False
        name = device["name"]
        if name in self._taken:
            return bool(device.get("allowMultipleAllocations")) and all(
                self._left.get((name, amount), 0) >= wanted
                for amount, wanted in self._wanted(device, request).items()
            )
        return all(
            self._counters[used["counterSet"], counter] >= parse_quantity(str(value["value"]))
            for used in device.get("consumesCounters", ())
            for counter, value in used["counters"].items()
        )

    def _wanted(self, device: Json, request: FitRequest) -> Mapping[str, Quantity]:
        """What one holder takes of each capacity: what it asks for, or the default."""
        return {
            name: parse_quantity(request.amounts.get(name, str(capacity["requestPolicy"]["default"])))
            for name, capacity in device.get("capacity", {}).items()
            if "requestPolicy" in capacity
        }

    def _take(self, spec: Json, device: Json, request: FitRequest) -> dict[str, Any]:
        name = device["name"]
        if name not in self._taken:
            self._taken.add(name)
            for amount, capacity in device.get("capacity", {}).items():
                self._left[name, amount] = parse_quantity(str(capacity["value"]))
            for used in device.get("consumesCounters", ()):
                for counter, value in used["counters"].items():
                    self._counters[used["counterSet"], counter] -= parse_quantity(str(value["value"]))
        result = {
            "request": request.name,
            "driver": spec["driver"],
            "pool": spec["pool"]["name"],
            "device": name,
        }
        if not device.get("allowMultipleAllocations"):
            return result
        wanted = self._wanted(device, request)
        for amount, taken in wanted.items():
            self._left[name, amount] -= taken
        consumed = {amount: str(taken) for amount, taken in wanted.items()}
        return {**result, "shareID": str(uuid.uuid4()), "consumedCapacity": consumed}
