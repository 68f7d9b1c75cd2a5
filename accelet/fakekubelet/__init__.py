"""A faithful fake kubelet, for anyone who writes a device plugin or a DRA driver."""

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
