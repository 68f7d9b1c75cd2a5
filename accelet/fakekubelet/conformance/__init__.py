"""Checks what any device plugin, in whatever language, owes a kubelet; from outside, by a fake one."""

from accelet.fakekubelet.conformance.bench import Bench, Check, FailedError, SkippedError
from accelet.fakekubelet.conformance.checks import CHECKS
from accelet.fakekubelet.conformance.launch import (
    CommandHardware,
    CommandLauncher,
    Hardware,
    Launcher,
    Plugin,
)
from accelet.fakekubelet.conformance.runner import Result, Status, run_checks

__all__ = [
    "CHECKS",
    "Bench",
    "Check",
    "CommandHardware",
    "CommandLauncher",
    "FailedError",
    "Hardware",
    "Launcher",
    "Plugin",
    "Result",
    "SkippedError",
    "Status",
    "run_checks",
]
