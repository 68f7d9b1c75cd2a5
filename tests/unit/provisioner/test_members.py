"""What is looked up of the rest of a set is all that decisions look at."""

from dataclasses import replace
from typing import get_args

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from accelet.kinds.slicerequest import Phase, SliceRequestSpec, SliceRequestStatus, SliceSet
from accelet.kube.nodes import Node
from accelet.kube.objects import Condition
from accelet.provisioner.deciding.decide import decide
from accelet.provisioner.deciding.view import HELD, Member, SliceRecord
from accelet.provisioner.pools.pool import NodePool, PoolList
from accelet.provisioner.record import SliceRequest, status_of
from accelet.provisioner.settings import ProvisionerSettings
from accelet.provisioner.state import ProvisionerState

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

_rarely = st.sampled_from((False, False, False, False, True))
_mostly = _rarely.map(lambda drawn: not drawn)
_pools = st.sampled_from(("running", "running", "running", "running", "creating", "failed", None))


def _request(number: int, size: int, record: SliceRecord, *, is_deleted: bool) -> SliceRequest:
    named = replace(record, pool=f"pool-{number}" if record.phase not in ("Pending", "Refused") else "")
    status = msgspec.convert(status_of(named, "", SliceRequestStatus()), SliceRequestStatus)
    slice_set = SliceSet(name="a-set", size=size)
    spec = SliceRequestSpec(
        accelerator="tpu-v6e-slice", topology="2x2", chips_per_pod=4, slice_set=slice_set, tolerates_spot=True
    )
    uid = f"uid-{number}"
    return SliceRequest("ml", f"slice-{number}", uid, "1", (), is_deleted, False, spec, status)


def _node(number: int, *, is_ready: bool) -> Node:
    return Node(
        name=f"node-{number}",
        labels={_LABEL: f"pool-{number}"},
        conditions=(Condition("Ready", str(is_ready)),),
        allocatable={"google.com/tpu": 4},
    )


@given(
    st.lists(
        st.tuples(_records, _rarely, _pools, _mostly),
        min_size=2,
        max_size=5,
    ),
    st.integers(-1, 1),
    st.booleans(),
)
def test_a_decision_is_the_same_as_with_all_that_could_be_known_of_the_set(
    members: list[tuple[SliceRecord, bool, str | None, bool]],
    missing: int,
    releases: bool,
) -> None:
    settings = ProvisionerSettings(version="v1", tiers=_TIERS, release_unused_s=7200.0 if releases else None)
    state, pools = ProvisionerState(settings, _LABEL), []
    for number, (record, is_deleted, pool, is_ready) in enumerate(members):
        size = max(1, len(members) + missing)
        state.set_request(_request(number, size, record, is_deleted=is_deleted))
        if pool is not None:
            pools.append(NodePool(f"pool-{number}", f"uid-{number}", pool))  # type: ignore[arg-type]  # drawn
            state.set_node(_node(number, is_ready=is_ready))
    listed = PoolList(tuple(pools), _NOW_S)
    for one in list(state.requests.values()):
        seen = state.view(one, listed, _NOW_S)
        whole = tuple(
            Member(
                other.record,
                is_whole=state.view(other, listed, _NOW_S).is_whole and _is_sound(other, pools),
                is_wanted=state.wish_for(other).unwanted is None,
                is_listed=any(pool.name == other.status.pool for pool in pools),
            )
            for other in state.requests.values()
            if other is not one
        )
        assert decide(seen) == decide(replace(seen, members=whole))


def _is_sound(one: SliceRequest, pools: list[NodePool]) -> bool:
    return any(pool.name == one.status.pool and pool.state not in ("failed", "deleting") for pool in pools)


@given(st.lists(_records, min_size=2, max_size=6))
def test_the_last_slice_that_is_whole_has_all_others_looked_at(records: list[SliceRecord]) -> None:
    state = ProvisionerState(ProvisionerSettings(version="v1"), _LABEL)
    requests = [
        _request(number, len(records), replace(record, phase="Joined", dry_tiers=()), is_deleted=False)
        for number, record in enumerate(records)
    ]
    *others, last = requests
    before = _request(len(others), len(records), replace(last.record, phase="Joining"), is_deleted=False)
    for one in (*others, before):
        state.set_request(one)
    assert before.status.phase not in HELD
    state.set_request(replace(last, resource_version="2"))
    assert set(state.touched_in_set(before, last)) == {one.key for one in others}
    assert state.touched_in_set(last, last) == []
    assert set(state.touched_in_set(last, None)) == {one.key for one in others}
