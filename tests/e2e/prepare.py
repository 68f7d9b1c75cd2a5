"""Make this machine ready for the end-to-end tests: `python -m tests.e2e.prepare`.

Installs missing Debian packages when it may, builds missing binaries, and says what else is
missing. A second run has nothing to do.
"""

import os
import shutil
import subprocess
import sys

from tests.e2e import axe
from tests.e2e.cluster.binaries import (
    cluster_binaries,
    dra_binaries,
    filter_binaries,
    helm_binaries,
    jobset_binaries,
    kubernetes_binaries,
    other_versions,
    promql_binaries,
)
from tests.e2e.cluster.requirements import Machine, RequirementsError, check


def main() -> int:
    """Returns the exit code."""
    packages = Machine.this().missing_packages()
    if packages and os.geteuid() == 0 and shutil.which("apt-get"):
        _install(packages)
    try:
        check(Machine.this())
    except RequirementsError as error:
        _say(str(error))
        return 1
    cluster_binaries(_say)
    helm_binaries(_say)
    promql_binaries(_say)
    dra_binaries(_say)
    filter_binaries(_say)
    jobset_binaries(_say)
    for version in other_versions():
        kubernetes_binaries(version, _say)
    axe.fetch()
    _say("ready for the end-to-end tests")
    return 0


def _install(packages: list[str]) -> None:
    _say(f"installing {' '.join(packages)}")
    env = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    subprocess.run(["apt-get", "update", "-qq"], check=True, env=env)
    subprocess.run(
        ["apt-get", "install", "-qq", "--yes", "--no-install-recommends", *packages], check=True, env=env
    )


def _say(line: str) -> None:
    sys.stderr.write(line + "\n")
    sys.stderr.flush()


if __name__ == "__main__":
    sys.exit(main())
