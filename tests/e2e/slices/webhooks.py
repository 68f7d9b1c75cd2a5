"""Webhooks of a controller that runs beside the control plane, at a URL as there are no services."""

import base64
import shutil
from collections.abc import AsyncIterator, Set
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import yaml

from accelet.kube.apiresources import ApiResource
from accelet.kube.client import Client
from tests.e2e.cluster.control_plane import ControlPlane
from tests.free_ports import LOOPBACK

_KINDS = {
    kind: ApiResource(kind, f"{kind.lower()}s", "admissionregistration.k8s.io")
    for kind in ("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration")
}


@dataclass(frozen=True)
class Webhooks:
    """Those that `manifests` has for the resources named in `served`, of the controller `name`."""

    name: str
    manifests: Path
    served: Set[str]


@asynccontextmanager
async def applied(
    cluster: ControlPlane, client: Client, webhooks: Webhooks, port: int
) -> AsyncIterator[None]:
    """Has the API server ask them on 127.0.0.1, and no more at the end."""
    authority = base64.b64encode(cluster.authority.keys.certificate.read_bytes()).decode()
    for document in yaml.load_all(webhooks.manifests.read_text(), yaml.CSafeLoader):
        kept = [one for one in document["webhooks"] if webhooks.served >= set(one["rules"][0]["resources"])]
        for webhook in kept:
            url = f"https://{LOOPBACK}:{port}{webhook['clientConfig']['service']['path']}"
            webhook["clientConfig"] = {"url": url, "caBundle": authority}
        name = f"{webhooks.name}-{document['kind'].lower()}"
        body = document | {"metadata": {"name": name}, "webhooks": kept}
        await client.patch(_KINDS[document["kind"]], None, name, body, "apply")
    try:
        yield
    finally:
        for kind, resource in _KINDS.items():
            await client.delete(resource, None, f"{webhooks.name}-{kind.lower()}")


def write_certificate(cluster: ControlPlane, name: str, folder: Path) -> None:
    """A certificate for 127.0.0.1 and its key, as controllers look for them in a folder."""
    keys = cluster.authority.issue(name, common_name=name, addresses=(f"IP:{LOOPBACK}",))
    folder.mkdir(parents=True)
    shutil.copy(keys.certificate, folder / "tls.crt")
    shutil.copy(keys.key, folder / "tls.key")
