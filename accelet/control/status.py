"""What is to be written of an object's status."""

from collections.abc import Mapping


def status_patch(
    before: Mapping[str, object], after: Mapping[str, object], resource_version: str
) -> dict[str, object] | None:
    """The merge patch for the status subresource that makes `before` into `after`; None if they are the same.

    Both are whole statuses as JSON has them. It has only the fields that differ, those that go as null, and
    holds for one version of the object: on any other the API server answers 409.
    """
    changed = {name: value for name, value in after.items() if name not in before or before[name] != value}
    gone = {name: None for name in before if name not in after}
    if not changed and not gone:
        return None
    return {"metadata": {"resourceVersion": resource_version}, "status": {**changed, **gone}}
