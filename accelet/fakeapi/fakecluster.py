"""A cluster of one Node, for the DRA driver that `accelet conformance --dra` checks."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from accelet.fakeapi.server import FakeApi

_PATHS = {"pods": "api/v1/pods", "resourceclaims": "apis/resource.k8s.io/v1/resourceclaims"}


class FakeCluster:
    """Implements `accelet.fakekubelet.conformance.dra.Cluster`."""

    def __init__(self) -> None:
        self._api = FakeApi()

    def start(self, kubeconfig: Path, node: str) -> None:
        self._api.__enter__()
        self._api.state.create("api/v1/nodes", "", {"metadata": {"name": node}})
        self._api.write_kubeconfig(kubeconfig)

    def stop(self) -> None:
        self._api.__exit__(None, None, None)

    def slices(self) -> Sequence[Mapping[str, Any]]:
        return list(self._api.state.list("apis/resource.k8s.io/v1/resourceslices", {}, None)["items"])

    def create(self, plural: str, namespace: str, body: Mapping[str, Any]) -> Mapping[str, Any]:
        return self._api.state.create(_PATHS[plural], namespace, dict(body))

    def allocate(self, namespace: str, name: str, results: Sequence[Mapping[str, Any]]) -> None:
        status = {"status": {"allocation": {"devices": {"results": [dict(result) for result in results]}}}}
        self._api.state.patch(_PATHS["resourceclaims"], (namespace, name), "merge-patch", status)

    def delete(self, plural: str, namespace: str, name: str) -> None:
        self._api.state.delete(_PATHS[plural], (namespace, name), None)
