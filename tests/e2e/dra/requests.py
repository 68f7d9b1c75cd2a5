"""Pods of an ordinary user that ask for GPUs and chips in every way there is, drawn at random."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from random import Random

from tests.e2e.cluster.https_client import Json
from tests.e2e.cluster.images import BUSYBOX_IMAGE
from tests.e2e.dra.history import EXTENDED
from tests.e2e.dra.oracle import VIEW

TILE, CARD = "tile.gpu.accelet.dev", "gpu.accelet.dev"
SHARES = ("100", "250", "500")


def _request(name: str, device_class: str, **fields: object) -> Json:
    return {"name": name, "exactly": {"deviceClassName": device_class, **fields}}


def _template(name: str, *requests: Json, **devices: object) -> Json:
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaimTemplate",
        "metadata": {"name": name},
        "spec": {"spec": {"devices": {"requests": list(requests), **devices}}},
    }


def templates() -> list[Json]:
    """What the pods' claims are made from."""
    same = [{"requests": ["gpu"], "matchAttribute": "gpu.accelet.dev/card"}]
    shares = [
        _template(f"share-{part}", _request("gpu", CARD, capacity={"requests": {"millicores": part}}))
        for part in SHARES
    ]
    boxes = [_template(f"chips-{n}", _request("tpu", f"chips-{n}.tpu.accelet.dev")) for n in (1, 2, 4)]
    return [
        _template("tile", _request("gpu", TILE)),
        _template("pair", _request("gpu", TILE, count=2), constraints=same),
        _template("card", _request("gpu", CARD)),
        _template("each", _request("left", TILE), _request("right", TILE)),
        *shares,
        *boxes,
    ]


@dataclass(frozen=True)
class Asked:
    """A pod, and how its containers use its claims: by container, pairs of a claim's name in the pod and a
    request, or None for the whole. `claims` is how many it has.
    """

    pod: Json
    uses: Mapping[str, Sequence[tuple[str, str | None]]]
    claims: int
    is_share: bool = False

    @property
    def name(self) -> str:
        return str(self.pod["metadata"]["name"])


KINDS = ("tile", "pair", "share", "card", "two-cards", "each", "init", "tiles", "i915", "box", "chips")


def draw(random: Random, number: int, kind: str) -> Asked:
    """A pod of one kind, which prints its view and ends by itself after some seconds."""
    name, seconds = f"{kind}-{number}", random.randint(2, 7)
    classic = {
        "tiles": {"gpu.intel.com/tiles": random.choice((1, 1, 2))},
        "i915": {"gpu.intel.com/i915": 1},
        "chips": {f"tpu.accelet.dev/chips-{random.choice((1, 2))}": 1},
    }
    if kind in classic:
        return _classic(name, classic[kind], seconds)
    if kind == "two-cards":
        both = {"main": [("first", None), ("second", None)]}
        return _pod(name, {"first": "card", "second": "card"}, both, seconds)
    if kind == "each":
        each = {"a": [("devices", "left")], "b": [("devices", "right")]}
        return _pod(name, {"devices": "each"}, each, seconds)
    template = {
        "share": f"share-{random.choice(SHARES)}",
        "box": f"chips-{random.choice((1, 2, 4))}",
        "init": "tile",
    }.get(kind, kind)
    init = {"first": [("devices", None)]} if kind == "init" else {}
    asked = _pod(
        name,
        {"devices": template},
        {**init, "main": [("devices", None)]},
        seconds,
        init=next(iter(init), None),
    )
    return replace(asked, is_share=kind == "share")


def _pod(
    name: str,
    claims: Mapping[str, str],
    uses: Mapping[str, Sequence[tuple[str, str | None]]],
    seconds: int,
    init: str | None = None,
) -> Asked:
    made = {
        container: _container(container, seconds if container != init else 1, {"claims": _references(used)})
        for container, used in uses.items()
    }
    pod = _bare(name, [one for container, one in made.items() if container != init])
    if init is not None:
        pod["spec"]["initContainers"] = [made[init]]
    pod["spec"]["resourceClaims"] = [
        {"name": claim, "resourceClaimTemplateName": template} for claim, template in claims.items()
    ]
    return Asked(pod, uses, len(claims))


def _classic(name: str, limits: Mapping[str, int], seconds: int) -> Asked:
    amounts = {resource: str(count) for resource, count in limits.items()}
    return Asked(
        _bare(name, [_container("main", seconds, {"limits": amounts})]), {"main": [(EXTENDED, None)]}, 1
    )


def _references(used: Sequence[tuple[str, str | None]]) -> list[Json]:
    return [{"name": claim, **({"request": request} if request else {})} for claim, request in used]


def _container(name: str, seconds: int, resources: Json) -> Json:
    return {
        "name": name,
        "image": BUSYBOX_IMAGE,
        "imagePullPolicy": "Never",
        "command": ["sh", "-c", f"{VIEW}; sleep {seconds}"],
        "resources": resources,
    }


def _bare(name: str, containers: list[Json]) -> Json:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name},
        "spec": {
            # A kubelet that is killed takes the starts of containers with it that are under way.
            "restartPolicy": "OnFailure",
            "hostNetwork": True,
            "terminationGracePeriodSeconds": 0,
            "containers": containers,
        },
    }
