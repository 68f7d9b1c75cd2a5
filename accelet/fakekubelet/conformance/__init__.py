"""Checks what any device plugin, in whatever language, owes a kubelet; from outside, by a fake one.

dra/         Checks what any DRA driver, in whatever language, owes a kubelet; from outside, by a fake one.
allocating   Whether containers get what they need, whatever the kubelet does around it.
bench        What a check works with: a fresh fake kubelet and a freshly started plugin.
checks       All checks, in the order in which they are run.
given =      What is wrong with an answer to Allocate, as a container runtime would find it. Nothing here is
             called.
giving       Whether a container runtime can start a container with what the plugin gives it.
launch       Starts and stops the plugin under test, and takes its devices away.
listing      Whether the device list is right: complete, stable, quiet, within limits.
load         How much a plugin has to wait for a processor, so that a busy machine is not taken for a slow
             plugin.
registering  Whether the plugin registers, and does so again whenever it has to.
runner       Runs checks, each with a kubelet and a plugin of its own.
stopping     Whether the plugin ends well, and begins well after it did not.
"""

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
