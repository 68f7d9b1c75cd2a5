"""A task's `template`, laid over the pods that are made for it: what is merged, and what is refused.

Lists of a pod are merged by their keys as kubectl's strategic merge patches merge them (`patchMergeKey` of
Kubernetes' core/v1), and replaced where they have none. `null` takes a field away. Directives are not taken.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from accelet.gputask.objects.names import CARDS_GATE, MAIN, RULES
from accelet.runtime.foreign.yamltext import ForeignYamlError, load_yaml

_DEEPEST: Final = 32

_KEYS: Final[Mapping[str, str]] = {
    "containers": "name",
    "initContainers": "name",
    "volumes": "name",
    "env": "name",
    "imagePullSecrets": "name",
    "schedulingGates": "name",
    "volumeMounts": "mountPath",
    "volumeDevices": "devicePath",
    "ports": "containerPort",
    "hostAliases": "ip",
    "topologySpreadConstraints": "topologyKey",
}
"""By which key the entries of a list are known again."""

_OURS: Final = ("restartPolicy", "subdomain", "terminationGracePeriodSeconds", "hostname", "nodeName")
_NEVER: Final = ("ephemeralContainers", "schedulerName", "setHostnameAsFQDN", "resourceClaims")
"""Fields of a pod's spec that decide where it runs and when it ends, which others rely on."""

_PARTS: Final = "gpu.intel.com/"


class OverlayError(ValueError):
    """What a template says cannot be laid over the pods, as a sentence that names the field."""


def lay_over(made: Mapping[str, Any], template: str) -> dict[str, Any]:
    """The pod template `made` with what the author's template, YAML or JSON, says beside it.

    Raises:
        OverlayError: the template is no part of a pod, or it changes what is accelet's. The API server judges
            all else when the Job is made.
    """
    if not template.strip():
        return dict(made)
    merged = _merge_maps(made, read_template(template), "template", 0)
    _judge_owned(made, merged)
    return merged


def read_template(text: str) -> Mapping[str, Any]:
    """A template as a mapping of `metadata`, `spec` or both, of JSON's values alone.

    Raises:
        OverlayError: it is something else.
    """
    try:
        given = load_yaml(text, deepest=_DEEPEST)
        json.dumps(given, allow_nan=False)
    except ForeignYamlError as error:
        raise OverlayError(f"template: it is {error}") from None
    except (TypeError, ValueError) as error:
        raise OverlayError(f"template: it is no YAML of JSON's values: {_first_line(error)}") from None
    if not isinstance(given, Mapping):
        raise OverlayError("template: it must be a mapping with metadata or spec")
    for name, part in given.items():
        if name not in ("metadata", "spec") or not isinstance(part, Mapping):
            raise OverlayError(f"template.{str(name)[:80]}: a template has the mappings metadata and spec")
    return given


def _first_line(error: Exception) -> str:
    return " ".join(str(error).split())[:200]


def _merge(below: Any, above: Any, path: str, key: str | None, depth: int) -> Any:
    if isinstance(below, Mapping) and isinstance(above, Mapping):
        return _merge_maps(below, above, path, depth)
    if isinstance(below, list) and isinstance(above, list) and key is not None:
        return _merge_lists(below, above, path, key, depth)
    if isinstance(below, Mapping | list) and type(below) is not type(above):
        raise OverlayError(f"{path}: must be {'a list' if isinstance(below, list) else 'a mapping'}")
    return above


def _merge_maps(below: Mapping[str, Any], above: Mapping[str, Any], path: str, depth: int) -> dict[str, Any]:
    if depth > _DEEPEST:
        raise OverlayError(f"{path[:200]}: it is nested too deeply")
    merged = dict(below)
    for name, value in above.items():
        field = f"{path}.{str(name)[:80]}"
        if not isinstance(name, str):
            raise OverlayError(f"{field}: the name of a field must be a text")
        if name.startswith("$"):
            raise OverlayError(f"{field}: directives of patches are not taken")
        if value is None:
            merged.pop(name, None)
        elif name in merged:
            merged[name] = _merge(merged[name], value, field, _KEYS.get(name), depth + 1)
        else:
            merged[name] = value
    return merged


def _merge_lists(below: Sequence[Any], above: Sequence[Any], path: str, key: str, depth: int) -> list[Any]:
    """The entries below, each merged with the one of its key above, then those that are new."""
    news = {str(entry[key]): entry for entry in _entries(above, path, key)}
    if len(news) < len(above):
        raise OverlayError(f"{path}: two entries have the same {key}")
    kept = [
        _merge(entry, news.pop(str(entry[key])), f"{path}[{str(entry[key])[:80]}]", None, depth + 1)
        if str(entry[key]) in news
        else entry
        for entry in below
    ]
    return [*kept, *news.values()]


def _entries(given: Sequence[Any], path: str, key: str) -> Iterator[Mapping[str, Any]]:
    for index, entry in enumerate(given):
        if not isinstance(entry, Mapping) or key not in entry:
            raise OverlayError(f"{path}[{index}]: an entry needs its {key}")
        yield entry


def _judge_owned(made: Mapping[str, Any], merged: Mapping[str, Any]) -> None:
    for part in ("labels", "annotations"):
        _judge_kept(
            made["metadata"][part],
            _mapping(merged["metadata"], part, "template.metadata"),
            f"template.metadata.{part}",
        )
    _judge_spec(made["spec"], merged["spec"])


def _judge_spec(before: Mapping[str, Any], after: Mapping[str, Any]) -> None:
    for name in _OURS:
        if before.get(name) != after.get(name):
            raise OverlayError(f"template.spec.{name}: {_why_ours(name)}")
    for name in _NEVER:
        if name in after:
            raise OverlayError(f"template.spec.{name}: accelet decides this of a task's pods")
    gates = _by_name(after, "schedulingGates")
    _judge_kept(_by_name(before, "schedulingGates"), gates, "template.spec.schedulingGates")
    if CARDS_GATE in gates and CARDS_GATE not in _by_name(before, "schedulingGates"):
        raise OverlayError("template.spec.schedulingGates: cards are asked for in the task's cards")
    _judge_kept(_by_name(before, "volumes"), _by_name(after, "volumes"), "template.spec.volumes")
    _judge_containers(before, after)


def _why_ours(name: str) -> str:
    return {
        "restartPolicy": "say onFailure.restart instead",
        "terminationGracePeriodSeconds": "say graceSeconds instead",
        "nodeName": "the scheduler chooses the node; say nodeSelector instead",
    }.get(name, "the ranks find each other by it")


def _judge_containers(before: Mapping[str, Any], after: Mapping[str, Any]) -> None:
    (ours,) = before["containers"]
    asked = ours.get("resources", {}).get("limits", {})
    for field in ("containers", "initContainers"):
        for container in _listed(after, field, "template.spec"):
            where = f"template.spec.{field}[{str(container.get('name'))[:80]}]"
            is_main = field == "containers" and container.get("name") == MAIN
            if is_main:
                _judge_kept(_by_path(ours), _by_path(container), f"{where}.volumeMounts")
            _judge_restarts(container, ours if is_main else {}, where)
            _judge_amounts(container, asked, where, is_main=is_main)
    if MAIN not in {one.get("name") for one in _listed(after, "containers", "template.spec")}:
        raise OverlayError(f"template.spec.containers: the task's own container {MAIN} must stay")


def _judge_restarts(container: Mapping[str, Any], before: Mapping[str, Any], where: str) -> None:
    """No container but the task's own has rules by which containers start again, or has them changed.

    A sidecar's `restartPolicy: Always` is no such rule.
    """
    for field in ("restartPolicy", RULES):
        is_sidecar = field == "restartPolicy" and not before and container.get(field) == "Always"
        if container.get(field) != before.get(field) and not is_sidecar:
            raise OverlayError(f"{where}.{field}: say onFailure.restart instead")


def _judge_amounts(
    container: Mapping[str, Any], asked: Mapping[str, str], where: str, *, is_main: bool
) -> None:
    """What the task's own container asks for is said in the task, and no other container asks for cards."""
    resources = _mapping(container, "resources", where)
    for part in ("limits", "requests"):
        amounts = _mapping(resources, part, f"{where}.resources")
        if is_main:
            names = {*asked, *(name for name in amounts if name.startswith(_PARTS))}
            changed = sorted(name for name in names if amounts.get(name) != asked.get(name))
        else:
            cards = (name for name in amounts if name.startswith(_PARTS) or (name in asked and "/" in name))
            changed = sorted(cards)
        if changed:
            field = f"{where}.resources.{part}[{changed[0][:80]}]"
            raise OverlayError(f"{field}: say it in the task's cards or container")


def _judge_kept(before: Mapping[str, Any], after: Mapping[str, Any], path: str) -> None:
    for name, value in before.items():
        if after.get(name) != value:
            raise OverlayError(f"{path}[{name[:80]}]: it is accelet's, and must stay as it is")


def _by_name(spec: Mapping[str, Any], field: str) -> dict[str, Any]:
    return {str(one.get("name")): one for one in _listed(spec, field, "template.spec")}


def _by_path(container: Mapping[str, Any]) -> dict[str, Any]:
    mounts = _listed(container, "volumeMounts", "template.spec.containers")
    return {str(one.get("mountPath")): one for one in mounts}


def _listed(parent: Mapping[str, Any], field: str, path: str) -> list[Mapping[str, Any]]:
    found = parent.get(field) or []
    if not isinstance(found, list) or not all(isinstance(one, Mapping) for one in found):
        raise OverlayError(f"{path}.{field}: must be a list of mappings")
    return found


def _mapping(parent: Any, field: str, path: str) -> Mapping[str, Any]:
    found = parent.get(field) or {} if isinstance(parent, Mapping) else None
    if not isinstance(found, Mapping):
        raise OverlayError(f"{path}.{field}: must be a mapping")
    return found
