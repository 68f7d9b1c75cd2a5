"""Checks what any DRA driver, in whatever language, owes a kubelet; from outside, by a fake one.

bench         What a check of a DRA driver works with: a fresh API server, fake kubelet, and driver.
checks        All checks of DRA drivers, in the order in which they are run.
preparing     Whether claims are prepared and unprepared so that a kubelet may repeat, cancel and forget.
publishing    Whether API servers and schedulers take what a driver publishes, and whether it leaves them in
              peace.
registering   Whether a driver is found, publishes, says how its devices are, and goes as it should.
runner        Runs checks of a DRA driver, each with a cluster, a kubelet and a driver of its own.
sliceforms =  ResourceSlices as a driver writes them, parsed: only so far as rules ask for it.
slicerules =  What Kubernetes 1.36 takes as the ResourceSlices of a pool. Nothing here is called but with a
              pool.
"""

from accelet.fakekubelet.conformance.dra.bench import Cluster, DraBench
from accelet.fakekubelet.conformance.dra.checks import DRA_CHECKS
from accelet.fakekubelet.conformance.dra.runner import run_dra_checks

__all__ = ["DRA_CHECKS", "Cluster", "DraBench", "run_dra_checks"]
