"""The device manager's bookkeeping, on its own."""

from collections.abc import Iterable
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from accelet.fakekubelet.behaviour import VERSIONS, kubelet_version
from accelet.fakekubelet.devices.devicemanager import (
    STOP_GRACE_S,
    AllocationError,
    DeviceManager,
    Endpoint,
    PluginDevice,
    PluginOptions,
    PreferenceQuestion,
)
from accelet.fakekubelet.pods import Container, Pod, a_container, a_pod

R = "example.com/thing"


def manager(
    *devices: PluginDevice, prefers: bool = False, version: str = "1.36", seed: int = 0
) -> DeviceManager:
    made = DeviceManager(
        version=kubelet_version(version),
        rng=Random(seed),
        is_active=lambda _pod: True,
        was_running=lambda _pod, _container: False,
        sources_ready=True,
    )
    made.connect(R, Endpoint(1, PluginOptions(prefers=prefers)))
    made.update(R, devices)
    return made


def choose(
    made: DeviceManager,
    pod: Pod,
    container: Container,
    count: int,
    reusable: Iterable[str] = (),
    *,
    wish: Iterable[str] = (),
) -> tuple[tuple[str, ...], list[PreferenceQuestion]]:
    choice = made.choose(pod, container, R, count, reusable)
    asked = []
    try:
        question = next(choice)
        while True:
            asked.append(question)
            question = choice.send(wish)
    except StopIteration as done:
        ids: tuple[str, ...] = done.value
        return ids, asked


ids = st.sets(st.text("abcdef", min_size=1, max_size=2), max_size=8)
nodes = st.none() | st.lists(st.integers(0, 2), max_size=2, unique=True).map(tuple)


@st.composite
def situations(draw: st.DrawFn) -> tuple[DeviceManager, Pod, Container, int, set[str], set[str]]:
    """A node with some devices taken, a container that wants some, what it may use again, a wish."""
    listed = draw(ids)
    devices = [
        PluginDevice(name, draw(st.sampled_from(["Healthy", "Unhealthy", "odd"])), draw(nodes))
        for name in sorted(listed)
    ]
    made = manager(*devices, prefers=draw(st.booleans()), seed=draw(st.integers(0, 9)))
    made.allocated[R] = {name for name in sorted(listed) if draw(st.booleans())}
    reusable = {name for name in sorted(made.allocated[R]) if draw(st.booleans())}
    mask = draw(st.none() | st.frozensets(st.integers(0, 2)))
    container = a_container("main", {R: 1}, numa_affinity=mask)
    return made, a_pod(containers=[container]), container, draw(st.integers(0, 6)), reusable, draw(ids)


@given(situations())
def test_a_choice_is_of_free_healthy_or_reusable_devices_and_of_the_right_size(
    situation: tuple[DeviceManager, Pod, Container, int, set[str], set[str]],
) -> None:
    made, pod, container, count, reusable, wish = situation
    before = set(made.allocated[R])
    free = made.healthy[R] - before
    try:
        chosen, asked = choose(made, pod, container, count, reusable, wish=wish)
    except AllocationError:
        assert len(free) + len(reusable) < count or not made.healthy[R]
        assert not made.in_flight.get(R)
        return
    assert len(set(chosen)) == len(chosen) == count
    assert set(chosen) <= free | reusable
    assert made.allocated[R] == before | set(chosen)
    # Reusable ones come first, and the plugin is asked only for what is missing then.
    assert len(set(chosen) & reusable) >= min(count, len(reusable))
    if count <= len(reusable):
        assert asked == []
    for question in asked:
        assert set(question.must_include) <= set(question.available) <= free | reusable
        assert question.size == count


@given(situations())
def test_devices_of_the_mask_come_before_all_others(
    situation: tuple[DeviceManager, Pod, Container, int, set[str], set[str]],
) -> None:
    made, pod, container, count, _, wish = situation
    free = made.healthy[R] - made.allocated[R]
    mask = container.numa_affinity
    near = {name for name in free if mask and mask & set(made.devices[R][name].numa_nodes or ())}
    try:
        chosen, _asked = choose(made, pod, container, count, wish=wish)
    except AllocationError:
        return
    assert len(set(chosen) & near) == min(count, len(near)) or not near


@given(situations())
def test_the_same_seed_chooses_the_same(
    situation: tuple[DeviceManager, Pod, Container, int, set[str], set[str]],
) -> None:
    made, pod, container, count, reusable, wish = situation
    again = manager(*made.devices[R].values(), prefers=made.endpoints[R].options.prefers)
    again.allocated[R] = set(made.allocated[R])
    outcomes = []
    for each in (made, again):
        each.rng = Random(42)
        try:
            outcomes.append(choose(each, pod, container, count, reusable, wish=wish))
        except AllocationError as error:
            outcomes.append(str(error))  # type: ignore[arg-type] # compared only
    assert outcomes[0] == outcomes[1]


@given(situations())
def test_a_fulfilled_wish_is_kept(
    situation: tuple[DeviceManager, Pod, Container, int, set[str], set[str]],
) -> None:
    made, pod, container, count, _, _ = situation
    free = sorted(made.healthy[R] - made.allocated[R])
    wish = free[:count]
    if container.numa_affinity is not None:
        return
    try:
        chosen, asked = choose(made, pod, container, count, wish=wish)
    except AllocationError:
        return
    if asked:
        assert set(chosen) == set(wish)


def test_a_changed_request_is_refused() -> None:
    made = manager(PluginDevice("a"), PluginDevice("b"))
    container = a_container("main", {R: 1})
    pod = a_pod(containers=[container])
    (chosen, _) = choose(made, pod, container, 1)
    made.give(pod, container, R, chosen, b"")
    assert choose(made, pod, container, 1) == ((), [])
    with pytest.raises(AllocationError, match=r"changed request for resource .* from 1 to 2"):
        choose(made, pod, container, 2)


@given(st.floats(0, 2 * STOP_GRACE_S))
def test_capacity_stays_for_the_grace_period_and_not_longer(later: float) -> None:
    made = manager(PluginDevice("a"), PluginDevice("b", "Unhealthy"))
    assert made.capacity(0) == {R: (2, 1)}
    made.disconnect(R, 0)
    expected = {R: (2, 0)} if later <= STOP_GRACE_S else {}
    assert made.capacity(later) == expected
    assert made.forget_gone(later) == ([] if expected else [R])
    assert made.is_known(R) is bool(expected)


def test_versions_are_named_by_minor_or_in_full() -> None:
    assert kubelet_version("v1.36.2") is kubelet_version("1.36") is VERSIONS["1.36"]
    with pytest.raises(ValueError, match=r"unknown kubelet version '1\.26'; known are 1\.27 to 1\.38"):
        kubelet_version("1.26")
