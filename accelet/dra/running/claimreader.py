"""Claims and their pods, read from the API server."""

import asyncio
import time
from dataclasses import dataclass
from typing import Final, Protocol

from accelet.dra.errors import ClaimError, NotYetError
from accelet.dra.preparing.claim import RESOURCE_CLAIMS, AllocatedClaim, parse_claim
from accelet.dra.preparing.consumers import ConsumerPod, parse_consumer
from accelet.kube.apiresources import PODS, ApiResource
from accelet.kube.errors import ApiError, KubeError, NotFoundError

LOOK_S: Final = 0.25
"""How often it is looked again whether what stands in the way has passed."""


class Api(Protocol):
    """What is asked of the API server."""

    async def get(self, resource: ApiResource, namespace: str | None, name: str, /) -> bytes: ...


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
    """Reads the claims of one driver."""

    def __init__(self, api: Api, driver: str) -> None:
        self._api, self._driver = api, driver

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
        if not pods:
            raise NotYetError("no pod that the claim is reserved for is known to the API server")
        return tuple(pods)

    async def _get(self, resource: ApiResource, namespace: str, name: str) -> bytes | None:
        try:
            return await self._api.get(resource, namespace, name)
        except NotFoundError:
            return None
        except ApiError as error:
            raise NotYetError(f"the API server refused to show a {resource.kind}: {error.reason}") from error
        except KubeError as error:
            raise NotYetError("the API server cannot be reached") from error
