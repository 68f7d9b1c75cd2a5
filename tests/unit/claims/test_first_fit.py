"""Devices for claims on one node: cases after those that kube-scheduler's own allocator is tested by."""

import random
from typing import Any

import pytest

from accelet.claims.cel.work import Work
from accelet.claims.requests import parse_claim, parse_device_class
from accelet.claims.slices import parse_slice
from accelet.scheduler.claims.firstfit import MOST_WORK, NotServed, Served, Supply, Why, first_fit
from accelet.scheduler.claims.holdings import count_holdings
from accelet.scheduler.claims.pools import SliceIndex, TriedNode
from tests.unit.claims.draws import draw_pod

Json = dict[str, Any]
DRIVER = "gpu.example.com"
A = f'device.attributes["{DRIVER}"]'
K = f'device.capacity["{DRIVER}"]'


def device(name: str, **more: Any) -> Json:
    return {"name": name, **more}


def small(name: str, **more: Any) -> Json:
    return device(name, capacity={"memory": {"value": "1Gi"}}, **more)


def large(name: str, **more: Any) -> Json:
    return device(name, capacity={"memory": {"value": "2Gi"}}, **more)


def slice_of(
    *devices: Json, pool: str = "p", name: str = "", count: int = 1, generation: int = 1, **spec: Any
) -> Json:
    reach = (
        {}
        if {"nodeName", "allNodes", "nodeSelector", "perDeviceNodeSelection"} & set(spec)
        else {"nodeName": "n1"}
    )
    return {
        "metadata": {"name": name or f"{pool}-{generation}"},
        "spec": {
            "driver": DRIVER,
            "pool": {"name": pool, "generation": generation, "resourceSliceCount": count},
            "devices": list(devices),
            **reach,
            **spec,
        },
    }


def asked(*selectors: str, name: str = "r", count: int | None = 1, **more: Any) -> Json:
    mode = {"allocationMode": "All"} if count is None else {"allocationMode": "ExactCount", "count": count}
    chosen = [{"cel": {"expression": text}} for text in selectors]
    return {"name": name, "exactly": {"deviceClassName": "any", "selectors": chosen, **mode, **more}}


def first_of(*choices: Json, name: str = "r") -> Json:
    return {
        "name": name,
        "firstAvailable": [{"name": f"o{at}", **one["exactly"]} for at, one in enumerate(choices)],
    }


def claim(*requests: Json, name: str = "c", held: list[Json] | None = None, constraints: Any = ()) -> Json:
    status = {} if held is None else {"status": {"allocation": {"devices": {"results": held}}}}
    spec = {"devices": {"requests": list(requests), "constraints": list(constraints)}}
    return {"metadata": {"name": name, "namespace": "ml"}, "spec": spec, **status}


def held(*names: str, pool: str = "p", **more: Any) -> Json:
    return claim(
        name="h",
        held=[{"request": "r", "driver": DRIVER, "pool": pool, "device": name, **more} for name in names],
    )


def fit(
    slices: list[Json], *claims: Json, holders: tuple[Json, ...] = (), work: int = MOST_WORK
) -> Served | NotServed:
    place = TriedNode("n1", {"zone": "a"})
    classes = [{"metadata": {"name": "any"}, "spec": {}}]
    supply = Supply(
        place,
        SliceIndex(map(parse_slice, slices)).pools(place),
        count_holdings(map(parse_claim, holders)),
        {one.name: one for one in map(parse_device_class, classes)},
    )
    return first_fit(list(map(parse_claim, claims)), supply, Work(work))


def given(found: Served | NotServed) -> list[list[str]]:
    assert isinstance(found, Served), found
    return [[one.device.name for one in devices] for devices in found.given]


def refused(found: Served | NotServed) -> tuple[Why, str]:
    assert isinstance(found, NotServed), found
    return found.why, found.reason


AT_LEAST_1 = f'{K}.memory.compareTo(quantity("1Gi")) >= 0'
AT_LEAST_2 = f'{K}.memory.compareTo(quantity("2Gi")) >= 0'
X, Y = ({"attributes": {"root": {"string": one}}} for one in "xy")
ALIKE = ({"matchAttribute": f"{DRIVER}/root"},)
DISTINCT = ({"distinctAttribute": f"{DRIVER}/root"},)


def test_the_first_device_that_matches_is_given() -> None:
    assert given(fit([slice_of(device("a"), device("b"))], claim(asked()))) == [["a"]]


def test_a_small_request_leaves_the_large_device_to_the_next() -> None:
    slices = [slice_of(large("l"), small("s"))]
    both = claim(asked(AT_LEAST_1, name="one"), asked(AT_LEAST_2, name="two"))
    assert given(fit(slices, both)) == [["s", "l"]]
    assert given(fit(slices, claim(asked(AT_LEAST_1)), claim(asked(AT_LEAST_2), name="d"))) == [["s"], ["l"]]


def test_pools_go_by_name_and_those_that_wait_for_their_driver_come_last() -> None:
    waiting = device("w", bindingConditions=["ready"], bindingFailureConditions=["broken"])
    slices = [slice_of(device("z"), pool="z"), slice_of(waiting, pool="a"), slice_of(device("m"), pool="m")]
    assert given(fit(slices, claim(asked(count=3)))) == [["m", "z", "w"]]


def test_slices_of_a_pool_go_by_their_names() -> None:
    slices = [slice_of(device("b"), name="s2", count=2), slice_of(device("a"), name="s1", count=2)]
    assert given(fit(slices, claim(asked(count=2)))) == [["a", "b"]]


def test_a_pool_of_which_a_slice_is_missing_gives_nothing() -> None:
    slices = [slice_of(device("a"), count=2)]
    assert refused(fit(slices, claim(asked()))) == (Why.NO_ROOM, "r: no device matches")
    why, reason = refused(fit(slices, claim(asked(count=None))))
    assert why is Why.POD_FAILS
    assert "resource pool gpu.example.com/p is currently being updated" in reason


def test_the_newest_generation_counts_wherever_it_is() -> None:
    old, new = slice_of(device("a")), slice_of(device("b"), generation=2)
    assert given(fit([old, new], claim(asked()))) == [["b"]]
    elsewhere = slice_of(device("b"), generation=2, nodeName="n2")
    assert given(fit([slice_of(device("a"), count=1), elsewhere], claim(asked()))) == [["a"]]
    assert refused(fit([slice_of(device("a"), count=2), elsewhere], claim(asked())))[0] is Why.NO_ROOM


@pytest.mark.parametrize(
    ("devices", "told"),
    [
        ([device("a"), device("a")], "has two devices a"),
        ([device("a", consumesCounters=[{"counterSet": "s", "counters": {}}])], "has no counter set s"),
    ],
)
def test_a_pool_that_contradicts_itself_gives_nothing(devices: list[Json], told: str) -> None:
    why, reason = refused(fit([slice_of(*devices)], claim(asked())))
    assert why is Why.NODE_FAILS
    assert told in reason
    good = slice_of(device("g"), pool="good")
    assert given(fit([slice_of(*devices), good], claim(asked()))) == [["g"]]


def test_devices_reach_nodes_by_name_label_or_everywhere() -> None:
    zone = {"nodeSelectorTerms": [{"matchExpressions": [{"key": "zone", "operator": "In", "values": ["b"]}]}]}
    each = slice_of(
        device("far", nodeName="n2"),
        device("zone", nodeSelector=zone),
        device("near", allNodes=True),
        perDeviceNodeSelection=True,
    )
    assert given(fit([each], claim(asked()))) == [["near"]]
    assert refused(fit([slice_of(device("a"), nodeSelector=zone)], claim(asked())))[0] is Why.NO_ROOM


def test_all_devices_are_given_or_none() -> None:
    slices = [slice_of(device("a"), device("b"))]
    assert given(fit(slices, claim(asked(count=None)))) == [["a", "b"]]
    assert refused(fit(slices, claim(asked(count=None)), holders=(held("a"),)))[0] is Why.NO_ROOM
    assert refused(fit([], claim(asked(count=None))))[0] is Why.NO_ROOM


def test_admin_access_sees_held_devices_and_holds_none() -> None:
    slices = [slice_of(device("a"), device("b"))]
    admin = asked(count=None, adminAccess=True)
    assert given(fit(slices, claim(admin), claim(admin, name="d"), holders=(held("a"),))) == [["a", "b"]] * 2
    assert given(fit(slices, claim(asked()), holders=(held("a", "b", adminAccess=True),))) == [["a"]]


def test_a_device_that_two_claims_hold_is_held_until_both_have_gone() -> None:
    slices = [slice_of(device("a"))]
    assert count_holdings(map(parse_claim, (held("a"), held("a")))).whole
    assert refused(fit(slices, claim(asked()), holders=(held("a"),))) == (
        Why.NO_ROOM,
        "r: 1 wanted, 0 free of 1 that match (1 held)",
    )


def test_alternatives_are_taken_in_order_and_given_up_for_others() -> None:
    slices = [slice_of(large("l"), small("s"))]
    rather = first_of(asked(AT_LEAST_2), asked(AT_LEAST_1), name="rather")
    found = fit(slices, claim(rather, asked(AT_LEAST_2, name="must")))
    assert isinstance(found, Served)
    assert [(one.request, one.device.name) for one in found.given[0]] == [("rather/o1", "s"), ("must", "l")]


def test_a_claim_has_at_most_32_devices() -> None:
    many = [slice_of(*(device(f"d{at:02}") for at in range(40)))]
    assert len(given(fit(many, claim(asked(count=32))))[0]) == 32
    why, reason = refused(fit(many, claim(asked(count=32), asked(name="s"))))
    assert (why, "33 devices are asked for" in reason) == (Why.POD_FAILS, True)
    assert len(given(fit(many, claim(first_of(asked(count=33), asked()))))[0]) == 1


def test_devices_share_an_attribute_or_differ_in_it() -> None:
    slices = [slice_of(device("a", **X), device("b", **Y), device("c", **Y))]
    assert given(fit(slices, claim(asked(count=2), constraints=ALIKE))) == [["b", "c"]]
    two = (asked(name="one"), asked(name="two"))
    assert given(fit(slices, claim(*two, constraints=DISTINCT))) == [["a", "b"]]
    assert refused(fit([slice_of(device("a"))], claim(asked(), constraints=ALIKE)))[0] is Why.NO_ROOM
    of_one = ({"matchAttribute": f"{DRIVER}/root", "requests": ["two"]},)
    assert given(fit(slices, claim(*two, constraints=of_one))) == [["a", "b"]]


def test_of_three_distinct_devices_of_one_request_1_36_forgets_the_first() -> None:
    slices = [slice_of(device("a", **X), device("b", **Y), device("c", **X))]
    assert given(fit(slices, claim(asked(count=3), constraints=DISTINCT))) == [["a", "b", "c"]]


def test_all_devices_that_no_constraint_allows_are_an_error() -> None:
    why, reason = refused(
        fit([slice_of(device("a", **X), device("b", **Y))], claim(asked(count=None), constraints=ALIKE))
    )
    assert why is Why.POD_FAILS
    assert "a claim constraint would not be satisfied" in reason


def _counters(*devices: Json, **counters: str) -> list[Json]:
    sets = [{"name": "s", "counters": {name: {"value": value} for name, value in counters.items()}}]
    return [slice_of(*devices, name="d", count=2), slice_of(name="c", count=2, sharedCounters=sets)]


def _draw(name: str, amount: str) -> Json:
    return device(name, consumesCounters=[{"counterSet": "s", "counters": {"mem": {"value": amount}}}])


def test_counters_are_drawn_by_held_and_given_devices() -> None:
    slices = _counters(_draw("a", "4Gi"), _draw("b", "4Gi"), _draw("c", "6Gi"), mem="8Gi")
    assert given(fit(slices, claim(asked(count=2)))) == [["a", "b"]]
    assert refused(fit(slices, claim(asked(count=3))))[0] is Why.NO_ROOM
    assert refused(fit(slices, claim(asked()), holders=(held("c"),)))[0] is Why.NO_ROOM
    assert given(
        fit(
            _counters(_draw("c", "6Gi"), _draw("a", "4Gi"), _draw("b", "4Gi"), mem="8Gi"),
            claim(asked(count=2)),
        )
    ) == [["a", "b"]]


def _shared(name: str, **policy: Any) -> Json:
    limits = {"requestPolicy": policy} if policy else {}
    return device(name, allowMultipleAllocations=True, capacity={"memory": {"value": "4Gi", **limits}})


def test_shares_take_what_is_asked_on_the_steps_of_the_device() -> None:
    slices = [slice_of(_shared("a", default="1Gi", validRange={"min": "1Gi", "step": "1Gi", "max": "3Gi"}))]

    def takes(*amounts: str | None) -> Served | NotServed:
        capacities: list[Json] = [
            {"capacity": {"requests": {"memory": one}}} if one else {} for one in amounts
        ]
        requests = [asked(name=f"r{at}", **one) for at, one in enumerate(capacities)]
        return fit(slices, claim(*requests))

    found = takes(None, "1500Mi")
    assert isinstance(found, Served)
    assert [one.consumed for one in found.given[0]] == [{"memory": 2**30}, {"memory": 2**31}]
    assert given(takes("1Gi", "3Gi")) == [["a", "a"]]
    assert refused(takes("2Gi", "3Gi"))[0] is Why.NO_ROOM
    assert refused(takes("3500Mi")) == (
        Why.NO_ROOM,
        "r0: 1 wanted, 0 free of 1 that match (1 without the capacity)",
    )
    whole = [slice_of(_shared("a"))]
    assert refused(fit(whole, claim(asked(name="one"), asked(name="two"))))[0] is Why.NO_ROOM


def test_what_shares_hold_is_no_longer_there() -> None:
    share = held("a", shareID="x", consumedCapacity={"memory": "3Gi"})
    slices = [slice_of(_shared("a", default="1Gi"), _shared("b", default="1Gi"))]
    two = claim(asked(name="one"), asked(name="two"))
    assert given(fit(slices, two, holders=(share,))) == [["a", "b"]]


def test_tainted_devices_are_for_those_who_tolerate_them() -> None:
    taints = [{"key": "sick", "effect": "NoExecute"}]
    slices = [slice_of(device("a", taints=taints), device("b", taints=[{"key": "sick", "effect": "None"}]))]
    assert given(fit(slices, claim(asked()))) == [["b"]]
    assert given(fit(slices, claim(asked(tolerations=[{"operator": "Exists"}])))) == [["a"]]


def test_a_selector_that_fails_ends_the_pod_and_one_that_is_not_served_is_not_known() -> None:
    slices = [slice_of(device("a"))]
    why, reason = refused(fit(slices, claim(asked(f"{A}.none == 1"))))
    assert (why, "no such key: none" in reason) == (Why.POD_FAILS, True)
    assert refused(fit(slices, claim(asked("url('x') == url('y')"))))[0] is Why.UNKNOWN


def test_a_class_that_is_missing_is_named() -> None:
    missing = {"name": "r", "exactly": {"deviceClassName": "none"}}
    assert refused(fit([], claim(missing))) == (
        Why.POD_FAILS,
        "claim ml/c, request r: there is no DeviceClass 'none'",
    )


def test_a_search_without_an_end_is_given_up() -> None:
    slices = [slice_of(*(device(f"d{at:02}") for at in range(30)))]
    hopeless = claim(*(asked(name=f"r{at}") for at in range(10)), asked("false", name="never"))
    assert refused(fit(slices, hopeless, work=40_000))[0] is Why.UNKNOWN


def test_no_device_is_given_twice_and_all_that_are_asked_for_are_given() -> None:
    source = random.Random(7)
    fits = 0
    for _ in range(400):
        asked_ = draw_pod(source)
        place = TriedNode("n1", asked_["node"]["metadata"]["labels"])
        holdings = count_holdings(map(parse_claim, asked_["held"]))
        classes = {one.name: one for one in map(parse_device_class, asked_["classes"])}
        pools = SliceIndex(map(parse_slice, asked_["slices"])).pools(place)
        claims = list(map(parse_claim, asked_["claims"]))
        found = first_fit(claims, Supply(place, pools, holdings, classes))
        if not isinstance(found, Served):
            continue
        fits += 1
        whole = [
            one.device
            for devices in found.given
            for one in devices
            if one.consumed is None and not one.is_admin
        ]
        assert len(set(whole)) == len(whole)
        assert not set(whole) & set(holdings.whole)
        for one, devices in zip(claims, found.given, strict=True):
            assert len(devices) >= len(one.requests)
    assert fits > 50
