"""Prepares and unprepares the claims of pods, as the kubelet's DRA manager does."""

from collections.abc import Callable, Iterable, Mapping, Sequence

from accelet.fakekubelet.claims.cache import ClaimCache, ClaimError, ClaimInfo, ClaimKey, FoundClaim
from accelet.fakekubelet.claims.claimapi import ClaimApi
from accelet.fakekubelet.claims.driverclient import Answered, ClaimRef, DriverClient
from accelet.fakekubelet.claims.drivers import Drivers
from accelet.fakekubelet.claims.statefile import read_state, write_state
from accelet.fakekubelet.node import Node
from accelet.fakekubelet.pods import Container, Pod, PodClaim
from accelet.fakekubelet.services.plugin import CallError
from accelet.kube.errors import KubeError, NotFoundError


class ClaimManager:
    """One kubelet's life (Kubernetes 1.36 and 1.37, pkg/kubelet/cm/dra/manager.go)."""

    def __init__(self, node: Node, api: ClaimApi, drivers: Drivers) -> None:
        self._node, self._api, self._drivers = node, api, drivers
        self.cache = ClaimCache()

    def load(self) -> None:
        """Takes in what a former kubelet wrote down.

        Raises:
            KubeletStartError: it makes no sense, and a kubelet does not start over it.
        """
        self.cache.infos = {info.key: info for info in read_state(self._node.claim_state)}

    # Prepare.

    async def prepare(self, pod: Pod) -> None:
        """Has all claims of `pod` prepared that are not.

        Raises:
            ClaimError: one is not; the pod is not started.
        """
        found: list[FoundClaim] = []
        clients: dict[str, DriverClient] = {}
        for claim in pod.claims:
            found.append(one := await self._find(pod, claim))
            clients |= {driver: self._drivers.find(driver) for driver in one.drivers or ()}
        batches: dict[str, list[ClaimInfo]] = {}
        for one in found:
            info = self.cache.join(one, pod, guarding=self._node.version.guards_claims)
            self._save("checkpoint ResourceClaim cache")
            if not info.is_prepared:
                for driver in info.devices:
                    batches.setdefault(driver, []).append(info)
        for driver in self._shuffled(batches):
            # A claim from a former kubelet names its drivers itself.
            client = clients.get(driver) or self._drivers.find(driver)
            await self._prepare_batch(pod, client, batches[driver])
        for info in (info for batch in batches.values() for info in batch):
            info.is_prepared = True
        self._save("checkpoint ResourceClaim state")

    async def _find(self, pod: Pod, claim: PodClaim) -> FoundClaim:
        try:
            found = await self._api.find_claim(pod.namespace, claim.claim)
        except NotFoundError:
            raise ClaimError(
                f'fetch ResourceClaim {claim.claim}: resourceclaims.resource.k8s.io "{claim.claim}" not found'
            ) from None
        except KubeError as error:
            raise ClaimError(f"fetch ResourceClaim {claim.claim}: {error}") from error
        if problem := found.problem(pod, must_own=claim.generated):
            raise ClaimError(problem)
        return found

    async def _prepare_batch(self, pod: Pod, client: DriverClient, batch: Sequence[ClaimInfo]) -> None:
        names = [info.name for info in batch]
        self._node.trace.record("prepare", resource=client.driver, pod=str(pod), devices=names)
        try:
            answers = await client.prepare(_refs(batch))
        except CallError as error:
            raise ClaimError(f"NodePrepareResources: {error}") from error
        for uid, answer in answers.items():
            self._judge("NodePrepareResources", batch, uid, answer)
            info = next(each for each in batch if each.uid == uid)
            info.take(client.driver, answer.devices, appending=self._node.version.appends_prepared_devices)
        self._insist_on_all("NodePrepareResources", batch, answers)
        self._node.trace.record("prepared", resource=client.driver, pod=str(pod), devices=names)

    # Unprepare.

    async def unprepare(self, pod: Pod) -> None:
        """Has the claims of `pod` unprepared that nobody else uses.

        Raises:
            ClaimError: one is not; it is to be tried again.
        """
        noted = [info.key for info in self.cache.of_pod(pod.uid)]
        named = [(pod.namespace, claim.claim) for claim in pod.claims]
        await self._unprepare(pod.uid, noted or named if self._node.version.guards_claims else named)

    async def reconcile(self, is_active: Callable[[str], bool]) -> None:
        """Unprepares what pods have left behind that are gone."""
        gone = {uid for info in self.cache.infos.values() for uid in info.pods if not is_active(uid)}
        for uid in sorted(gone):
            try:
                await self._unprepare(uid, [info.key for info in self.cache.of_pod(uid)])
            except ClaimError as error:
                self._node.trace.record("reconcile-failed", detail=str(error))

    async def _unprepare(self, pod: str, keys: Iterable[ClaimKey]) -> None:
        last = self.cache.leave(keys, pod, guarding=self._node.version.guards_claims)
        batches: dict[str, list[ClaimInfo]] = {}
        for info in last:
            for driver in info.devices:
                batches.setdefault(driver, []).append(info)
        for driver in self._shuffled(batches):
            await self._unprepare_batch(driver, batches[driver])
        for info in last:
            self.cache.infos.pop(info.key, None)
        self._save("checkpoint ResourceClaim state")

    async def _unprepare_batch(self, driver: str, batch: Sequence[ClaimInfo]) -> None:
        names = [info.name for info in batch]
        client = self._drivers.find(driver)
        self._node.trace.record("unprepare", resource=driver, devices=names)
        try:
            answers = await client.unprepare(_refs(batch))
        except CallError as error:
            raise ClaimError(f"NodeUnprepareResources: {error}") from error
        for uid, answer in answers.items():
            self._judge("NodeUnprepareResources", batch, uid, answer)
        self._insist_on_all("NodeUnprepareResources", batch, answers)
        self._node.trace.record("unprepared", resource=driver, devices=names)

    # What containers get.

    def cdi_ids(self, pod: Pod, container: Container) -> tuple[str, ...]:
        """The CDI devices of a container; its claims come in random order, as a Go map's.

        Raises:
            ClaimError: a claim it uses is not known.
        """
        objects = {claim.name: claim.claim for claim in pod.claims}
        uses: dict[str, list[str]] = {}
        for use in container.claims:
            uses.setdefault(objects[use.name], []).append(use.request)
        ids: list[str] = []
        for name in self._shuffled(uses):
            info = self.cache.infos.get((pod.namespace, name))
            if info is None:
                raise ClaimError(
                    f"internal error: unable to get claim info for ResourceClaim {name} "
                    f"in namespace {pod.namespace}"
                )
            for request in uses[name]:
                ids += info.cdi_ids(request, self._node.rng)
        return tuple(ids)

    def used_by(self, pod: Pod, container: Container) -> list[ClaimInfo]:
        """The claims a container uses, as far as they are known."""
        used = {use.name for use in container.claims}
        keys = [(pod.namespace, claim.claim) for claim in pod.claims if claim.name in used]
        return [self.cache.infos[key] for key in keys if key in self.cache.infos]

    def _judge(self, call: str, batch: Sequence[ClaimInfo], uid: str, answer: Answered) -> None:
        info = next((each for each in batch if each.uid == uid), None)
        if info is None:
            raise ClaimError(f"{call} returned result for unknown claim UID {uid}")
        if answer.error:
            raise ClaimError(f"{call} failed for ResourceClaim {info.name}: {answer.error}")

    def _insist_on_all(self, call: str, batch: Sequence[ClaimInfo], answers: Mapping[str, Answered]) -> None:
        if len(answers) != len(batch):
            raise ClaimError(f"{call} skipped {len(batch) - len(answers)} ResourceClaims")

    def _shuffled(self, names: Iterable[str]) -> list[str]:
        shuffled = sorted(names)
        self._node.rng.shuffle(shuffled)
        return shuffled

    def _save(self, what: str) -> None:
        try:
            write_state(self._node.claim_state, self.cache.infos.values())
        except OSError as error:
            raise ClaimError(f"{what}: {error.strerror}") from error


def _refs(batch: Sequence[ClaimInfo]) -> list[ClaimRef]:
    return [ClaimRef(info.namespace, info.name, info.uid) for info in batch]
