from hypothesis import given
from hypothesis import strategies as st

from accelet.kube.apiresources import JOBS
from accelet.kube.objects import Owner
from accelet.kube.writing.ownership import controller_of, finalizers_patch, owner_reference

NAMES = st.lists(st.sampled_from(["a.dev/x", "a.dev/y", "b.dev/z"]), unique=True)


@given(NAMES, st.sampled_from(["", "a.dev/x"]), st.sampled_from(["", "a.dev/y"]))
def test_finalizers_are_added_and_removed_once_and_the_others_stay(
    before: list[str], add: str, remove: str
) -> None:
    patch = finalizers_patch(before, "7", add=add, remove=remove)
    after = before if patch is None else patch["metadata"]["finalizers"]  # type: ignore[index]
    assert set(after) == {name for name in [*before, add] if name and name != remove}
    assert len(after) == len(set(after))
    assert (patch is None) == (list(after) == before)
    assert patch is None or patch["metadata"]["resourceVersion"] == "7"  # type: ignore[index]


def test_controller_is_the_owner_that_says_so() -> None:
    owners = [Owner("Node", "n", "1"), Owner("Job", "j", "2", "batch/v1", is_controller=True)]
    assert controller_of(owners) == owners[1]
    assert controller_of(owners[:1]) is None


def test_reference_names_its_owner_as_the_controller() -> None:
    assert owner_reference(JOBS, "j", "u") == {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "name": "j",
        "uid": "u",
        "controller": True,
        "blockOwnerDeletion": True,
    }
