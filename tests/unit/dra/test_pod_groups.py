"""Claims that are reserved for a PodGroup: its pods on this node are who has them."""

from pathlib import Path
from typing import Any

from accelet.dra.errors import ClaimError, NotYetError
from accelet.kube.errors import ForbiddenError, UnavailableError
from tests.unit.dra.nodes import Node
from tests.unit.dra.strategies import gpu, gpus

CARD, TILE = "gpu-0000-03-00-0", "gpu-0000-04-00-0-tile-0"
RESOURCE = gpus(gpu(3), gpu(4, tiles=2))


def _node(tmp_path: Path) -> Node:
    node = Node(tmp_path, RESOURCE)
    node.objects.groups = {CARD: "train", TILE: "train"}
    return node


def _pod(*claims: str, group: str = "train", by_status: bool = False) -> dict[str, Any]:
    """A pod of a group, whose container uses these claims."""
    named = [{"name": f"c{number}", "resourceClaimName": claim} for number, claim in enumerate(claims)]
    made = [{"name": one["name"], "resourceClaimTemplateName": "t"} for one in named]
    uses = {"claims": [{"name": one["name"]} for one in named]}
    spec = {
        "schedulingGroup": {"podGroupName": group},
        "resourceClaims": made if by_status else named,
        "containers": [{"name": "main", "resources": uses}],
    }
    return {
        "metadata": {"name": "p", "namespace": "ml", "uid": "uid-p"},
        "spec": spec,
        "status": {"resourceClaimStatuses": named} if by_status else {},
    }


async def test_a_claim_of_a_pod_group_is_prepared(tmp_path: Path) -> None:
    node = _node(tmp_path)
    for by_status in (False, True):  # of a template the name is in the status alone
        node.objects.bound = [_pod(CARD, by_status=by_status)]
        prepared = (await node.prepare(CARD))[CARD]
        assert isinstance(prepared, tuple)
        assert [one.device for one in prepared] == [CARD]
        assert await node.unprepare(CARD) == {CARD: None}


async def test_pods_of_other_groups_and_claims_are_nobody_who_has_it(tmp_path: Path) -> None:
    node = _node(tmp_path)
    node.objects.bound = [_pod(CARD, group="another"), _pod(TILE)]
    outcome = (await node.prepare(CARD))[CARD]
    assert isinstance(outcome, NotYetError)
    assert str(outcome) == "no pod that the claim is reserved for is known to the API server"


async def test_two_claims_of_a_group_in_one_container_are_refused_where_one_gives_parts(
    tmp_path: Path,
) -> None:
    node = _node(tmp_path)
    node.objects.bound = [_pod(CARD, TILE)]
    outcomes = await node.prepare(CARD, TILE)
    assert any(isinstance(one, ClaimError) and "both give parts" in str(one) for one in outcomes.values())


async def test_an_agent_that_may_not_list_pods_says_what_to_apply(tmp_path: Path) -> None:
    node = _node(tmp_path)
    node.objects.bound = ForbiddenError("GET /pods", 403, "Forbidden", "no")
    outcome = (await node.prepare(CARD))[CARD]
    assert str(outcome) == (
        "the claim is reserved for the PodGroup train, and the agent may not list pods: "
        "kubectl apply -k deploy/agent-dra/pod-groups"
    )
    node.objects.bound = UnavailableError("away")
    assert isinstance((await node.prepare(CARD))[CARD], NotYetError)
