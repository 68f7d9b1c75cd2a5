"""A faithful fake kubelet, for anyone who writes a device plugin."""

from importlib import import_module
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from accelet.fakekubelet.behaviour import KubeletVersion, kubelet_version
    from accelet.fakekubelet.clock import Clock, ManualClock, SystemClock
    from accelet.fakekubelet.devices.devicemanager import KubeletCrash, PluginDevice
    from accelet.fakekubelet.faults import Hang, Late, Refuse
    from accelet.fakekubelet.kubelet import FakeKubelet
    from accelet.fakekubelet.life import KubeletDownError
    from accelet.fakekubelet.node import ContainerState, Phase, PodRecord, PodRejectedError, Rejection
    from accelet.fakekubelet.pods import Container, Pod, a_container, a_pod
    from accelet.fakekubelet.trace import Event, StillWaitingError, Trace

_HOMES: Final = {
    "KubeletVersion": "behaviour",
    "kubelet_version": "behaviour",
    "Clock": "clock",
    "ManualClock": "clock",
    "SystemClock": "clock",
    "KubeletCrash": "devices.devicemanager",
    "PluginDevice": "devices.devicemanager",
    "Hang": "faults",
    "Late": "faults",
    "Refuse": "faults",
    "FakeKubelet": "kubelet",
    "KubeletDownError": "life",
    "ContainerState": "node",
    "Phase": "node",
    "PodRecord": "node",
    "PodRejectedError": "node",
    "Rejection": "node",
    "Container": "pods",
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
    "Clock",
    "Container",
    "ContainerState",
    "Event",
    "FakeKubelet",
    "Hang",
    "KubeletCrash",
    "KubeletDownError",
    "KubeletVersion",
    "Late",
    "ManualClock",
    "Phase",
    "PluginDevice",
    "Pod",
    "PodRecord",
    "PodRejectedError",
    "Refuse",
    "Rejection",
    "StillWaitingError",
    "SystemClock",
    "Trace",
    "a_container",
    "a_pod",
    "kubelet_version",
]
