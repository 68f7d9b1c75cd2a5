"""Keeps a resource's ledger in line with the kubelet's records and the API server, and says what changed."""

from collections.abc import Mapping

from accelet.accelerators.device import DeviceId
from accelet.kube.errors import KubeError
from accelet.kube.objects import ObjectKey
from accelet.kube.pods import Pod
from accelet.kube.poduid import PodUid
from accelet.kubelet.checkpoint import Checkpoint
from accelet.kubelet.errors import PodResourcesError
from accelet.kubelet.podresources import PodRecord, PodResources
from accelet.node.kubeletrecords import KubeletRecords
from accelet.node.pods.view import PodView
from accelet.runtime.logs import Log
from deviceplugin.metrics import ResourceMetrics
from resourcemanager.holdings.doubles import find_doubles
from resourcemanager.holdings.reconcile import AnswerOutcome, Reconciled, View, has_unasked, pods_to_ask
from resourcemanager.manager import ResourceManager

_log = Log(__name__)


class Reconciler:
    """Keeps one resource's ledger.

    That of a resource without assignments follows the kubelet's checkpoint alone, and nobody else is asked.
    """

    def __init__(
        self,
        manager: ResourceManager,
        records: KubeletRecords,
        metrics: ResourceMetrics,
        *,
        pod_resources: PodResources | None = None,
        pods: PodView | None = None,
    ) -> None:
        self._manager = manager
        self._log = _log.bind(resource=manager.rules.resource)
        self._records = records
        self._metrics = metrics
        self._pod_resources = pod_resources
        self._pods = pods
        self._last: Checkpoint | None = None
        self._doubles: Mapping[DeviceId, frozenset[PodUid]] = {}

    @property
    def _resource(self) -> str:
        return self._manager.rules.resource

    async def keep(self) -> None:
        """Asks everybody who can be asked; from here holdings end."""
        checkpoint = await self._records.checkpoint()
        has_checkpoint = checkpoint is not None
        pods = self._known_pods()
        shown = await self._ask_shown(pods, has_checkpoint=has_checkpoint)
        ledgers = self._manager.ledgers
        has_open = any(has_unasked(ledger, shown, pods) for ledger in ledgers)
        are_newer = has_open and await self._read_pods()
        if are_newer:
            # A pod that has come since, under the name of another, must not be taken for whom was shown.
            pods = self._known_pods()
            shown = await self._ask_shown(pods, has_checkpoint=has_checkpoint)
        # Whom a watch that may lag does not know is not gone for that: without another's word, no pod is.
        seen = pods if shown is not None or are_newer else None
        entries = None if checkpoint is None else checkpoint.entries
        is_current = self._records.is_current
        former = self._former_pods()
        view = View(
            entries, shown, seen, is_of_this_kubelet=is_current, are_pods_newer=are_newer, former=former
        )
        self._take(checkpoint, view)
        self._manager.reconcile_others(view)

    async def follow_checkpoint(self, *, is_after_answers: bool = False) -> None:
        """Takes over what the kubelet has written since the last time; next to nothing where that is none.

        `is_after_answers`: whatever answer the kubelet has not written by now, it has thrown away.
        """
        checkpoint = await self._records.checkpoint()
        if checkpoint is not None and (is_after_answers or checkpoint is not self._last):
            # Podresources is asked for nobody: nothing ends by this view.
            shown: Mapping[ObjectKey, PodRecord | None] = {}
            is_current = self._records.is_current
            pods, former = self._known_pods(), self._former_pods()
            view = View(checkpoint.entries, shown, pods, is_after_answers, is_current, former=former)
            self._take(checkpoint, view)

    def _known_pods(self) -> tuple[Pod, ...] | None:
        if self._pods is None or not self._pods.is_synced:
            return None
        return tuple(self._pods.pods().values())

    def _former_pods(self) -> frozenset[PodUid]:
        return frozenset() if self._pods is None else frozenset(self._pods.deleted())

    async def _read_pods(self) -> bool:
        """Asks the API server for the pods as they are now; whether it told."""
        if self._pods is None or not self._pods.can_read:
            return False
        try:
            await self._pods.read_pods()
        except KubeError as error:
            _log.debug("the API server does not help to keep the books", reason=str(error))
            return False
        return True

    async def _ask_shown(
        self, pods: tuple[Pod, ...] | None, *, has_checkpoint: bool
    ) -> Mapping[ObjectKey, PodRecord | None] | None:
        if self._pod_resources is None:
            return None
        names = [name for ledger in self._manager.ledgers for name in pods_to_ask(ledger, pods)]
        if not has_checkpoint:
            # As with IdentityAllocator: only where assignments are followed.
            from resourcemanager.matching.candidates import list_needs  # noqa: PLC0415

            names += [pod.key for pod in pods or () if list_needs(pod, self._resource)]
        try:
            return {name: await self._pod_resources.get(*name) for name in dict.fromkeys(names)}
        except PodResourcesError as error:
            _log.debug("podresources does not help to keep the books", reason=str(error))
            return None

    def _take(self, checkpoint: Checkpoint | None, view: View) -> None:
        self._last = checkpoint
        reconciled = self._manager.reconcile_ledger(view)
        self._report(reconciled)
        self._metrics.set_held(len(reconciled.ledger.held))
        doubles = find_doubles(reconciled.ledger)
        for device, uids in doubles.items():
            if self._doubles.get(device) != uids:
                self._metrics.count_repeated(1)
                self._log.error(
                    "the kubelet gave a device twice",
                    device=device,
                    pods=sorted(uids),
                )
        self._doubles = doubles

    def _report(self, reconciled: Reconciled) -> None:
        for settled in reconciled.settled:
            self._metrics.count_settled(settled.outcome.value)
            if settled.outcome is AnswerOutcome.CORRECTED:
                self._log.error(
                    "an answer was for another container",
                    devices=sorted(settled.answer.device_ids),
                    believed=str(settled.answer.owner),
                    was=str(settled.owner),
                )
