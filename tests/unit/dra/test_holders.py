"""Which devices of the kubelet's checkpoint are still held."""

from collections.abc import Mapping, Sequence

from hypothesis import given
from hypothesis import strategies as st

from accelet.dra.publishing.holders import UNSHOWN_S, HolderLooks, look
from accelet.kubelet.checkpoint import CheckpointEntry
from accelet.kubelet.podresources import ContainerRecord, PodRecord

CARD = "gpu.intel.com/i915"
UIDS = ("a", "b", "c")


def entry(uid: str) -> CheckpointEntry:
    return CheckpointEntry(uid, "main", CARD, frozenset({f"unit-{uid}-s0"}))


def shown(*uids: str) -> tuple[PodRecord, ...]:
    records = (ContainerRecord("main", {CARD: entry(uid).device_ids}) for uid in uids)
    return tuple(PodRecord("ml", f"pod-{number}", (one,)) for number, one in enumerate(records))


def held(looks: HolderLooks, uids: Sequence[str] = UIDS) -> set[str]:
    return {one.pod_uid for one in looks.holding([entry(uid) for uid in uids])}


_LOOKS = st.lists(st.tuples(st.floats(0.5, 70), st.sets(st.sampled_from(UIDS))), min_size=1, max_size=12)


@given(_LOOKS)
def test_a_pod_has_ended_once_it_was_not_shown_for_a_minute_at_a_stretch(
    steps: list[tuple[float, set[str]]],
) -> None:
    looks, now = HolderLooks(), 0.0
    since: dict[str, float] = {}
    ended: set[str] = set()
    for wait_s, alive in steps:
        now += wait_s
        looks = look(looks, [entry(uid) for uid in UIDS], shown(*alive), now)
        since = {uid: since.get(uid, now) for uid in UIDS if uid not in alive}
        ended |= {uid for uid, first in since.items() if now - first >= UNSHOWN_S}
        assert held(looks) == set(UIDS) - ended


def test_who_ended_stays_ended_though_another_pod_is_shown_with_the_same_devices() -> None:
    stale = [entry("a")]
    looks = look(HolderLooks(), stale, (), 0.0)
    looks = look(looks, stale, (), UNSHOWN_S)
    successor = CheckpointEntry("b", "main", CARD, entry("a").device_ids)
    looks = look(looks, [*stale, successor], shown("a"), UNSHOWN_S + 1)
    assert {one.pod_uid for one in looks.holding([*stale, successor])} == {"b"}


def test_devices_of_another_resource_with_the_same_names_show_nothing() -> None:
    devices: Mapping[str, frozenset[str]] = {"gpu.intel.com/xe": entry("a").device_ids}
    other = (PodRecord("ml", "pod", (ContainerRecord("main", devices),)),)
    looks = look(HolderLooks(), [entry("a")], other, 0.0)
    assert held(look(looks, [entry("a")], other, UNSHOWN_S), ["a"]) == set()


def test_pods_that_the_checkpoint_knows_no_more_are_forgotten() -> None:
    looks = look(HolderLooks(), [entry("a")], (), 0.0)
    looks = look(look(looks, [entry("a")], (), UNSHOWN_S), [], (), UNSHOWN_S + 1)
    assert looks == HolderLooks()
