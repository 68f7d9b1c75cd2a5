"""A faithful fake kubelet, for anyone who writes a device plugin or a DRA driver.

It may import the rows below; no process that it stands beside.

claims/        Dynamic Resource Allocation as a kubelet does it: drivers, the claims it knows, Prepare and
               Unprepare.
conformance/   Checks what any device plugin, in whatever language, owes a kubelet; from outside, by a fake
               one.
devices/       What the kubelet remembers of devices and who holds them; no sockets.
scenario/      Scenarios: what happens to a kubelet and its pods, as a file.
services/      What the kubelet speaks: its sockets and the plugins at their other ends.
admission      Admits one pod: container by container, resource by resource, as the kubelet does.
behaviour =    What differs between kubelets, by version name.
clock          The clock a fake kubelet lives by: the machine's, or one that a test moves.
faults         What a kubelet can do wrong on purpose.
kubelet        The fake kubelet as tests and commands use it.
life           A node and the kubelets that live on it, one after the other.
node           What outlives a kubelet: its folders, the pods bound to the node, and their containers.
pods =         Pods as the kubelet sees them: what they ask for, in which containers.
process        One life of a kubelet: from its start, through a loop over pods, to its end.
pytest_plugin  pytest fixtures for anyone who writes a device plugin; comes with `pip install
               accelet[testing]`.
resource       What a test sees of one resource, always as it is now.
sample_driver  A small DRA driver that does everything right: an example, and what the checks are tried on.
sample_plugin  A small device plugin that does everything right: an example, and what the checks are tried on.
trace          What happened, one event after the other, and a way to wait for the next.
workers        Runs the containers of admitted pods; there is no runtime, they just count as running.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from accelet.fakekubelet.behaviour import KubeletVersion, kubelet_version
    from accelet.fakekubelet.claims.cache import ClaimError, ClaimInfo, FoundClaim, PreparedDevice
    from accelet.fakekubelet.claims.claimapi import ClaimApi
    from accelet.fakekubelet.claims.driverclient import ClaimRef
    from accelet.fakekubelet.claims.kubeclaims import KubeClaims, kube_claims
    from accelet.fakekubelet.claims.statefile import KubeletStartError
    from accelet.fakekubelet.claims.view import DriverView
    from accelet.fakekubelet.clock import Clock, ManualClock, SystemClock
    from accelet.fakekubelet.devices.devicemanager import KubeletCrash, PluginDevice
    from accelet.fakekubelet.faults import GiveUp, Hang, Late, LoseAnswer, Refuse, Twice
    from accelet.fakekubelet.kubelet import FakeKubelet
    from accelet.fakekubelet.life import KubeletDownError
    from accelet.fakekubelet.node import ContainerState, Phase, PodRecord, PodRejectedError, Rejection
    from accelet.fakekubelet.pods import ClaimUse, Container, Pod, PodClaim, a_container, a_pod
    from accelet.fakekubelet.trace import Event, StillWaitingError, Trace

_HOMES: Final = {
    "KubeletVersion": "behaviour",
    "kubelet_version": "behaviour",
    "ClaimApi": "claims.claimapi",
    "ClaimError": "claims.cache",
    "ClaimInfo": "claims.cache",
    "ClaimRef": "claims.driverclient",
    "DriverView": "claims.view",
    "FoundClaim": "claims.cache",
    "KubeClaims": "claims.kubeclaims",
    "KubeletStartError": "claims.statefile",
    "PreparedDevice": "claims.cache",
    "kube_claims": "claims.kubeclaims",
    "Clock": "clock",
    "ManualClock": "clock",
    "SystemClock": "clock",
    "KubeletCrash": "devices.devicemanager",
    "PluginDevice": "devices.devicemanager",
    "GiveUp": "faults",
    "Hang": "faults",
    "Late": "faults",
    "LoseAnswer": "faults",
    "Refuse": "faults",
    "Twice": "faults",
    "FakeKubelet": "kubelet",
    "KubeletDownError": "life",
    "ContainerState": "node",
    "Phase": "node",
    "PodRecord": "node",
    "PodRejectedError": "node",
    "Rejection": "node",
    "ClaimUse": "pods",
    "Container": "pods",
    "PodClaim": "pods",
    "Pod": "pods",
    "a_container": "pods",
    "a_pod": "pods",
    "Event": "trace",
    "StillWaitingError": "trace",
    "Trace": "trace",
}
"""Which module has each name. They are loaded when they are asked for: pytest loads this package in every
run, for the sake of its plugin, and gRPC is not for every run.
"""


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)


__all__ = [
    "ClaimApi",
    "ClaimError",
    "ClaimInfo",
    "ClaimRef",
    "ClaimUse",
    "Clock",
    "Container",
    "ContainerState",
    "DriverView",
    "Event",
    "FakeKubelet",
    "FoundClaim",
    "GiveUp",
    "Hang",
    "KubeClaims",
    "KubeletCrash",
    "KubeletDownError",
    "KubeletStartError",
    "KubeletVersion",
    "Late",
    "LoseAnswer",
    "ManualClock",
    "Phase",
    "PluginDevice",
    "Pod",
    "PodClaim",
    "PodRecord",
    "PodRejectedError",
    "PreparedDevice",
    "Refuse",
    "Rejection",
    "StillWaitingError",
    "SystemClock",
    "Trace",
    "Twice",
    "a_container",
    "a_pod",
    "kube_claims",
    "kubelet_version",
]
