"""Tiles are one container's alone: against others' tiles, and against who would have or has a card whole."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from accelet.accelerators.device import DeviceId, UnitId
from accelet.assignments.assignment import Pieces, unit
from accelet.kube.pods import Container, Pod
from accelet.kube.poduid import kubelet_uid
from resourcemanager.allocation import Allocation, Refusal
from resourcemanager.giving.policies import OnConflict, Policies
from resourcemanager.manager import ResourceManager
from resourcemanager.matching.inquiry import Doubt, NoProof
from tests.fakes import pods as fakes
from tests.unit.resourcemanager.test_following import (
    SHARES,
    TILE_COUNTS,
    UNITS,
    R,
    allocate,
    make_manager,
    pod_of,
)

STRICT = Policies(on_conflict="refuse")
CARD = UNITS[2]
"""Of four tiles."""


def bare_pod(name: str) -> Pod:
    """A pod to which nothing is assigned."""
    return fakes.pod(name, Container("main", limits={R: 1}))


def share(number: int, of: UnitId = CARD) -> tuple[DeviceId, ...]:
    return (DeviceId(f"{of}-s{number}"),)


def test_card_with_tile_holders_is_refused_to_who_has_no_assignment() -> None:
    manager, holder, bare = make_manager(STRICT), pod_of((unit(CARD, 1),), "holder"), bare_pod("bare")
    assert isinstance(allocate(manager, share(0), holder, bare), Allocation)
    refused = allocate(manager, share(1), bare, holder)
    assert isinstance(refused, Refusal)
    assert refused.code == "conflict"
    assert f"it would have {CARD} whole, of which tile 1 is assigned to pod ml/holder" in refused.sentence
    assert isinstance(allocate(manager, share(1, UNITS[0]), bare, holder), Allocation)


def test_tiles_that_are_assigned_and_not_yet_given_count_as_well() -> None:
    waiting, bare = pod_of((unit(CARD, 1),), "waiting"), bare_pod("bare")
    assert isinstance(allocate(make_manager(STRICT), share(1), bare, waiting), Refusal)


@pytest.mark.parametrize("is_assigned", [False, True])
def test_tile_of_a_card_that_another_has_whole_is_refused(is_assigned: bool) -> None:
    manager = make_manager(STRICT)
    whole = pod_of((unit(CARD),), "whole") if is_assigned else bare_pod("whole")
    tile = pod_of((unit(CARD, 2),), "tile")
    assert isinstance(allocate(manager, share(0), whole), Allocation)
    refused = allocate(manager, share(1), tile, whole)
    assert isinstance(refused, Refusal)
    assert f"tile 2 of {CARD} is assigned to it, and pod ml/whole (container main) has the whole" in str(
        refused.sentence
    )


def test_who_shares_a_card_whole_is_in_nobodys_way() -> None:
    manager = make_manager(STRICT)
    pods = [pod_of((unit(CARD),), "a"), bare_pod("b"), pod_of((unit(CARD),), "c")]
    for number, pod in enumerate(pods):
        assert isinstance(allocate(manager, share(number), pod, *pods), Allocation)


def test_what_is_reported_is_given() -> None:
    manager, holder = make_manager(Policies()), pod_of((unit(CARD, 1),), "holder")
    given_whole = allocate(manager, share(1), bare_pod("bare"), holder)
    assert isinstance(given_whole, Allocation)
    assert [notice.kind for notice in given_whole.notices] == ["conflict"]


def test_nobody_is_in_the_way_of_its_own_pod() -> None:
    text = pod_of((unit(CARD, 1),), "two")
    init = Container("early", limits={R: 1})
    pod = fakes.pod("two", *text.containers, init=(init,), annotations=text.annotations)
    assert isinstance(allocate(make_manager(STRICT), share(0), pod), Allocation)


@pytest.mark.parametrize("on_conflict", ["report", "refuse"])
def test_what_is_given_in_doubt_is_no_card_with_tile_holders(on_conflict: OnConflict) -> None:
    holder = pod_of((unit(CARD, 1),), "holder")
    policies = Policies(on_unproven="default", on_mismatch="lenient", on_conflict=on_conflict)
    manager = make_manager(policies)
    unknown = NoProof(Doubt.SEVERAL, "Two pods wait.")
    answer = manager.allocate_for(share(0), unknown, {kubelet_uid(holder): holder}, "token")
    elsewhere = pod_of((unit(UNITS[0]),), "elsewhere")
    for found, kind in ((answer, "unproven"), (allocate(manager, share(1), elsewhere, holder), "mismatch")):
        if on_conflict == "refuse":
            assert isinstance(found, Refusal)
            assert found.code == "conflict"
        else:
            assert isinstance(found, Allocation)
            assert [notice.kind for notice in found.notices] == [kind, "conflict"]


def test_tile_that_is_a_device_is_the_kubelets_to_give_once() -> None:
    manager = make_manager(STRICT, unit_kind="tile")
    ids = [device.id for device in manager.inventory.by_unit[CARD]]
    assert isinstance(allocate(manager, (ids[0],), bare_pod("bare")), Allocation)
    other = manager.inventory.by_id[ids[-1]]
    tile = pod_of((unit(CARD, other.tile or 0),), "tile")
    assert isinstance(allocate(manager, (other.id,), tile, bare_pod("bare")), Allocation)


WISHES = st.one_of(
    st.none(),
    st.integers(0, len(UNITS) - 1).flatmap(
        lambda at: st.tuples(st.just(at), st.frozensets(st.integers(0, TILE_COUNTS[at] - 1)))
    ),
)


@given(st.lists(st.tuples(WISHES, st.sampled_from(UNITS)), min_size=1, max_size=8))
def test_no_tile_is_ever_seen_by_two_of_whom_one_has_it_alone(
    arrivals: list[tuple[tuple[int, frozenset[int]] | None, UnitId]],
) -> None:
    manager = make_manager(STRICT)
    pods: list[Pod] = []
    used: dict[UnitId, int] = {}
    views: list[tuple[UnitId, frozenset[int]]] = []
    for number, (wish, chosen) in enumerate(arrivals):
        at = chosen if wish is None else UNITS[wish[0]]
        tiles: frozenset[int] = frozenset() if wish is None else wish[1]
        written: Pieces = () if wish is None else (unit(at, *tiles),)
        pod = pod_of(written, f"p{number}") if written else bare_pod(f"p{number}")
        if used.get(at, 0) == SHARES:
            continue
        pods.append(pod)
        if isinstance(_allocate_next(manager, at, used, pod, pods), Allocation):
            views.append((at, tiles))
    for index, (at, tiles) in enumerate(views):
        for other, theirs in views[:index]:
            if at == other and (tiles or theirs):
                assert tiles
                assert theirs
                assert not tiles & theirs


def _allocate_next(
    manager: ResourceManager, at: UnitId, used: dict[UnitId, int], pod: Pod, pods: list[Pod]
) -> Allocation | Refusal:
    number = used.get(at, 0)
    answer = allocate(manager, share(number, at), pod, *pods)
    if isinstance(answer, Allocation):
        used[at] = number + 1
    return answer
