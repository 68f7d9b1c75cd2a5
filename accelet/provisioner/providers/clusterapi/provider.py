"""Pools as MachineDeployments of Cluster API, in one namespace of this cluster."""

import time
from typing import Final

import msgspec

from accelet.control.writer import FencedWriter
from accelet.kube.apiresources import ApiResource
from accelet.kube.client import Client
from accelet.kube.errors import KubeError
from accelet.kube.objects import WireObject, read_object
from accelet.provisioner.pools.plan import PoolPlan
from accelet.provisioner.pools.pool import Failure, PoolList, Trouble
from accelet.provisioner.providers.clusterapi.answers import is_ours, read_pools, read_refusal
from accelet.provisioner.providers.clusterapi.body import POOL_LABEL, render_body
from accelet.provisioner.providers.protocol import ProviderError
from accelet.provisioner.settings import ClusterApiSettings
from accelet.runtime.logs import Log

_log = Log(__name__)

MACHINE_DEPLOYMENTS: Final = ApiResource(
    "MachineDeployment", "machinedeployments", "cluster.x-k8s.io", "v1beta2"
)


class ClusterApiProvider:
    """MachineDeployments with this cluster's mark; all others of the namespace are foreign."""

    pool_label = POOL_LABEL

    def __init__(
        self, client: Client, writer: FencedWriter, settings: ClusterApiSettings, cluster: str
    ) -> None:
        self._client, self._writer, self._settings = client, writer, settings
        self._cluster = cluster

    async def list_pools(self) -> PoolList:
        asked_s, items = time.time(), list[msgspec.Raw]()
        try:
            async for page in self._client.list_pages(MACHINE_DEPLOYMENTS, self._settings.namespace):
                items += page.items
            return read_pools(items, self._cluster, asked_s, self._note)
        except KubeError as error:
            raise ProviderError(str(error)) from None

    async def create(self, plan: PoolPlan) -> Failure | None:
        tier = plan.attempt.tier
        if tier.kind != "on-demand":
            return Failure(
                Trouble.INVALID, f"Cluster API has no {tier.kind} machines; what its templates say is bought"
            )
        body = render_body(plan, self._settings)
        try:
            await self._writer.create(MACHINE_DEPLOYMENTS, self._settings.namespace, body)
        except KubeError as error:
            return read_refusal(error)
        return None

    async def delete(self, pool: str) -> Failure | None:
        """Its machines end with it; one of another's is left alone, whatever its name."""
        namespace = self._settings.namespace
        try:
            raw = await self._client.get(MACHINE_DEPLOYMENTS, namespace, pool)
            metadata = read_object(raw, "MachineDeployment", WireObject).metadata
            if not is_ours(metadata, self._cluster):
                return None
            if metadata.deletion_timestamp is None:
                await self._writer.delete(MACHINE_DEPLOYMENTS, namespace, pool, uid=metadata.uid)
        except KubeError as error:
            failure = read_refusal(error)
            return None if failure.trouble is Trouble.GONE else failure
        return None

    async def run(self) -> None:
        """Cluster API does everything by itself."""

    def _note(self, text: str) -> None:
        _log.warning("odd MachineDeployment", reason=text)
