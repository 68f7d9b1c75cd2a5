"""Who owns an object, and who must have let go before it goes."""

from collections.abc import Iterable, Sequence

from accelet.kube.apiresources import ApiResource
from accelet.kube.objects import Owner


def owner_reference(resource: ApiResource, name: str, uid: str) -> dict[str, object]:
    """An entry of `metadata.ownerReferences` that makes its object the controller, and the last to go."""
    return {
        "apiVersion": resource.api_version,
        "kind": resource.kind,
        "name": name,
        "uid": uid,
        "controller": True,
        "blockOwnerDeletion": True,
    }


def controller_of(owners: Iterable[Owner]) -> Owner | None:
    """The owner that manages an object; there is one at most."""
    return next((owner for owner in owners if owner.is_controller), None)


def finalizers_patch(
    finalizers: Sequence[str], resource_version: str, *, add: str = "", remove: str = ""
) -> dict[str, object] | None:
    """The merge patch that adds and removes finalizers of an object of this version; None for no change.

    The list is written whole, so that the patch must fail, with 409, on any other version.
    """
    wanted = [name for name in finalizers if name != remove]
    if add and add not in wanted:
        wanted.append(add)
    if wanted == list(finalizers):
        return None
    return {"metadata": {"resourceVersion": resource_version, "finalizers": wanted}}
