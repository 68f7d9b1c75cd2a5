"""The image that is shipped runs, and reaches the API servers that its Python alone would not."""

from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path

import pytest

from release.places import PACKAGES
from tests.e2e.cluster.kubeconfig import Token, write_kubeconfig
from tests.e2e.cluster.node import Node
from tests.e2e.cluster.python_image import python_image
from tests.e2e.cluster.workloads import Workloads
from tests.integration.kube.authorities import Authority, serving

# The first time, the project's dependencies are downloaded.
pytestmark = pytest.mark.timeout(600)

IMPORTS = """
import accelet, ctypes, google.auth, grpc, kubernetes.client, numpy, ssl, watchdog.observers, yaml
print(accelet.__file__, ssl.create_default_context().get_ca_certs() != [])
"""
IMAGE = "accelet.dev/e2e/agent:1"
ASKING = """
import asyncio, pathlib, ssl, sys
from accelet.kube.apiresources import NODES
from accelet.kube.client import Client
from accelet.kube.errors import UnavailableError

async def ask(path):
    client = await Client.connect(path)
    try:
        return "listed " + (await client.list_page(NODES)).resource_version
    except UnavailableError as error:
        return "refused" if "certificate" in str(error).lower() else str(error)
    finally:
        client.close()

for path in sorted(pathlib.Path("/trust").glob("*.kubeconfig")):
    print(path.stem, asyncio.run(ask(path)))
print("strict", bool(ssl.create_default_context().verify_flags & ssl.VERIFY_X509_STRICT))
"""
"""A list of Nodes by each kubeconfig, and whether Python by itself holds authorities to the letter."""


@pytest.fixture(scope="module", autouse=True)
def image(node: Node, tmp_path_factory: pytest.TempPathFactory) -> None:
    """The image, on the node."""
    node.containerd.import_image(python_image(IMAGE, tmp_path_factory.mktemp("image") / "agent.tar"))


def test_command_of_the_project_runs_in_a_pod(workloads: Workloads) -> None:
    agent = {"name": "agent", "image": IMAGE, "imagePullPolicy": "Never", "args": ["--version"]}
    python = {
        **agent,
        "name": "python",
        "command": ["python", "-c"],
        "args": [IMPORTS],
    }
    workloads.apply(
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": "agent"},
            "spec": {"restartPolicy": "Never", "hostNetwork": True, "containers": [agent, python]},
        }
    )

    workloads.wait_for_phase("agent", "Succeeded")

    assert workloads.log("agent", "agent").strip()
    assert workloads.log("agent", "python").split() == [f"/{PACKAGES}/accelet/__init__.py", "True"]
    workloads.delete_pod("agent")


def trust(folder: Path, stack: ExitStack) -> Mapping[str, str]:
    """Kubeconfigs that name the authority of the first server, which says nothing of what its key is for."""
    authority = Authority.create(folder / "authority")
    stranger = Authority.create(folder / "stranger")
    urls = {
        "authority-without-key-usage": stack.enter_context(serving(*authority.issue("IP:127.0.0.1"))),
        "another-authority": stack.enter_context(serving(*stranger.issue("IP:127.0.0.1"))),
        "another-name": stack.enter_context(serving(*authority.issue("DNS:example.com"))),
    }
    files = {"ca.crt": authority.certificate.read_text()}
    for name, url in urls.items():
        path = folder / f"{name}.kubeconfig"
        write_kubeconfig(path, server=url, ca=Path("/trust/ca.crt"), credentials=Token("t"))
        files[path.name] = path.read_text()
    return files


def test_authority_without_key_usage_is_believed_and_strangers_are_not(
    workloads: Workloads, tmp_path: Path
) -> None:
    """As the authorities of EKS, older GKE and microk8s; Debian's Python alone would refuse them."""
    with ExitStack() as stack:
        files = trust(tmp_path, stack)
        workloads.apply(
            {"kind": "ConfigMap", "metadata": {"name": "trust", "namespace": "default"}, "data": files}
        )
        container = {
            "name": "asks",
            "image": IMAGE,
            "imagePullPolicy": "Never",
            "command": ["python3", "-c", ASKING],
            "volumeMounts": [{"name": "trust", "mountPath": "/trust"}],
        }
        spec = {
            "restartPolicy": "Never",
            "hostNetwork": True,
            "containers": [container],
            "volumes": [{"name": "trust", "configMap": {"name": "trust"}}],
        }
        workloads.apply({"kind": "Pod", "metadata": {"name": "asks", "namespace": "default"}, "spec": spec})
        workloads.wait_for_phase("asks", "Succeeded")
        said = workloads.log("asks", "asks").splitlines()
    assert said == [
        "another-authority refused",
        "another-name refused",
        "authority-without-key-usage listed 7",
        "strict True",
    ]
    workloads.delete_pod("asks")
