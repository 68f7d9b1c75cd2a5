"""The claims a fake kubelet knows: who uses them, and what is written down."""

from pathlib import Path
from tempfile import TemporaryDirectory

from hypothesis import given
from hypothesis import strategies as st

from accelet.fakekubelet.claims.cache import ClaimCache, ClaimError, ClaimInfo, FoundClaim, PreparedDevice
from accelet.fakekubelet.claims.health import MOST_DEVICES, DeviceHealth, HealthCache
from accelet.fakekubelet.claims.statefile import read_state, write_state
from accelet.fakekubelet.pods import a_pod

NAMES = st.sampled_from(["a", "b", "c"])
WORDS = st.text(max_size=8)
DEVICES = st.builds(
    PreparedDevice,
    WORDS,
    WORDS,
    st.lists(WORDS, max_size=2).map(tuple),
    st.lists(WORDS, max_size=2).map(tuple),
    st.none() | WORDS,
)
INFOS = st.builds(
    ClaimInfo,
    WORDS,
    WORDS,
    WORDS,
    st.dictionaries(WORDS, st.lists(DEVICES, max_size=2).map(tuple), max_size=2),
    st.sets(WORDS, max_size=3),
)


@given(st.lists(INFOS, max_size=3))
def test_what_is_written_down_is_read_again(infos: list[ClaimInfo]) -> None:
    with TemporaryDirectory() as folder:
        write_state(Path(folder) / "dra_manager_state", infos)
        assert read_state(Path(folder) / "dra_manager_state") == infos
        assert [path.name for path in Path(folder).iterdir()] == ["dra_manager_state"]


@given(st.lists(st.tuples(st.booleans(), NAMES, NAMES), max_size=30))
def test_from_1_37_a_claim_is_unprepared_for_its_last_pod_alone(steps: list[tuple[bool, str, str]]) -> None:
    """Joins and leaves of pods in any order, compared with plain sets."""
    cache, users = ClaimCache(), dict[str, set[str]]()
    for joins, claim, pod in steps:
        if joins:
            cache.join(FoundClaim("default", claim, claim, ("d",)), a_pod(pod, uid=pod), guarding=True)
            users.setdefault(claim, set()).add(pod)
            continue
        last = cache.leave([("default", claim)], pod, guarding=True)
        assert [info.name for info in last] == ([claim] if users.get(claim) == {pod} else [])
        users.get(claim, set()).discard(pod)
        for info in last:
            del cache.infos[info.key], users[claim]
    assert {info.name: info.pods for info in cache.infos.values()} == {k: v for k, v in users.items() if v}


def test_up_to_1_36_a_claim_is_unprepared_for_a_pod_that_never_used_it() -> None:
    for guarding in (False, True):
        cache = ClaimCache()
        cache.join(FoundClaim("default", "a", "a", ("d",)), a_pod("user", uid="user"), guarding=guarding)
        assert bool(cache.leave([("default", "a")], "stranger", guarding=guarding)) != guarding


@given(st.booleans())
def test_only_the_same_claim_is_joined(is_same: bool) -> None:
    cache = ClaimCache()
    cache.join(FoundClaim("default", "a", "old", ("d",)), a_pod("one"), guarding=True)
    try:
        uid = "old" if is_same else "new"
        info = cache.join(FoundClaim("default", "a", uid, ("d",)), a_pod("two"), guarding=True)
    except ClaimError:
        assert not is_same
    else:
        assert is_same
        assert len(info.pods) == 2


@given(st.lists(st.tuples(NAMES, st.sampled_from(["Healthy", "Unhealthy"]), st.integers(0, 60)), max_size=10))
def test_of_a_devices_health_the_last_word_holds_for_its_time(said: list[tuple[str, str, int]]) -> None:
    cache, last, now = HealthCache(), dict[str, tuple[str, float]](), 0.0
    for device, word, later in said:
        now += later
        cache.update("d", [DeviceHealth("pool", device, word, said_at=now)])
        last[device] = word, now
    for device, (word, at) in last.items():
        told = cache.words("d", now).get(("pool", device))
        assert told == ((word, "") if now - at <= 30 else None)
    cache.clear("d")
    assert cache.words("d", now) == {}


def test_health_of_invented_devices_has_an_end() -> None:
    cache = HealthCache()
    cache.update("d", [DeviceHealth("pool", str(number), "Healthy") for number in range(MOST_DEVICES + 9)])
    assert len(cache.words("d", 0)) == MOST_DEVICES
