"""A faithful fake kubelet, for anyone who writes a device plugin."""

from accelet.fakekubelet.behaviour import KubeletVersion, kubelet_version
from accelet.fakekubelet.clock import Clock, ManualClock, SystemClock
from accelet.fakekubelet.devicemanager import KubeletCrash, PluginDevice
from accelet.fakekubelet.faults import Hang, Late, Refuse
from accelet.fakekubelet.kubelet import FakeKubelet, KubeletDownError
from accelet.fakekubelet.node import ContainerState, Phase, PodRecord, PodRejectedError, Rejection
from accelet.fakekubelet.pods import Container, Pod, a_container, a_pod
from accelet.fakekubelet.trace import Event, StillWaitingError, Trace

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
