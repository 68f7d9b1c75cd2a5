"""What is to be written of an object's status."""

from collections.abc import Mapping

from accelet.control.errors import UnkeptStatusError


def status_patch(
    before: Mapping[str, object], after: Mapping[str, object], resource_version: str
) -> dict[str, object] | None:
    """The merge patch for the status subresource that makes `before` into `after`; None if they are the same.

    Both are whole statuses as JSON has them, without nulls. It has only the fields that differ, and holds for
    one version of the object: on any other the API server answers 409.
    """
    if before == after:
        return None
    return {"metadata": {"resourceVersion": resource_version}, "status": _difference(before, after)}


def check_kept(written: Mapping[str, object], kept: Mapping[str, object]) -> None:
    """Sees to it that nothing of a status is written again and again.

    Raises:
        UnkeptStatusError: what the API server has of it is not what was written.
    """
    if unkept := [name for name in {**written, **kept} if written.get(name) != kept.get(name)]:
        raise UnkeptStatusError(unkept)


def _difference(before: Mapping[str, object], after: Mapping[str, object]) -> dict[str, object]:
    """The merge patch (RFC 7386) from one object to another."""
    patch: dict[str, object] = {name: None for name in before if name not in after}
    for name, value in after.items():
        old = before.get(name)
        if isinstance(old, Mapping) and isinstance(value, Mapping):
            if old != value:
                patch[name] = _difference(old, value)
        elif name not in before or old != value:
            patch[name] = value
    return patch
