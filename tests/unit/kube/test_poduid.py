from collections.abc import Sequence
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from accelet.kube.objects import Owner
from accelet.kube.pods import Pod
from accelet.kube.poduid import index_pods, leave_out_forged
from tests.fakes import pods as fakes

NODE = "node-uid"
UIDS = st.sampled_from(["a", "b", "c", "d"])


def mirror(uid: str, of: str, owner: Owner | None = None) -> Pod:
    owner = owner or Owner("Node", "node", NODE, is_controller=True)
    return fakes.pod(uid, uid=uid, annotations={"kubernetes.io/config.mirror": of}, owner=owner)


PODS = st.lists(
    st.builds(lambda uid: fakes.pod(uid, uid=uid), UIDS) | st.builds(mirror, UIDS, UIDS),
    unique_by=lambda pod: pod.uid,
)


def test_mirror_of_this_node_has_the_static_pods_uid() -> None:
    one = mirror("m", "static")
    assert index_pods(leave_out_forged([one], NODE)) == {"static": one}


def test_mirror_without_this_node_as_controlling_owner_is_left_out() -> None:
    genuine = Owner("Node", "node", NODE, is_controller=True)
    forged = [
        replace(mirror("m", "static"), owners=()),
        mirror("m", "static", replace(genuine, uid="other")),
        mirror("m", "static", replace(genuine, is_controller=False)),
        mirror("m", "static", replace(genuine, kind="ReplicaSet")),
    ]
    assert list(leave_out_forged(forged, NODE)) == []


def test_no_mirror_is_believed_while_the_node_is_unknown() -> None:
    assert list(leave_out_forged([mirror("m", "static")], None)) == []
    nameless = mirror("m", "static", Owner("Node", "node", "", is_controller=True))
    assert list(leave_out_forged([nameless], "")) == []


@given(PODS)
def test_no_mirror_displaces_another_pod(pods: Sequence[Pod]) -> None:
    found = index_pods(pods)
    for pod in pods:
        if not pod.is_mirror:
            assert found[pod.uid] == pod  # type: ignore[index]  # as the kubelet names it
