import subprocess
import sys

WITHOUT_THE_PACKAGE = (
    "accelet.kube.podparser",
    "accelet.kube.nodes",
    "accelet.kube.requests",
    "accelet.kube.reflector",
    "accelet.kube.workqueue",
    "accelet.kube.lease",
    "accelet.kube.events",
    "accelet.cli.agent",
)


def test_only_the_client_needs_the_kubernetes_package() -> None:
    """It costs more memory than everything else of an agent."""
    lines = [f"import {module}" for module in WITHOUT_THE_PACKAGE]
    script = "\n".join([*lines, "import sys", "sys.exit('kubernetes' in sys.modules)"])
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 0
