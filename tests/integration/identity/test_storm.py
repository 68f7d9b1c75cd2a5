"""Thousands of random admissions over real sockets: no container ever gets what another was assigned."""

from pathlib import Path

import pytest

from tests.integration.identity.storm import blow, is_soak

CONTAINERS = 10_000 if is_soak() else 240
"""For each version: in full in `make soak`, some hundreds in `make test`."""
EPOCHS = 20 if is_soak() else 3
"""Lives of the agent; in each the kubelet restarts once, and the watch lags by another time."""

LATE_S = 0.2
"""A standstill so long is noticed."""

pytestmark = pytest.mark.timeout(7200 if is_soak() else 300)


@pytest.mark.parametrize("version", [pytest.param("1.36", marks=pytest.mark.thorough), "1.38"])
async def test_every_container_is_matched_and_none_wrongly(folder: Path, version: str) -> None:
    storm = await blow(folder, version, CONTAINERS, EPOCHS)
    assert storm.wrong == []
    is_busy = storm.most_late_s > LATE_S
    assert storm.counts["right"] > (0.3 if is_busy else 0.5) * CONTAINERS
    # A pod deleted by force while the kubelet may be admitting it costs its successor, once.
    deleted = storm.counts["pods deleted by force and made anew"]
    assert storm.counts["pods refused for a former one's sake"] <= deleted, storm.counts
    # One that was deleted by force before a kubelet's first call, and that nobody could be asked for, costs
    # those that ask for as much as it; how many come meanwhile, chance decides.
    assert storm.counts["pods refused beside one that is gone"] <= 0.25 * CONTAINERS, storm.counts
    # A machine that stood still may have cost the agent the time it has to answer, which is a refusal; so may
    # a kubelet that restarts in the middle of a call.
    pardoned = (0.25 if is_busy else 0.01) * CONTAINERS
    assert storm.counts["pods unproven"] + storm.counts["pods mismatch"] <= pardoned, storm.counts
    assert storm.counts["accelet_answers_settled_total corrected"] == 0


async def test_before_134_none_is_matched_wrongly(folder: Path) -> None:
    # A kubelet of then shows pods that are gone as long as an admission lasts; that costs half a second each.
    containers = CONTAINERS if is_soak() else 60
    storm = await blow(folder, "1.33", containers, EPOCHS)
    assert storm.wrong == []
    assert storm.counts["accelet_answers_settled_total corrected"] == 0
    # What is not proven is refused, and the busier the machine, the less is; there must be some to judge.
    assert storm.counts["right"] > 0.2 * containers
