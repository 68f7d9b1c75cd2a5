"""Claims and their pods, read from the API server."""

import asyncio
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Final, Protocol

from accelet.dra.errors import ClaimError, NotYetError
from accelet.dra.preparing.claim import RESOURCE_CLAIMS, AllocatedClaim, parse_claim
from accelet.dra.preparing.consumers import ConsumerPod, parse_consumer
from accelet.kube.apiresources import PODS, ApiResource
from accelet.kube.errors import ApiError, ForbiddenError, KubeError, NotFoundError
from accelet.kube.objects import RawObject

LOOK_S: Final = 0.25
"""How often it is looked again whether what stands in the way has passed."""


class Api(Protocol):
    """What is asked of the API server."""

    async def get(self, resource: ApiResource, namespace: str | None, name: str, /) -> bytes: ...


class PodsApi(Api, Protocol):
    """The same, with the pods of a node."""

    def pods_on(self, node: str, namespace: str, /) -> AsyncIterator[RawObject]:
        """The pods of a namespace that are bound to a node."""
        ...


@dataclass(frozen=True, slots=True)
class ClaimRef:
    """A claim as the kubelet names it."""

    namespace: str
    name: str
    uid: str


@dataclass(frozen=True)
class ReadClaim:
    """A claim with the pods it is reserved for."""

    claim: AllocatedClaim
    pods: tuple[ConsumerPod, ...]


class ClaimReader:
    """Reads the claims of one driver on one node."""

    def __init__(self, api: PodsApi, driver: str, node: str) -> None:
        self._api, self._driver, self._node = api, driver, node

    async def read(self, ref: ClaimRef, deadline: float) -> ReadClaim:
        """The claim, waited for until `deadline` (of the monotonic clock).

        Raises:
            ClaimError: it is not what can be prepared here.
            NotYetError: it cannot be read, still.
        """
        while True:
            try:
                return await self._read(ref)
            except NotYetError:
                if time.monotonic() > deadline:
                    raise
                await asyncio.sleep(LOOK_S)

    async def _read(self, ref: ClaimRef) -> ReadClaim:
        raw = await self._get(RESOURCE_CLAIMS, ref.namespace, ref.name)
        if raw is None:
            raise ClaimError("the claim is gone")
        claim = parse_claim(raw, self._driver)
        if claim.uid != ref.uid:
            raise ClaimError("another claim has the name by now")
        return ReadClaim(claim, await self._read_pods(claim))

    async def _read_pods(self, claim: AllocatedClaim) -> tuple[ConsumerPod, ...]:
        pods = []
        for consumer in claim.consumers:
            raw = await self._get(PODS, claim.namespace, consumer.name)
            pod = None if raw is None else parse_consumer(raw)
            if pod is not None and pod.uid == consumer.uid:
                pods.append(pod)
        if claim.groups:
            pods += await self._read_group(claim)
        if not pods:
            raise NotYetError("no pod that the claim is reserved for is known to the API server")
        return tuple(pods)

    async def _read_group(self, claim: AllocatedClaim) -> list[ConsumerPod]:
        """The pods on this node that use a claim of their PodGroup: the claim names the group alone."""
        found = []
        try:
            async for raw in self._api.pods_on(self._node, claim.namespace):
                pod = parse_consumer(raw)
                if pod.group in claim.groups and any(use.claim == claim.name for use in pod.uses):
                    found.append(pod)
        except ForbiddenError:
            raise NotYetError(
                f"the claim is reserved for the PodGroup {claim.groups[0]}, and the agent may not list pods: "
                "kubectl apply -k deploy/agent-dra/pod-groups"
            ) from None
        except KubeError as error:
            raise NotYetError("the API server cannot be reached") from error
        return found

    async def _get(self, resource: ApiResource, namespace: str, name: str) -> bytes | None:
        try:
            return await self._api.get(resource, namespace, name)
        except NotFoundError:
            return None
        except ApiError as error:
            raise NotYetError(f"the API server refused to show a {resource.kind}: {error.reason}") from error
        except KubeError as error:
            raise NotYetError("the API server cannot be reached") from error
