"""The agent with the rule of Intel's former resource manager in the matching's place, to compare with.

`python -m tests.e2e.original_agent CONFIG KUBECONFIG NODE`
"""

import sys
from pathlib import Path

from accelet.agent.configfile import ConfigFile
from accelet.agent.process import Agent, AgentOptions
from accelet.kube.errors import KubeError
from accelet.kube.poduid import PodUid
from accelet.kubelet.errors import PodResourcesError
from accelet.kubelet.paths import KubeletPaths
from accelet.kubelet.podresources import PodResources
from accelet.node.pods.view import PodView
from accelet.runtime.logs import configure_logs
from accelet.runtime.run import run_until_signal
from deviceplugin.reconciler import Reconciler
from deviceplugin.search import FoundCaller
from resourcemanager.manager import ResourceManager
from resourcemanager.matching.admissions import Admissions
from resourcemanager.matching.inquiry import Doubt, Match, NoProof, Proof
from tests.unit.resourcemanager.original_rule import guess_owner


class OriginalSearch:
    """Lists the node's pods at the API server and all pods of podresources, and takes the oldest `gas-ts`.

    The original asks at every call, and once more a second later where it has found nobody, which is left
    out here. Its guess is taken for proven, since the original takes it so.
    """

    def __init__(
        self, manager: ResourceManager, reconciler: Reconciler, pods: PodView, pod_resources: PodResources
    ) -> None:
        self._pods = pods
        self._pod_resources = pod_resources

    async def find(
        self,
        size: int,
        *,
        kubelet: str,
        admissions: Admissions,
        heard_before: frozenset[PodUid],
        within_s: float,
    ) -> FoundCaller:
        try:
            pods = await self._pods.read_pods()
            shown = {(pod.namespace, pod.name): pod for pod in await self._pod_resources.list_all()}
        except (KubeError, PodResourcesError) as error:
            return FoundCaller(NoProof(Doubt.UNANSWERED, str(error)), {})
        owner = guess_owner(list(pods.values()), shown)
        if owner is None:
            return FoundCaller(NoProof(Doubt.NOBODY, "There is no candidate."), pods)
        return FoundCaller(Match(owner, pods[owner.pod_uid], Proof.VISIBLE), pods)

    def forget_kubelet(self) -> None:
        pass


async def main(config: Path, kubeconfig: Path, node: str) -> None:
    options = AgentOptions(Path("/"), KubeletPaths(), node, ("127.0.0.1", 0), kubeconfig)
    await Agent(options, ConfigFile(config), OriginalSearch).run()


if __name__ == "__main__":
    configure_logs("info")
    sys.exit(run_until_signal(main(Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3])))
