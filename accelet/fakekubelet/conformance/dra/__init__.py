"""Checks what any DRA driver, in whatever language, owes a kubelet; from outside, by a fake one."""

from accelet.fakekubelet.conformance.dra.bench import Cluster, DraBench
from accelet.fakekubelet.conformance.dra.checks import DRA_CHECKS
from accelet.fakekubelet.conformance.dra.runner import run_dra_checks

__all__ = ["DRA_CHECKS", "Cluster", "DraBench", "run_dra_checks"]
