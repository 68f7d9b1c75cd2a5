"""What differs between kubelets, by version name."""

from dataclasses import dataclass
from typing import Final

V1: Final = "v1.DRAPlugin"
V1BETA1: Final = "v1beta1.DRAPlugin"
HEALTH_V1: Final = "v1.DRAResourceHealth"
HEALTH_V1ALPHA1: Final = "v1alpha1.DRAResourceHealth"
"""The services of DRA drivers, as they list them in their registration."""


@dataclass(frozen=True, slots=True)
class KubeletVersion:
    """The behaviour of one minor version, at its newest patch release.

    Only what a device plugin or a DRA driver can notice is here. Each field's comment names the change in
    Kubernetes.
    """

    name: str
    old_stream_end_kills_new: bool
    """The end of an old ListAndWatch disconnects whoever registered the resource last (until PR 135437)."""
    lists_only_active_pods: bool
    """podresources shows no pod that was rejected or has ended (KubeletPodResourcesListUseActivePods)."""
    serves_get: bool
    """podresources Get is on (KubeletPodResourcesGet, beta in 1.34)."""
    lists_sidecars: bool
    """podresources shows restartable init containers (1.29)."""
    loses_reservations_in_flight: bool
    """Freeing a dead pod's devices during an Allocate forgets that Allocate's own (until PR 137534)."""
    crashes_on_vanished_id: bool
    """An id that leaves the list during its Allocate is a nil dereference (maps of pointers, from 1.34)."""
    prints_types_of_messages: bool
    """A protobuf message in an error reads as a Go literal, also an empty one (gogo, until PR 133028)."""
    reports_device_health: bool
    """Container statuses carry allocatedResourcesStatus by default (ResourceHealthStatus, beta in 1.36)."""
    sees_every_container_of_a_name: bool
    """The restart check is not fooled by an exited container of the same name (PR 135485)."""
    driver_services: tuple[str, ...]
    """The DRA services it can call (v1beta1 from 1.32, where a gate switches it on; v1 from 1.34)."""
    watches_driver_connections: bool
    """A driver counts as gone once its connection is (1.34); before, once its registration socket is."""
    appends_prepared_devices: bool
    """A repeated answer to Prepare comes after the first one instead of in its place (until 1.36)."""
    guards_claims: bool
    """A claim that is being unprepared takes no new pod, and none is unprepared for a pod that does not
    use it (1.37)."""
    health_services: tuple[str, ...]
    """The health services of drivers it can watch, newest first (ResourceHealthStatus, beta in 1.36)."""
    watches_health_unasked: bool
    """It opens the health stream of drivers that do not list the service, every 5 s (until 1.37)."""

    def __str__(self) -> str:
        return self.name


def _version(minor: int) -> KubeletVersion:
    return KubeletVersion(
        name=f"1.{minor}",
        old_stream_end_kills_new=minor <= 36,
        lists_only_active_pods=minor >= 34,
        serves_get=minor >= 34,
        lists_sidecars=minor >= 29,
        loses_reservations_in_flight=minor <= 37,
        crashes_on_vanished_id=minor >= 34,
        prints_types_of_messages=minor <= 33,
        reports_device_health=minor >= 36,
        sees_every_container_of_a_name=minor >= 34,
        driver_services=_driver_services(minor),
        watches_driver_connections=minor >= 34,
        appends_prepared_devices=minor <= 35,
        guards_claims=minor >= 37,
        health_services=_health_services(minor),
        watches_health_unasked=minor == 36,
    )


def _driver_services(minor: int) -> tuple[str, ...]:
    if minor < 32:
        return ()
    return (V1, V1BETA1) if minor >= 34 else (V1BETA1,)


def _health_services(minor: int) -> tuple[str, ...]:
    if minor < 36:
        return ()
    return (HEALTH_V1, HEALTH_V1ALPHA1) if minor >= 37 else (HEALTH_V1ALPHA1,)


VERSIONS: Final = {version.name: version for version in map(_version, range(27, 39))}
"""`1.27` to `1.38`."""


def kubelet_version(name: str) -> KubeletVersion:
    """The behaviour of the kubelet called `name`, `1.36` or `v1.36.2`.

    Raises:
        ValueError: no such version is known; the text names those that are.
    """
    minor = ".".join(name.removeprefix("v").split(".")[:2])
    try:
        return VERSIONS[minor]
    except KeyError:
        known = list(VERSIONS)
        raise ValueError(f"unknown kubelet version {name!r}; known are {known[0]} to {known[-1]}") from None
