"""Random devices and claims of a pod, as objects of the API, so small that all kinds of outcome come up."""

import random
from typing import Any, Final

Json = dict[str, Any]

NODE: Final[Json] = {"metadata": {"name": "n1", "labels": {"zone": "a", "kubernetes.io/hostname": "n1"}}}
_CLASSES: Final[tuple[tuple[str, list[str]], ...]] = (
    ("any", []),
    ("gpu", ['device.driver == "gpu.example.com"']),
    ("big", ['device.attributes["gpu.example.com"].?model.orValue("") == "m1"']),
    ("net", ['device.driver == "net.example.com" && device.attributes["net.example.com"].rdma']),
)
CLASSES: Final[list[Json]] = [
    {"metadata": {"name": name}, "spec": {"selectors": [{"cel": {"expression": one}} for one in selectors]}}
    for name, selectors in _CLASSES
]
_SELECTORS: Final = (
    'device.attributes["gpu.example.com"].?model.orValue("") != "m2"',
    'device.capacity["gpu.example.com"].?memory.orValue(quantity("0")).compareTo(quantity("4Gi")) >= 0',
    'device.attributes["gpu.example.com"].?index.orValue(9) < 3',
    'device.attributes["gpu.example.com"].?index.orValue(0) != 1',
    'device.attributes["gpu.example.com"].index < 2',
    'has(device.attributes["gpu.example.com"].numa)',
)
_TAINTS: Final = (("sick", "NoSchedule"), ("sick", "NoExecute"), ("odd", "None"))


def _one(source: random.Random, share: float) -> bool:
    return source.random() < share


def draw_pod(source: random.Random) -> Json:
    """A question for the allocator: node, slices, classes, claims of a pod, and claims that hold devices."""
    slices = _draw_slices(source)
    return {
        "node": NODE,
        "slices": slices,
        "classes": CLASSES,
        "claims": [_draw_claim(source, at) for at in range(source.choice((1, 1, 1, 2, 3)))],
        "held": _draw_held(source, slices),
    }


def _draw_slices(source: random.Random) -> list[Json]:
    found: list[Json] = []
    for driver in ("gpu.example.com", "net.example.com"):
        for pool in source.sample(("a", "b", "n1"), source.choice((1, 1, 2, 2)) - (driver[0] == "n")):
            found += _draw_pool(source, driver, pool)
    source.shuffle(found)
    return found


def _draw_pool(source: random.Random, driver: str, pool: str) -> list[Json]:
    generation = source.randrange(1, 3)
    parts = source.choice((1, 1, 2))
    sets = _draw_counters(source) if _one(source, 0.4) else []
    count = parts + bool(sets)
    spec: Json = {
        "driver": driver,
        "pool": {
            "name": pool,
            "generation": generation,
            "resourceSliceCount": count + (1 if _one(source, 0.05) else 0),
        },
    }
    found: list[Json] = []
    number = 0
    for part in range(parts):
        devices = []
        for _ in range(source.randrange(1, 7)):
            name = f"d{number if not _one(source, 0.02) else 0}"
            devices.append(_draw_device(source, name, sets, number))
            number += 1
        found.append(
            {
                "metadata": {"name": f"{driver}-{pool}-{source.randrange(10)}{part}"},
                "spec": spec | _draw_reach(source, devices) | {"devices": devices},
            }
        )
    if sets:
        found.append(
            {
                "metadata": {"name": f"{driver}-{pool}-counters"},
                "spec": spec | {"nodeName": "n1", "sharedCounters": sets},
            }
        )
    if _one(source, 0.05):
        newer = spec | {"pool": spec["pool"] | {"generation": generation + 1}}
        found.append(
            {
                "metadata": {"name": f"{driver}-{pool}-newer"},
                "spec": newer | {"nodeName": "n2", "devices": []},
            }
        )
    return found


def _draw_reach(source: random.Random, devices: list[Json]) -> Json:
    kind = source.choice(("node",) * 6 + ("other", "all", "zone", "each"))
    if kind == "each":
        for device in devices:
            device.update(
                source.choice(
                    ({"nodeName": "n1"}, {"nodeName": "n2"}, {"allNodes": True}, _zone("a"), _zone("b"))
                )
            )
        return {"perDeviceNodeSelection": True}
    reaches: dict[str, Json] = {
        "node": {"nodeName": "n1"},
        "other": {"nodeName": "n2"},
        "all": {"allNodes": True},
        "zone": _zone(source.choice("ab")),
    }
    return reaches[kind]


def _zone(name: str) -> Json:
    term = {"matchExpressions": [{"key": "zone", "operator": "In", "values": [name]}]}
    return {"nodeSelector": {"nodeSelectorTerms": [term]}}


def _draw_counters(source: random.Random) -> list[Json]:
    return [
        {"name": name, "counters": {"slots": {"value": str(source.randrange(2, 8))}, "mem": {"value": "8Gi"}}}
        for name in ("s0", "s1")
    ]


def _draw_device(source: random.Random, name: str, sets: list[Json], number: int) -> Json:
    device: Json = {
        "name": name,
        "attributes": {
            "model": {"string": source.choice(("m1", "m2"))},
            "index": {"int": number},
            "rdma": {"bool": _one(source, 0.7)},
            "numa": {"int": source.randrange(2)},
            "version": {"version": source.choice(("1.0.0", "1.2.0"))},
            "resource.kubernetes.io/root": {"string": source.choice("xyz")},
        },
        "capacity": {"memory": {"value": source.choice(("2Gi", "4Gi", "8Gi"))}},
    }
    for attribute in ("numa", "model"):
        if _one(source, 0.05):
            del device["attributes"][attribute]
    if sets and _one(source, 0.8):
        drawn = source.choice(sets)["name"] if not _one(source, 0.02) else "unknown"
        amounts = {
            "slots": {"value": str(source.randrange(1, 4))},
            "mem": {"value": source.choice(("1Gi", "4Gi"))},
        }
        device["consumesCounters"] = [{"counterSet": drawn, "counters": amounts}]
    if _one(source, 0.15):
        key, effect = source.choice(_TAINTS)
        device["taints"] = [{"key": key, "effect": effect}]
    if _one(source, 0.25):
        device["allowMultipleAllocations"] = True
        device["capacity"]["memory"] |= _draw_policy(source)
    if _one(source, 0.03):
        device["bindingConditions"] = ["ready"]
        device["bindingFailureConditions"] = ["broken"]
    return device


def _draw_policy(source: random.Random) -> Json:
    return source.choice(
        (
            {},
            {"requestPolicy": {"default": "1Gi"}},
            {"requestPolicy": {"default": "1Gi", "validRange": {"min": "1Gi", "max": "4Gi", "step": "1Gi"}}},
            {"requestPolicy": {"default": "1Gi", "validRange": {"min": "1Gi"}}},
            {"requestPolicy": {"default": "2Gi", "validValues": ["1Gi", "2Gi", "4Gi"]}},
        )
    )


def _draw_claim(source: random.Random, at: int) -> Json:
    requests = [_draw_request(source, f"r{number}") for number in range(source.choice((1, 1, 2, 3)))]
    constraints = []
    for _ in range(source.choice((0, 0, 1, 2))):
        kind = source.choice(("matchAttribute", "matchAttribute", "distinctAttribute"))
        attribute = source.choice(
            (
                "resource.kubernetes.io/root",
                "gpu.example.com/numa",
                "gpu.example.com/version",
                "gpu.example.com/model",
            )
        )
        names = [one["name"] for one in requests]
        constraints.append(
            {kind: attribute} | ({"requests": source.sample(names, 1)} if _one(source, 0.3) else {})
        )
    return {
        "metadata": {"name": f"c{at}", "namespace": "default", "uid": f"uid-{at}"},
        "spec": {"devices": {"requests": requests, "constraints": constraints}},
    }


def _draw_request(source: random.Random, name: str) -> Json:
    if _one(source, 0.25):
        choices = [
            _draw_exactly(source, is_choice=True) | {"name": f"o{at}"}
            for at in range(source.choice((1, 2, 3)))
        ]
        return {"name": name, "firstAvailable": choices}
    return {"name": name, "exactly": _draw_exactly(source, is_choice=False)}


def _draw_exactly(source: random.Random, *, is_choice: bool) -> Json:
    found: Json = {
        "deviceClassName": source.choice(("any", "gpu", "gpu", "big", "net"))
        if not _one(source, 0.01)
        else "none",
        "selectors": [
            {"cel": {"expression": one}} for one in source.sample(_SELECTORS, source.choice((0, 0, 0, 1, 2)))
        ],
        "allocationMode": "ExactCount",
        "count": source.choice((1, 1, 1, 2, 3)),
    }
    if _one(source, 0.05):
        found["allocationMode"] = "All"
        del found["count"]
    if _one(source, 0.1) and not is_choice:
        found["adminAccess"] = True
    if _one(source, 0.2):
        found["tolerations"] = [
            source.choice(
                ({"operator": "Exists"}, {"key": "sick", "operator": "Exists", "effect": "NoSchedule"})
            )
        ]
    if _one(source, 0.25):
        name = "memory" if not _one(source, 0.1) else "cores"
        found["capacity"] = {"requests": {name: source.choice(("1Gi", "2500Mi", "3Gi", "8Gi"))}}
    return found


def _draw_held(source: random.Random, slices: list[Json]) -> list[Json]:
    found: list[Json] = []
    for one in slices:
        spec = one["spec"]
        for device in spec.get("devices", ()):
            if not _one(source, 0.15):
                continue
            result: Json = {
                "request": "r",
                "driver": spec["driver"],
                "pool": spec["pool"]["name"],
                "device": device["name"],
            }
            if device.get("allowMultipleAllocations"):
                result |= {"shareID": f"share-{len(found)}", "consumedCapacity": {"memory": "1Gi"}}
            elif _one(source, 0.1):
                result["adminAccess"] = True
            found.append(
                {
                    "metadata": {"name": f"h{len(found)}", "namespace": "default"},
                    "spec": {"devices": {}},
                    "status": {"allocation": {"devices": {"results": [result]}}},
                }
            )
    return found
