"""What a claim's allocation becomes: exactly its hardware for each container, or a refusal."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import permutations
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from accelet.dra.errors import ClaimError, DraError, NotYetError
from accelet.dra.names import GPU_DRIVER
from accelet.dra.preparing.cdi import WHOLE_CLAIM
from accelet.dra.preparing.claim import AllocatedClaim, parse_claim
from accelet.dra.preparing.claimtable import ClaimTable
from accelet.dra.preparing.consumers import ConsumerPod, parse_consumer
from accelet.dra.preparing.decide import DriverOffer, decide, understand
from accelet.dra.preparing.entry import Entry
from accelet.dra.preparing.grant import hardware_of
from accelet.dra.preparing.views import OtherClaim
from accelet.dra.publishing.build import build_pool
from tests.fakes.manifests import claiming, raw_pod
from tests.unit.dra.oracle import Tile, cdi_devices, inject, visible_tiles
from tests.unit.dra.strategies import gpu, gpus

NODE = "node-1"
TILES = {3: 2, 4: 2, 5: 1}


def an_offer() -> DriverOffer:
    resource = gpus(*(gpu(bus, tiles=tiles) for bus, tiles in TILES.items()))
    return DriverOffer(build_pool(GPU_DRIVER, NODE, [resource]), hardware_of([resource]))


OFFER = an_offer()
EXCLUSIVE = {
    device.name: frozenset((int(unit[5:7], 16), tile) for unit, tile in device.atoms)
    for device in OFFER.pool.devices
    if device.is_exclusive
}
MONITORED = {
    device.name: frozenset((int(unit[5:7], 16), tile) for unit, tile in device.atoms)
    for device in OFFER.pool.devices
    if not device.is_exclusive
}


def raw_claim(
    name: str,
    results: Sequence[tuple[str, str]],
    *,
    uid: str = "",
    owned: bool = True,
    shares: Mapping[int, str] | None = None,
    config: Sequence[Mapping[str, Any]] = (),
    extended: bool = False,
) -> dict[str, Any]:
    """A claim whose allocation has these (request, device) pairs, `shares` by their place."""
    owners = [{"kind": "Pod", "name": "pod", "uid": "pod-uid", "controller": True}]
    wired: list[dict[str, Any]] = []
    for place, (request, device) in enumerate(results):
        one: dict[str, Any] = {"request": request, "driver": GPU_DRIVER, "pool": NODE, "device": device}
        if place in (shares or {}):
            amount = (shares or {})[place]
            one |= {"shareID": f"share-{place}-{uid or name}", "consumedCapacity": {"millicores": amount}}
        wired.append(one)
    return {
        "metadata": {
            "name": name,
            "namespace": "ml",
            "uid": uid or f"uid-of-{name}",
            "ownerReferences": owners if owned else [],
            "annotations": {"resource.kubernetes.io/extended-resource-claim": "true"} if extended else {},
        },
        "status": {
            "allocation": {"devices": {"results": wired, "config": list(config)}},
            "reservedFor": [{"resource": "pods", "name": "pod", "uid": "pod-uid"}],
        },
    }


def a_claim(*args: Any, **kwargs: Any) -> AllocatedClaim:
    return read(raw_claim(*args, **kwargs))


def read(raw: Mapping[str, Any]) -> AllocatedClaim:
    return parse_claim(json.dumps(raw).encode(), GPU_DRIVER)


def a_pod(containers: Mapping[str, Sequence[tuple[str, str | None]]]) -> ConsumerPod:
    raw = raw_pod("pod", **claiming(containers))
    raw["metadata"]["uid"] = "pod-uid"
    return parse_consumer(raw)


def granted(
    claim: AllocatedClaim,
    pods: Sequence[ConsumerPod],
    entries: Sequence[Entry] = (),
    beside: Sequence[OtherClaim] = (),
) -> Entry:
    wanted = understand(claim, OFFER)
    return decide(wanted, OFFER, entries=ClaimTable(entries), pods=pods, beside=beside, boot="b").entry


def refused(claim: AllocatedClaim, pods: Sequence[ConsumerPod], **others: Any) -> str:
    with pytest.raises(ClaimError) as caught:
        granted(claim, pods, **others)
    return str(caught.value)


def ids_for(entry: Entry, request: str | None) -> list[str]:
    """What the kubelet hands the runtime for a reference to the claim, in the order of the answers."""
    return [
        one
        for answer in entry.answers
        if request is None or request in answer.requests
        for one in answer.cdi_ids
    ]


def seen_by(entries: Sequence[Entry], uses: Sequence[tuple[str, str | None]]) -> set[frozenset[Tile]]:
    """What a container may see, for each order in which a kubelet may take its claims."""
    devices = cdi_devices([entry.cdi for entry in entries])
    by_claim = {entry.name: entry for entry in entries}
    views = set()
    for order in permutations(sorted({claim for claim, _ in uses})):
        ids = [
            one
            for name in order
            for claim, request in uses
            if claim == name
            for one in ids_for(by_claim[claim], request)
        ]
        nodes, environment = inject([devices[one] for one in dict.fromkeys(ids)])
        views.add(visible_tiles(nodes, environment, TILES))
    return views


def allocated_to(claims: Sequence[AllocatedClaim], uses: Sequence[tuple[str, str | None]]) -> frozenset[Tile]:
    """What is a container's own; the cards of its monitors too, unless a mask leaves its own parts alone."""
    devices = [
        result.device
        for claim in claims
        for result in claim.results
        if (claim.name, None) in uses or (claim.name, result.request) in uses
    ]
    own = frozenset(tile for device in devices for tile in EXCLUSIVE.get(device, ()))
    watched = frozenset(tile for device in devices for tile in MONITORED.get(device, ()))
    cards = {card for card, _ in own}
    has_parts = own != {(card, tile) for card in cards for tile in range(TILES[card])}
    return own if has_parts else own | watched


@dataclass(frozen=True)
class Case:
    claims: tuple[AllocatedClaim, ...]
    containers: Mapping[str, tuple[tuple[str, str | None], ...]]


@st.composite
def cases(draw: st.DrawFn) -> Case:
    """Up to three claims on disjoint hardware, used by up to three containers of their one pod."""
    free = set(EXCLUSIVE)
    claims = []
    for name in ("a", "b", "c")[: draw(st.integers(1, 3))]:
        results: dict[tuple[str, str], None] = {}  # a request never has one device twice
        for _ in range(draw(st.integers(1, 3))):
            device = draw(st.sampled_from([*sorted(free), *sorted(MONITORED)]))
            taken = EXCLUSIVE.get(device, frozenset())
            free = {other for other in free if EXCLUSIVE[other].isdisjoint(taken)}
            results[draw(st.sampled_from(["x", "y", "z/sub"])), device] = None
        claims.append(a_claim(name, list(results), owned=draw(st.booleans())))
    requests = [(claim.name, one.request) for claim in claims for one in claim.results]
    references = st.sampled_from([*requests, *((claim.name, None) for claim in claims)])
    containers = draw(
        st.dictionaries(
            st.sampled_from(["init", "main", "side"]),
            st.lists(references, min_size=1, max_size=4, unique=True).map(tuple),
            min_size=1,
        )
    )
    return Case(tuple(claims), containers)


@given(cases())
def test_every_container_sees_exactly_what_it_was_allocated_or_a_claim_is_refused(case: Case) -> None:
    pod = a_pod(case.containers)
    entries: list[Entry] = []
    for claim in case.claims:
        try:
            entries.append(granted(claim, [pod], entries))
        except ClaimError:
            continue
    prepared = {entry.name for entry in entries}
    for uses in case.containers.values():
        if {claim for claim, _ in uses} <= prepared:
            assert seen_by(entries, uses) == {allocated_to(case.claims, uses)}


@given(cases())
def test_a_claim_with_one_request_used_alone_is_never_refused(case: Case) -> None:
    """But for one of a class that has monitors and tiles alike."""
    for claim in case.claims:
        kinds = {result.device in MONITORED for result in claim.results}
        if len({result.request for result in claim.results}) == 1 and len(kinds) == 1:
            uses = ((claim.name, None),)
            entry = granted(claim, [a_pod({"main": uses})])
            assert seen_by([entry], uses) == {allocated_to([claim], uses)}


TILE_0, TILE_1, CARD_0, CARD_1 = (
    "gpu-0000-03-00-0-tile-0",
    "gpu-0000-03-00-0-tile-1",
    "gpu-0000-03-00-0",
    "gpu-0000-04-00-0",
)
FAR_TILE, SMALL = "gpu-0000-04-00-0-tile-1", "gpu-0000-05-00-0"


def outcome(
    claims: Mapping[str, Sequence[tuple[str, str]]],
    containers: Mapping[str, Sequence[tuple[str, str | None]]],
    *,
    owned: bool = True,
    extended: bool = False,
) -> str:
    """`right` where each container sees exactly its own, `refused` where a claim is."""
    made = [a_claim(name, results, owned=owned, extended=extended) for name, results in claims.items()]
    pod = a_pod(containers)
    entries: list[Entry] = []
    for claim in made:
        others = [OtherClaim(one.name, True) for one in made if one is not claim and _has_tiles(one)]
        try:
            entries.append(granted(claim, [pod], entries, others))
        except ClaimError:
            return "refused"
    for uses in containers.values():
        assert seen_by(entries, uses) == {allocated_to(made, uses)}
    return "right"


def _has_tiles(claim: AllocatedClaim) -> bool:
    return any("tile" in result.device for result in claim.results)


COMBINATIONS = {
    "one request for a tile": ("right", {"a": [("x", TILE_0)]}, {"main": [("a", None)]}, {}),
    "one request for several tiles": (
        "right",
        {"a": [("x", TILE_0), ("x", FAR_TILE)]},
        {"main": [("a", None)]},
        {},
    ),
    "tiles and whole cards, the claim as a whole": (
        "right",
        {"a": [("x", TILE_1), ("y", CARD_1)]},
        {"main": [("a", None)]},
        {},
    ),
    "several requests, the claim as a whole": (
        "right",
        {"a": [("x", TILE_0), ("y", FAR_TILE)]},
        {"main": [("a", None)]},
        {},
    ),
    "several requests, each container one of them": (
        "right",
        {"a": [("x", TILE_0), ("y", TILE_1)]},
        {"left": [("a", "x")], "right": [("a", "y")]},
        {},
    ),
    "several requests, one container names them all": (
        "right",
        {"a": [("x", TILE_0), ("y", FAR_TILE)]},
        {"main": [("a", "x"), ("a", "y")]},
        {},
    ),
    "a request used alone by one container and with another by a second": (
        "refused",
        {"a": [("x", TILE_0), ("y", FAR_TILE)]},
        {"left": [("a", "x")], "right": [("a", "x"), ("a", "y")]},
        {},
    ),
    "the claim as a whole beside one of its requests": (
        "right",
        {"a": [("x", TILE_0), ("y", FAR_TILE)]},
        {"left": [("a", None)], "right": [("a", "y")]},
        {},
    ),
    "a claim any pod may use, one request": (
        "right",
        {"a": [("x", TILE_0), ("x", FAR_TILE)]},
        {"main": [("a", None)]},
        {"owned": False},
    ),
    "a claim any pod may use, several requests with a tile": (
        "refused",
        {"a": [("x", TILE_0), ("y", FAR_TILE)]},
        {"main": [("a", None)]},
        {"owned": False},
    ),
    "a claim any pod may use, several requests for whole cards": (
        "right",
        {"a": [("x", CARD_0), ("y", CARD_1)]},
        {"main": [("a", None)]},
        {"owned": False},
    ),
    "two claims for whole cards in one container": (
        "right",
        {"a": [("x", CARD_0)], "b": [("x", CARD_1)]},
        {"main": [("a", None), ("b", None)]},
        {},
    ),
    "two claims in one container, one with a tile": (
        "refused",
        {"a": [("x", TILE_0)], "b": [("x", CARD_1)]},
        {"main": [("a", None), ("b", None)]},
        {},
    ),
    "two claims with tiles in two containers": (
        "right",
        {"a": [("x", TILE_0)], "b": [("x", TILE_1)]},
        {"left": [("a", None)], "right": [("b", None)]},
        {},
    ),
    "both tiles of a card by two requests, the claim as a whole": (
        "refused",
        {"a": [("x", TILE_0), ("y", TILE_1)]},
        {"main": [("a", None)]},
        {},
    ),
    "both tiles of a card by one request": (
        "right",
        {"a": [("x", TILE_0), ("x", TILE_1)]},
        {"main": [("a", None)]},
        {},
    ),
    "a tile and the monitor of its card, the claim as a whole": (
        "right",
        {"a": [("x", FAR_TILE), ("y", f"{CARD_1}-monitor")]},
        {"main": [("a", None)]},
        {},
    ),
    "a tile and the monitor of another card, the claim as a whole": (
        "refused",
        {"a": [("x", FAR_TILE), ("y", f"{CARD_0}-monitor")]},
        {"main": [("a", None)]},
        {},
    ),
    "a tile and the monitor of another card, each in a container of its own": (
        "right",
        {"a": [("x", FAR_TILE), ("y", f"{CARD_0}-monitor")]},
        {"left": [("a", "x")], "right": [("a", "y")]},
        {},
    ),
    "an init container and a container share the claim": (
        "right",
        {"a": [("x", TILE_0), ("y", FAR_TILE)]},
        {"init": [("a", None)], "main": [("a", None)]},
        {},
    ),
}


@pytest.mark.parametrize("said", COMBINATIONS)
def test_combination_has_the_outcome_that_the_documents_say(said: str) -> None:
    expected, claims, containers, options = COMBINATIONS[said]
    assert outcome(claims, containers, **options) == expected  # type: ignore[arg-type]


def test_every_request_of_a_whole_claim_is_followed_by_its_union() -> None:
    entry = granted(a_claim("a", [("x", TILE_0), ("y", FAR_TILE)]), [a_pod({"main": [("a", None)]})])
    assert entry.answers[-1].requests == (WHOLE_CLAIM,)
    assert entry.answers[-1].device == TILE_0


@given(st.lists(st.sampled_from(sorted(EXCLUSIVE)), min_size=2, max_size=6))
def test_no_hardware_is_given_twice(devices: list[str]) -> None:
    entries: list[Entry] = []
    for place, device in enumerate(devices):
        name = f"claim-{place}"
        try:
            entries.append(granted(a_claim(name, [("x", device)]), [a_pod({"m": [(name, None)]})], entries))
        except NotYetError:
            overlapping = [e for e in entries if EXCLUSIVE[e.holds[0].device] & EXCLUSIVE[device]]
            assert overlapping
    given_out = [tile for entry in entries for tile in EXCLUSIVE[entry.holds[0].device]]
    assert len(given_out) == len(set(given_out))


@pytest.mark.parametrize("device", [TILE_0, f"{CARD_0}-monitor"])
@pytest.mark.parametrize("shares", [{}, {0: "100", 1: "100"}])
def test_one_device_twice_in_a_request_is_refused(device: str, shares: Mapping[int, str]) -> None:
    raw = raw_claim("a", [("x", device)] * 2, shares=shares)
    for result in raw["status"]["allocation"]["devices"]["results"]:
        result.update({"shareID": "one"} if shares else {})
    with pytest.raises(ClaimError, match=f"the claim was given {device} twice"):
        granted(read(raw), [a_pod({"m": [("a", None)]})])


@given(st.lists(st.integers(1, 100).map(lambda tens: tens * 10), min_size=1, max_size=12))
def test_shares_of_a_card_never_take_more_than_it_has(amounts: list[int]) -> None:
    entries: list[Entry] = []
    taken = 0
    for place, amount in enumerate(amounts):
        name = f"claim-{place}"
        claim = a_claim(name, [("x", CARD_0)], shares={0: str(amount)})
        try:
            entries.append(granted(claim, [a_pod({"m": [(name, None)]})], entries))
        except NotYetError:
            assert taken + amount > 1000
        else:
            taken += amount
    assert taken <= 1000


def test_a_share_of_a_card_keeps_its_tiles_from_being_held() -> None:
    share = granted(a_claim("a", [("x", CARD_0)], shares={0: "100"}), [a_pod({"m": [("a", None)]})])
    with pytest.raises(NotYetError, match="tile-0 is still held by the claim ml/a"):
        granted(a_claim("b", [("x", TILE_0)]), [a_pod({"m": [("b", None)]})], [share])


def test_a_monitor_is_held_beside_everything_and_sets_nothing() -> None:
    tile = granted(a_claim("a", [("x", TILE_0)]), [a_pod({"m": [("a", None)]})])
    monitor = granted(
        a_claim("m", [("x", f"{CARD_0}-monitor")], shares={0: "0"}), [a_pod({"m": [("m", None)]})], [tile]
    )
    assert not monitor.has_environment


def test_the_same_claim_allocated_anew_is_prepared_beside_its_old_allocation() -> None:
    """The kubelet may still run a pod on the old one: both stay held until Unprepare."""
    old = granted(a_claim("a", [("x", TILE_0)]), [a_pod({"m": [("a", None)]})])
    new = granted(a_claim("a", [("x", TILE_1)]), [a_pod({"m": [("a", None)]})], [old])
    assert old.uid == new.uid
    assert old.key != new.key
    with pytest.raises(NotYetError):
        granted(a_claim("b", [("x", TILE_0)]), [a_pod({"m": [("b", None)]})], [old, new])
    cdi_devices([old.cdi, new.cdi])


def test_hierarchy_may_be_chosen_and_the_mask_is_written_in_it() -> None:
    parameters = {
        "apiVersion": "gpu.accelet.dev/v1alpha1",
        "kind": "GpuConfig",
        "deviceHierarchy": "COMPOSITE",
    }
    config = [{"source": "FromClaim", "opaque": {"driver": GPU_DRIVER, "parameters": parameters}}]
    entry = granted(a_claim("a", [("x", TILE_1)], config=config), [a_pod({"m": [("a", None)]})])
    (edits,) = cdi_devices([entry.cdi]).values()
    assert sorted(edits["env"]) == [
        "ZE_AFFINITY_MASK=0.1",
        "ZE_ENABLE_PCI_ID_DEVICE_ORDER=1",
        "ZE_FLAT_DEVICE_HIERARCHY=COMPOSITE",
    ]


@pytest.mark.parametrize(
    "parameters",
    [
        {"apiVersion": "gpu.accelet.dev/v1", "kind": "GpuConfig"},
        {"apiVersion": "gpu.accelet.dev/v1alpha1", "kind": "GpuConfig", "deviceHierarchy": "flat"},
        {"apiVersion": "gpu.accelet.dev/v1alpha1", "kind": "GpuConfig", "sharing": "TimeSlicing"},
        {"apiVersion": "gpu.accelet.dev/v1alpha1"},
        [],
        None,
    ],
)
def test_parameters_that_the_driver_does_not_know_are_refused(parameters: object) -> None:
    config = [{"source": "FromClass", "opaque": {"driver": GPU_DRIVER, "parameters": parameters}}]
    said = refused(a_claim("a", [("x", TILE_1)], config=config), [a_pod({"m": [("a", None)]})])
    assert said.startswith("the class's configuration for gpu.accelet.dev is refused: ")


def test_parameters_for_a_request_reach_its_alternatives() -> None:
    """`x` in a configuration is the request whose allocation is told as `x/sub`."""
    parameters = {
        "apiVersion": "gpu.accelet.dev/v1alpha1",
        "kind": "GpuConfig",
        "deviceHierarchy": "COMBINED",
    }
    config = [
        {"source": "FromClaim", "requests": ["x"], "opaque": {"driver": GPU_DRIVER, "parameters": parameters}}
    ]
    entry = granted(a_claim("a", [("x/sub", TILE_1)], config=config), [a_pod({"m": [("a", None)]})])
    assert "ZE_FLAT_DEVICE_HIERARCHY=COMBINED" in entry.cdi


def _hierarchy(said: str, source: str = "FromClaim", *requests: str) -> dict[str, Any]:
    parameters = {"apiVersion": "gpu.accelet.dev/v1alpha1", "kind": "GpuConfig", "deviceHierarchy": said}
    opaque = {"driver": GPU_DRIVER, "parameters": parameters}
    return {"source": source, "requests": list(requests), "opaque": opaque}


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_a_claims_parameters_go_over_its_classs(order: tuple[int, int]) -> None:
    both = [_hierarchy("COMPOSITE", "FromClass"), _hierarchy("COMBINED")]
    claim = a_claim("a", [("x", TILE_1)], config=[both[place] for place in order])
    assert "ZE_FLAT_DEVICE_HIERARCHY=COMBINED" in granted(claim, [a_pod({"m": [("a", None)]})]).cdi


def test_parameters_for_an_alternative_that_was_not_chosen_are_not_followed() -> None:
    """They come along where they are for another request as well."""
    config = [
        _hierarchy("COMPOSITE", "FromClaim", "x/small", "y"),
        _hierarchy("COMBINED", "FromClaim", "x/big"),
    ]
    claim = a_claim("a", [("x/big", TILE_1), ("y", FAR_TILE)], config=config)
    entry = granted(claim, [a_pod({"left": [("a", "x")], "right": [("a", "y")]})])
    left, right = cdi_devices([entry.cdi]).values()
    assert "ZE_FLAT_DEVICE_HIERARCHY=COMBINED" in left["env"]
    assert "ZE_FLAT_DEVICE_HIERARCHY=COMPOSITE" in right["env"]


def test_parameters_are_no_longer_than_kubernetes_allows() -> None:
    config = [{"source": "FromClaim", "opaque": {"driver": GPU_DRIVER, "parameters": {"x": "x" * 10_240}}}]
    said = refused(a_claim("a", [("x", TILE_1)], config=config), [a_pod({"m": [("a", None)]})])
    assert said == "the claim's configuration for gpu.accelet.dev is longer than 10240 bytes"


def test_an_administrators_claim_is_held_beside_everything_and_sets_nothing() -> None:
    """Whether it came before or after who has the tile."""
    raw = raw_claim("admin", [("x", TILE_0)])
    raw["status"]["allocation"]["devices"]["results"][0]["adminAccess"] = True
    tile = granted(a_claim("a", [("x", TILE_0)]), [a_pod({"m": [("a", None)]})])
    admin = granted(read(raw), [a_pod({"m": [("admin", None)]})], [tile])
    (edits,) = cdi_devices([admin.cdi]).values()
    assert edits.keys() == {"deviceNodes"}
    assert granted(a_claim("a", [("x", TILE_0)]), [a_pod({"m": [("a", None)]})], [admin]) == tile
    both = [a_pod({"m": [("a", None), ("admin", None)]})]
    assert "both give parts" in refused(a_claim("a", [("x", FAR_TILE)]), both, entries=[admin])


@pytest.mark.parametrize("device", [TILE_0, CARD_0, f"{CARD_0}-monitor"])
def test_a_claim_beside_a_card_of_the_device_plugin_is_refused(device: str) -> None:
    """What numbers the container's cards counts both, whichever of them is told of."""

    def beside(limits: Mapping[str, str], *mapped: str) -> ConsumerPod:
        raw = raw_pod("pod", **claiming({"main": [("a", None)]}))
        raw["metadata"]["uid"] = "pod-uid"
        raw["spec"]["containers"][0]["resources"]["limits"] = limits
        mappings = [{"containerName": "main", "requestName": "x", "resourceName": name} for name in mapped]
        extended = {"resourceClaimName": "extended", "requestMappings": mappings}
        raw["status"] = {"extendedResourceClaimStatus": extended}
        return parse_consumer(raw)

    claim, xe, i915 = a_claim("a", [("x", device)]), "gpu.intel.com/xe", "gpu.intel.com/i915"
    for harmless in ({"cpu": "1"}, {xe: "0"}, {"squat.ai/fuse": "1"}):
        granted(claim, [beside(harmless)])
    granted(claim, [beside({xe: "1"}, xe)])
    said = refused(claim, [beside({xe: "1", i915: "1"}, i915)])
    assert said.startswith("the container main has gpu.intel.com/xe by the device plugin beside the claim a")


def test_devices_of_other_drivers_are_none_of_ours() -> None:
    raw = raw_claim("a", [("x", TILE_1)])
    raw["status"]["allocation"]["devices"]["results"][0]["driver"] = "gpu.example.com"
    with pytest.raises(ClaimError, match="has no device of"):
        understand(read(raw), OFFER)


_json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3),
    max_leaves=8,
)


@given(st.data())
def test_whatever_stands_in_a_claim_is_prepared_or_refused(data: st.DataObject) -> None:
    """No allocation, however wrong in one of its fields, does more than to be refused."""
    raw = raw_claim("a", [("x", TILE_0), ("y", CARD_1)], shares={1: "100"})
    devices = raw["status"]["allocation"]["devices"]
    target = data.draw(st.sampled_from([raw, raw["metadata"], raw["status"], devices, *devices["results"]]))
    target[data.draw(st.sampled_from(sorted(target)))] = data.draw(_json)
    try:
        entry = granted(read(raw), [a_pod({"m": [("a", None)]})])
    except DraError:
        return
    assert {hold.device for hold in entry.holds} <= {TILE_0, CARD_1}


_FIELDS = st.sampled_from(["apiVersion", "kind", "deviceHierarchy", "sharing"])
_VALUES = st.sampled_from(["gpu.accelet.dev/v1alpha1", "GpuConfig", "FLAT", "COMPOSITE", "flat"]) | _json


@given(st.dictionaries(_FIELDS, _VALUES) | _json)
def test_whatever_stands_in_parameters_is_a_hierarchy_or_refused(parameters: object) -> None:
    config = [{"source": "FromClaim", "opaque": {"driver": GPU_DRIVER, "parameters": parameters}}]
    try:
        entry = granted(a_claim("a", [("x", TILE_1)], config=config), [a_pod({"m": [("a", None)]})])
    except ClaimError:
        return
    assert isinstance(parameters, dict)
    hierarchy = parameters.get("deviceHierarchy") or "FLAT"
    assert f'"ZE_FLAT_DEVICE_HIERARCHY={hierarchy}"' in entry.cdi


def test_the_documents_list_exactly_these_combinations() -> None:
    text = (Path(__file__).parents[3] / "docs/dra.md").read_text()
    (section,) = (part for part in text.split("\n### ") if part.startswith("What containers get"))
    rows = [line.strip("| ").split(" | ") for line in section.splitlines() if line.startswith("|")][2:]
    assert dict(rows) == {said: case[0] for said, case in COMBINATIONS.items()}
