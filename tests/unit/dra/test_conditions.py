"""What the status of a claim says of devices that fell ill while it held them."""

import json
from collections.abc import Collection, Mapping
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from accelet.accelerators.device import UnitId
from accelet.dra.preparing.claim import parse_claim
from accelet.dra.preparing.conditions import LONGEST_MESSAGE, find_conditions, render_conditions
from accelet.dra.preparing.entry import Entry
from accelet.dra.preparing.hold import DeviceHold

GPU = "gpu.accelet.dev"
UNITS = [UnitId(f"0000-0{bus}-00.0") for bus in (3, 4)]
CARDS = {unit: f"gpu-{unit.replace('.', '-')}" for unit in UNITS}
THEN, NOW = "2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z"


def claim(devices: Any = None, *, uid: str = "u", cards: Collection[str] = tuple(CARDS.values())) -> bytes:
    results = [{"request": "gpu", "driver": GPU, "pool": "n", "device": card} for card in cards]
    status = {"allocation": {"devices": {"results": results}}, "devices": devices}
    return json.dumps({"metadata": {"name": "c", "namespace": "ml", "uid": uid}, "status": status}).encode()


def entry() -> Entry:
    read = parse_claim(claim(), GPU)
    holds = tuple(
        DeviceHold("gpu", "n", card, frozenset({(unit, tile) for tile in (0, 1)}))
        for unit, card in CARDS.items()
    )
    return Entry("u", read.digest, "ml", "c", "completed", holds, (), "")


def applied(raw: bytes, sick: Mapping[UnitId, str], now: str) -> list[dict[str, Any]] | None:
    """The devices of the claim's status as they are to be; None where nothing is to be written."""
    parts = {(unit, tile): reason for unit, reason in sick.items() for tile in range(2)}
    conditions = find_conditions(raw, GPU, entry(), parts, now)
    if conditions is None:
        return None
    body: Any = json.loads(json.dumps(render_conditions(entry(), GPU, conditions)))
    assert body["metadata"] == {"name": "c", "namespace": "ml", "uid": "u"}
    devices: list[dict[str, Any]] = body["status"]["devices"]
    return devices


_ill = st.dictionaries(st.sampled_from(UNITS), st.sampled_from(["too hot", "no memory"]))


@given(st.lists(_ill, min_size=1, max_size=5))
def test_status_says_what_is_ill_and_what_was_and_is_written_only_when_it_changes(
    looks: list[dict[UnitId, str]],
) -> None:
    said: list[dict[str, Any]] = []
    ever: set[UnitId] = set()
    for sick in looks:
        devices = applied(claim(said), sick, NOW)
        said = said if devices is None else devices
        ever |= sick.keys()
        assert applied(claim(said), sick, "2026-01-03T00:00:00Z") is None
        told = {one["device"]: one["conditions"][0] for one in said}
        assert set(told) == {CARDS[unit] for unit in ever}
        for unit in ever:
            ready = told[CARDS[unit]]
            assert ready["status"] == ("False" if unit in sick else "True")
            assert ready["reason"] == ("DeviceUnhealthy" if unit in sick else "DeviceHealthy")
            assert sick.get(unit, "") in ready["message"]


def test_a_new_reason_keeps_the_time_of_the_change() -> None:
    first = applied(claim(), {UNITS[0]: "too hot"}, THEN)
    assert first is not None
    second = applied(claim(first), {UNITS[0]: "no memory"}, NOW)
    assert second is not None
    third = applied(claim(second), {}, NOW)
    assert third is not None
    times = [one[0]["conditions"][0]["lastTransitionTime"] for one in (first, second, third)]
    assert times == [THEN, THEN, NOW]


def test_claims_that_are_others_by_now_are_told_nothing() -> None:
    sick = {UNITS[0]: "too hot"}
    assert applied(claim(uid="another"), sick, NOW) is None
    assert applied(claim(cards=[CARDS[UNITS[0]]]), sick, NOW) is None
    assert applied(b'{"metadata": {"name": "c"}}', sick, NOW) is None
    assert applied(b"[", sick, NOW) is None


@given(st.recursive(st.none() | st.integers() | st.text(max_size=5), st.lists), st.text(max_size=2000))
def test_whatever_stands_in_the_status_is_replaced(devices: object, reason: str) -> None:
    said = applied(claim(devices), {UNITS[0]: reason}, NOW)
    assert said is not None
    assert [one["device"] for one in said] == [CARDS[UNITS[0]]]
    assert len(said[0]["conditions"][0]["message"]) <= LONGEST_MESSAGE
