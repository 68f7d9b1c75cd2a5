"""Kueue's Topology objects (kueue.x-k8s.io/v1beta2) as levels of the network."""

from typing import Annotated

import msgspec

from accelet.kube.apiresources import ApiResource
from accelet.kube.errors import MalformedObjectError
from accelet.kube.objects import RawObject, Wire, WireObject, read_object
from accelet.scheduler.cluster.topology import MOST_WEIGHT, Scheme

TOPOLOGIES = ApiResource("Topology", "topologies", "kueue.x-k8s.io", "v1beta2")

_USUAL_STEP = 100
"""A level further is so many times as far, as in GKE's topology scheduler; less where there are many."""

_Label = Annotated[str, msgspec.Meta(min_length=1, max_length=316)]


class _WireLevel(Wire, frozen=True):
    node_label: _Label


class _WireSpec(Wire, frozen=True):
    levels: Annotated[list[_WireLevel], msgspec.Meta(min_length=1, max_length=16)]


class _WireTopology(WireObject, frozen=True):
    spec: _WireSpec


def parse_topology(raw: RawObject) -> Scheme:
    """The levels that it says, from far to near, each called as its label is.

    Raises:
        MalformedObjectError: a field is not what Kueue's API promises.
    """
    wire = read_object(raw, "Topology", _WireTopology)
    labels = tuple(level.node_label for level in wire.spec.levels)
    step = min(float(_USUAL_STEP), MOST_WEIGHT ** (1 / len(labels)))
    weights = tuple(int(step**power) for power in range(len(labels), 0, -1))
    try:
        return Scheme(labels, weights, (labels,))
    except ValueError as error:
        raise MalformedObjectError("Topology", "", wire.metadata.name, "spec.levels", str(error)) from None
