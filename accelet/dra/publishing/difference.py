"""What must be written so that the API server has exactly a pool's slices.

The rules are those of Kubernetes' own publisher, resourceslice/resourceslicecontroller.go of 1.36: a
slice that is there keeps its name, obsolete ones go first, and the pool's generation grows when more than
one slice changes, so that no scheduler takes a mixture for the whole.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from accelet.dra.pool import DevicePool
from accelet.dra.publishing.serverform import NO_REWRITES, Rewrites, content_of, is_kept
from accelet.dra.publishing.slices import divide, render
from accelet.kube.apiresources import Body

_INDEX = re.compile(r"([0-9a-f]{5})-")


def index_of(name: str) -> int | None:
    """A slice's place in its pool, by its name or what its name begins with."""
    match = _INDEX.match(name)
    return int(match[1], 16) if match else None


def generation_of(spec: Mapping[str, object]) -> int:
    pool = spec.get("pool")
    generation = pool.get("generation") if isinstance(pool, Mapping) else None
    return generation if isinstance(generation, int) else 0


def spec_of(body: Body) -> Mapping[str, object]:
    spec = body["spec"]
    assert isinstance(spec, Mapping)
    return spec


@dataclass(frozen=True, slots=True)
class Published:
    """A slice that the API server has. `spec` is as it came; `owner` is the UID of the Node that owns it."""

    name: str
    uid: str
    version: str
    spec: Mapping[str, object]
    owner: str = ""

    @property
    def index(self) -> int | None:
        return index_of(self.name)

    @property
    def generation(self) -> int:
        return generation_of(self.spec)


@dataclass(frozen=True, slots=True)
class Replacement:
    """A slice that stays, with another content."""

    old: Published
    body: Body


@dataclass(frozen=True, slots=True)
class Difference:
    """What to do, in this order: delete, replace, create. Empty where all is as it should be."""

    delete: tuple[Published, ...] = ()
    replace: tuple[Replacement, ...] = ()
    create: tuple[Body, ...] = ()

    @property
    def is_empty(self) -> bool:
        return not (self.delete or self.replace or self.create)


def compare(
    pool: DevicePool, published: Sequence[Published], owner: str, rewrites: Rewrites = NO_REWRITES
) -> Difference:
    """From `published`, all slices of this driver on this node, to the slices of `pool`.

    `owner` is the UID of the Node, `rewrites` the forms in which the server keeps what it was sent.
    """
    parts = divide(pool)

    def is_same(index: int, body: Body) -> bool:
        old, spec = kept[index], spec_of(body)
        sent, found = content_of(spec, owner), content_of(old.spec, old.owner)
        return generation_of(spec) == old.generation and is_kept(sent, found, rewrites.get(index))

    kept: dict[int, Published] = {}
    obsolete = []
    for one in sorted(published, key=lambda slice_: slice_.name):
        is_wanted = one.index is not None and one.index < len(parts) and one.index not in kept
        if one.index is not None and is_wanted:
            kept[one.index] = one
        else:
            obsolete.append(one)
    newest = max((one.generation for one in published), default=0)

    def bodies(generation: int) -> list[Body]:
        return [render(pool, part, generation=generation, count=len(parts)) for part in parts]

    current = max(newest, 1)
    changed = [
        index for index, body in enumerate(bodies(current)) if index not in kept or not is_same(index, body)
    ]
    if not changed:
        return Difference(delete=tuple(obsolete))
    is_small = len(changed) == 1 and changed[0] in kept and not obsolete
    is_first = not kept and not obsolete
    generation = current if is_small or is_first else newest + 1
    wanted = bodies(generation)
    return Difference(
        tuple(obsolete),
        tuple(
            Replacement(kept[index], _take_over(body, kept[index], owner))
            for index, body in enumerate(wanted)
            if index in kept and (generation != current or index in changed)
        ),
        tuple(_owned(body, pool.node, owner) for index, body in enumerate(wanted) if index not in kept),
    )


def _owned(body: Body, node: str, owner: str) -> Body:
    metadata = body["metadata"]
    assert isinstance(metadata, Mapping)
    reference = {"apiVersion": "v1", "kind": "Node", "name": node, "uid": owner, "controller": True}
    return {**body, "metadata": {**metadata, "ownerReferences": [reference]}}


def _take_over(body: Body, old: Published, owner: str) -> Body:
    """The new content under the old name, only over the version that was read; old taints keep their
    times.
    """
    spec = spec_of(body)
    node = str(spec["nodeName"])
    metadata = _owned(body, node, owner)["metadata"]
    assert isinstance(metadata, Mapping)
    kept = {"name": old.name, "uid": old.uid, "resourceVersion": old.version}
    owners = {"ownerReferences": metadata["ownerReferences"]}
    return {**body, "metadata": {**kept, **owners}, "spec": _keep_times(spec, old.spec)}


def _keep_times(spec: Mapping[str, object], old: Mapping[str, object]) -> Mapping[str, object]:
    times: dict[object, object] = {
        (device.get("name"), taint.get("key"), taint.get("effect"), taint.get("value")): taint["timeAdded"]
        for device in _mappings(old.get("devices"))
        for taint in _mappings(device.get("taints"))
        if "timeAdded" in taint
    }
    if not times or "devices" not in spec:
        return spec
    return {**spec, "devices": [_timed(device, times) for device in _mappings(spec["devices"])]}


def _timed(device: Mapping[str, object], times: Mapping[object, object]) -> Mapping[str, object]:
    if "taints" not in device:
        return device
    taints = []
    for taint in _mappings(device["taints"]):
        time = times.get((device.get("name"), taint.get("key"), taint.get("effect"), taint.get("value")))
        taints.append(taint if time is None else {**taint, "timeAdded": time})
    return {**device, "taints": taints}


def _mappings(value: object) -> list[Mapping[str, object]]:
    listed = value if isinstance(value, list | tuple) else []
    return [one for one in listed if isinstance(one, Mapping)]
