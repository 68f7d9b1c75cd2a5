"""What is known of the rest of a set: kept up with each change, at the same cost for any size."""

import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from types import FrameType
from typing import Any, get_args

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from accelet.kinds.slicerequest import Phase, SliceOwner, SliceRequestSpec, SliceRequestStatus, SliceSet
from accelet.kube.nodes import Node
from accelet.kube.objects import Condition
from accelet.provisioner.deciding.decide import decide
from accelet.provisioner.deciding.view import HELD, NO_REST, SliceRecord
from accelet.provisioner.demand.owners import JobOwner
from accelet.provisioner.demand.slices import PROVISION
from accelet.provisioner.pools.pool import NodePool, PoolList
from accelet.provisioner.record import SliceRequest, status_of
from accelet.provisioner.settings import LimitSettings, ProvisionerSettings
from accelet.provisioner.state import ProvisionerState
from tests.unit.provisioner.members import Member, sum_up

_LABEL, _NOW_S = "a-label", 1_000_000.0
_TIERS = ("spot", "on-demand")

_records = st.builds(
    SliceRecord,
    phase=st.sampled_from((*get_args(Phase), *HELD, *HELD, "Joined", "Joined")),
    since_s=st.sampled_from((_NOW_S - 5_000.0, _NOW_S - 700.0, _NOW_S - 10.0)),
    attempt=st.just(1),
    tried=st.integers(0, 2),
    tier=st.sampled_from(_TIERS),
    sent=st.booleans(),
    sent_s=st.sampled_from((0.0, _NOW_S - 500.0)),
    retry_s=st.sampled_from((0.0, _NOW_S + 100.0)),
    dry_tiers=st.sampled_from(((), (), ("spot",), ("on-demand",))),
    held_s=st.sampled_from((0.0, _NOW_S - 300.0)),
    progress_s=st.sampled_from((0.0, _NOW_S - 100.0)),
    idle_s=st.sampled_from((0.0, _NOW_S - 9_000.0)),
    is_lapsed=st.booleans(),
)

_OWNERS = ("", "", "wanted", "wanted", "wanted", "gone")

_rarely = st.sampled_from((False, False, False, False, True))
_mostly = _rarely.map(lambda drawn: not drawn)
_pools = st.sampled_from(("running", "running", "running", "running", "creating", "failed", None))


def _request(
    number: int, size: int, record: SliceRecord, *, owner: str = "", is_deleted: bool = False
) -> SliceRequest:
    named = replace(record, pool=f"pool-{number}" if record.phase not in ("Pending", "Refused") else "")
    status = msgspec.convert(status_of(named, "", SliceRequestStatus()), SliceRequestStatus)
    slice_set = SliceSet(name="a-set", size=size)
    spec = SliceRequestSpec(
        accelerator="tpu-v6e-slice",
        topology="2x2",
        chips_per_pod=4,
        slice_set=slice_set,
        tolerates_spot=True,
        owner=_slice_owner(owner, number) if owner else None,
    )
    uid = f"uid-{number}"
    return SliceRequest("ml", f"slice-{number}", uid, "1", (), is_deleted, False, spec, status)


def _slice_owner(name: str, number: int) -> SliceOwner:
    return SliceOwner(
        api_version="jobset.x-k8s.io/v1alpha2",
        kind="JobSet",
        name=name,
        uid=f"uid-of-{name}",
        replicated_job="workers",
        index=number,
        job=f"{name}-workers-{number}",
    )


def _owner(name: str) -> JobOwner:
    return JobOwner(
        "JobSet",
        "ml",
        name,
        f"uid-of-{name}",
        annotations={PROVISION: "true"},
        is_suspended=False,
        is_finished=False,
        is_deleted=False,
        templates=(),
    )


def _node(number: int, *, is_ready: bool) -> Node:
    return Node(
        name=f"node-{number}",
        labels={_LABEL: f"pool-{number}"},
        conditions=(Condition("Ready", str(is_ready)),),
        allocatable={"google.com/tpu": 4},
    )


_CHANGES = st.lists(
    st.tuples(
        st.integers(0, 4), st.none() | _records, st.sampled_from(_OWNERS), _rarely, _pools, _mostly, _rarely
    ),
    min_size=1,
    max_size=12,
)


@given(_CHANGES, st.integers(1, 5), st.booleans())
def test_the_rest_of_a_set_by_the_book_is_the_same_as_counted_anew_after_any_changes(
    changes: list[tuple[int, SliceRecord | None, str, bool, str | None, bool, bool]],
    size: int,
    releases: bool,
) -> None:
    """And so is the decision with it. One of five slices changes or goes at a time, its pool, or its Node."""
    settings = ProvisionerSettings(version="v1", tiers=_TIERS, release_unused_s=7200.0 if releases else None)
    state, pools, ready = ProvisionerState(settings, _LABEL), dict[int, NodePool](), dict[int, bool]()
    state.known_kinds.add("JobSet")
    state.bookings.is_known = True
    state.owners["JobSet", "ml", "wanted"] = _owner("wanted")
    for number, record, owner, is_deleted, pool, is_ready, ends in changes:
        known = state.requests.get(("ml", f"slice-{number}"))
        if record is not None:
            state.set_request(_request(number, size, record, owner=owner, is_deleted=is_deleted))
        elif known is not None:
            state.remove_request(known.key, known.uid)
        if pool is not None:
            pools[number] = NodePool(f"pool-{number}", f"uid-{number}", pool)  # type: ignore[arg-type]  # drawn
            state.set_node(_node(number, is_ready=is_ready))
            ready[number] = is_ready
        else:
            pools.pop(number, None)
        if ends:
            state.owners.pop(("JobSet", "ml", "wanted"), None)
        listed = PoolList(tuple(pools.values()), _NOW_S)
        for one in list(state.requests.values()):
            _check_rest(state, one, listed, ready)


def _check_rest(
    state: ProvisionerState, one: SliceRequest, listed: PoolList, ready: Mapping[int, bool]
) -> None:
    sound = {pool.name for pool in listed.pools if pool.state not in ("failed", "deleting")}
    every = sum_up(
        (
            Member(
                other.record,
                is_whole=ready.get(_number(other), False) and other.status.pool in sound,
                is_wanted=state.wish_for(other).unwanted is None,
                is_listed=other.status.pool in listed.names,
            )
            for other in state.requests.values()
            if other is not one
        ),
        _NOW_S,
        state.settings.hold_s,
    )
    seen = state.view(one, listed, _NOW_S)
    assert decide(seen) == decide(replace(seen, rest=every))
    if one.status.phase == "Joined":
        assert seen.rest == every
    elif seen.rest is not NO_REST or every.known == 0:
        assert replace(seen.rest, is_whole=True) == replace(every, is_whole=True)


def _number(one: SliceRequest) -> int:
    return int(one.name.rpartition("-")[2])


@given(st.lists(_records, min_size=2, max_size=6))
def test_the_last_slice_that_is_whole_has_all_others_looked_at(records: list[SliceRecord]) -> None:
    state = ProvisionerState(ProvisionerSettings(version="v1"), _LABEL)
    requests = [
        _request(number, len(records), replace(record, phase="Joined", dry_tiers=()))
        for number, record in enumerate(records)
    ]
    *others, last = requests
    before = _request(len(others), len(records), replace(last.record, phase="Joining"))
    for one in (*others, before):
        state.set_request(one)
    assert before.status.phase not in HELD
    state.set_request(replace(last, resource_version="2"))
    assert set(state.touched_in_set(before, last)) == {one.key for one in others}
    assert state.touched_in_set(last, last) == []
    assert set(state.touched_in_set(last, None)) == {one.key for one in others}


def test_a_slice_that_comes_has_the_others_looked_at_where_it_is_the_last_of_its_set() -> None:
    """Each of a thousand that come would have all that are there written anew otherwise."""
    state = ProvisionerState(ProvisionerSettings(version="v1"), _LABEL)
    told = []
    for number in range(4):
        new = _request(number, 4, SliceRecord())
        state.set_request(new)
        told.append(state.touched_in_set(None, new))
    assert told == [[], [], [], [("ml", f"slice-{number}") for number in range(3)]]


def test_slices_that_are_given_back_have_none_of_their_set_looked_at() -> None:
    state, _ = _set_of(4, "Releasing", ProvisionerSettings(version="v1"))
    gone = state.requests["ml", "slice-3"]
    state.remove_request(gone.key, gone.uid)
    released = state.requests["ml", "slice-0"]
    assert state.touched_in_set(gone, None) == []
    assert state.touched_in_set(replace(released, is_deleted=True), released) == []


def _work_of(call: Callable[..., object], *arguments: object) -> int:
    """How many instructions of Python a call takes: the same on every machine."""
    done = 0

    def count(frame: FrameType, event: str, _: object) -> Callable[..., Any]:
        nonlocal done
        frame.f_trace_opcodes = True
        done += event == "opcode"
        return count

    before = sys.gettrace()
    sys.settrace(count)
    try:
        call(*arguments)
    finally:
        sys.settrace(before)
    return done


def _set_of(size: int, phase: Phase, settings: ProvisionerSettings) -> tuple[ProvisionerState, PoolList]:
    """A set of one JobSet, all in one phase but the last, which is still joining."""
    state = ProvisionerState(settings, _LABEL)
    state.known_kinds.add("JobSet")
    state.bookings.is_known = True
    state.owners["JobSet", "ml", "wanted"] = _owner("wanted")
    for number in range(size):
        phase_of_it = phase if number < size - 1 else "Joining"
        record = SliceRecord(phase_of_it, since_s=_NOW_S, tier="spot", attempt=1)
        state.set_request(_request(number, size, record, owner="wanted"))
        state.set_node(_node(number, is_ready=True))
    pools = tuple(NodePool(f"pool-{number}", f"uid-{number}", "running") for number in range(size))
    return state, PoolList(pools, _NOW_S)


def _changed(one: SliceRequest, **changes: object) -> SliceRequest:
    return replace(one, resource_version="2", status=msgspec.structs.replace(one.status, **changes))


def _look(state: ProvisionerState, listed: PoolList, some: Iterable[SliceRequest]) -> None:
    for one in some:
        decide(state.view(one, listed, _NOW_S))


def _works_of(size: int, phase: Phase, settings: ProvisionerSettings) -> list[int]:
    """The work of a look at one slice of a set, of a change of it and its Node, and of a look after that."""
    state, listed = _set_of(size, phase, settings)
    one = state.requests["ml", "slice-1"]
    _look(state, listed, [one])
    changed = _changed(one, why="another reason")
    return [
        _work_of(_look, state, listed, [one]),
        _work_of(state.set_request, changed),
        _work_of(state.touched_in_set, one, changed),
        _work_of(state.set_node, _node(1, is_ready=True)),
        _work_of(state.with_pool, "pool-1"),
        _work_of(_look, state, listed, [changed]),
    ]


@pytest.mark.parametrize("limits", [LimitSettings(), LimitSettings(slices=500, chips=2000)])
@pytest.mark.parametrize("phase", ["Pending", "Creating", "Joining", "Joined", "Failing", "Ready"])
def test_a_look_at_one_slice_and_a_change_of_it_take_the_same_work_in_a_large_set(
    phase: Phase, limits: LimitSettings
) -> None:
    settings = ProvisionerSettings(version="v1", tiers=_TIERS, release_unused_s=7200.0, limits=limits)
    few, many = _works_of(10, phase, settings), _works_of(300, phase, settings)
    assert all(more <= less + 50 for less, more in zip(few, many, strict=True)), (few, many)


def _work_of_the_last(size: int) -> int:
    """The work of all looks at a set of which the last slice has its machines by now."""
    state, listed = _set_of(size, "Joined", ProvisionerSettings(version="v1", tiers=_TIERS))
    last = state.requests["ml", f"slice-{size - 1}"]
    joined = _changed(last, phase="Joined")
    state.set_request(joined)
    assert len(state.touched_in_set(last, joined)) == size - 1
    every = list(state.requests.values())
    done = _work_of(_look, state, listed, every)
    assert all(state.view(one, listed, _NOW_S).rest.is_whole for one in every)
    return done


def test_looks_at_all_slices_of_a_set_that_is_whole_now_take_work_in_proportion_to_its_size() -> None:
    """The first of them looks at the machines of all, and the others at none."""
    assert _work_of_the_last(200) <= 11 * _work_of_the_last(20)
