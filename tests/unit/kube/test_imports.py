import subprocess
import sys

WITHOUT_THE_PACKAGE = (
    "accelet.kube.podparser",
    "accelet.kube.nodes",
    "accelet.kube.requests",
    "accelet.kube.watching.reflector",
    "accelet.control.workqueue",
    "accelet.control.lease",
    "accelet.kube.recording.events",
    "accelet.cli.agent",
)


def test_only_the_client_needs_the_kubernetes_package() -> None:
    """It costs more memory than everything else of an agent."""
    lines = [f"import {module}" for module in WITHOUT_THE_PACKAGE]
    script = "\n".join([*lines, "import sys", "sys.exit('kubernetes' in sys.modules)"])
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 0
