"""GPUTasks of falldio.com/v1, the original's, as ours."""

import re
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from accelet.gputask.objects.task import GpuTask
from accelet.kinds.gputask import GPU_TASKS, MOST_WHY
from accelet.kinds.naming import (
    label_key_problem,
    label_value_problem,
    namespace_problem,
    subdomain_problem,
)
from accelet.kinds.originaltask import MOST_CARDS, ORIGINAL_TASKS, OriginalTaskSpec, OriginalTaskStatus
from accelet.kube.errors import QuantityError
from accelet.kube.objects import ObjectKey, RawObject, WireObject, read_object
from accelet.kube.quantity import parse_quantity
from accelet.kube.writing.ownership import owner_reference
from accelet.runtime.excerpts import excerpt

API_VERSION: Final = ORIGINAL_TASKS.api_version
IMAGE: Final = "nvidia/cuda:11.0-base"
"""What the original ran, whatever the task."""

_NAME = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?")
_FIELDS: Final = ("memory", "cpu", "gpu", "gpu-amount", "priority")


class NotConvertibleError(Exception):
    """The original could not have run this task either; `problems` has every reason, as sentences."""

    def __init__(self, problems: tuple[str, ...]) -> None:
        self.problems = problems
        super().__init__("; ".join(problems))


@dataclass(frozen=True, slots=True)
class OriginalOptions:
    """`label` is by which nodes say their model, `resource` how their devices are asked for."""

    image: str = IMAGE
    label: str = "falldio.com/gpu"
    resource: str = "falldio.com/gpu"


@dataclass(frozen=True, slots=True)
class OriginalTask:
    """One GPUTask of falldio.com/v1, as the API server has it."""

    namespace: str
    name: str
    uid: str
    resource_version: str
    is_deleted: bool
    spec: OriginalTaskSpec
    status: OriginalTaskStatus

    @property
    def key(self) -> ObjectKey:
        return self.namespace, self.name


class _WireOriginal(WireObject, frozen=True):
    spec: OriginalTaskSpec
    status: OriginalTaskStatus | None = None


def parse_original(raw: RawObject) -> OriginalTask:
    """
    Raises:
        MalformedObjectError: a field is not what the kind promises.
    """
    wire = read_object(raw, "GPUTask", _WireOriginal)
    metadata = wire.metadata
    return OriginalTask(
        metadata.namespace or "default",
        metadata.name,
        metadata.uid or "",
        metadata.resource_version or "",
        metadata.deletion_timestamp is not None,
        wire.spec,
        wire.status or OriginalTaskStatus(),
    )


def render_task(one: OriginalTask, options: OriginalOptions) -> dict[str, Any]:
    """The GPUTask of ours that an original owns.

    Raises:
        NotConvertibleError: it asks for what no pod can have, or the schema of its kind is not as shipped.
    """
    raw = {"metadata": {"name": one.name}, "spec": msgspec.to_builtins(one.spec)}
    body = convert_original(raw, options)
    body["metadata"]["ownerReferences"] = [owner_reference(ORIGINAL_TASKS, one.name, one.uid)]
    return body


def status_of_original(one: OriginalTask, task: GpuTask) -> OriginalTaskStatus:
    """What is told of an original where there is a GPUTask of its name."""
    if task.owner_uid != one.uid:
        return refuse(f"a GPUTask of {GPU_TASKS.group} of its name is there, and is not made of it")
    return OriginalTaskStatus(phase=task.status.phase, why=task.status.why)


def refuse(sentence: str) -> OriginalTaskStatus:
    """Nothing is made of it, and why."""
    return OriginalTaskStatus(phase="Refused", why=" ".join(sentence.split())[:MOST_WHY])


def convert_original(raw: dict[str, Any], options: OriginalOptions) -> dict[str, Any]:
    """The GPUTask of ours that asks for the same.

    Raises:
        NotConvertibleError: the original would have panicked on it, or made a pod that nobody could run.
    """
    metadata, spec = raw.get("metadata"), raw.get("spec")
    if not isinstance(metadata, dict) or not isinstance(spec, dict):
        raise NotConvertibleError(("it has no metadata, or no spec",))
    texts = {name: _text(spec.get(name)) for name in _FIELDS}
    name = _text(metadata.get("name"))
    problems = [
        *([] if len(name) <= 50 and _NAME.fullmatch(name) else [_name_problem(name)]),
        *(f"spec.{key} is unknown" for key in map(str, spec) if key not in _FIELDS),
        *(problem for key in ("memory", "cpu") if (problem := _amount_problem(key, texts[key]))),
        *_model_problems(texts["gpu"]),
        *_priority_problems(texts["priority"]),
        *_option_problems(options),
        *_metadata_problems(metadata),
        *([] if _count(texts["gpu-amount"]) else [_count_problem(texts["gpu-amount"])]),
    ]
    if problems:
        raise NotConvertibleError(tuple(problems))
    kept = {key: metadata[key] for key in ("name", "namespace", "labels", "annotations") if metadata.get(key)}
    priority = {"priorityClassName": texts["priority"]} if texts["priority"] else {}
    return {
        "apiVersion": GPU_TASKS.api_version,
        "kind": GPU_TASKS.kind,
        "metadata": kept,
        "spec": {
            "container": {"image": options.image, "cpu": texts["cpu"], "memory": texts["memory"]},
            "cards": {"resource": options.resource, "cards": _count(texts["gpu-amount"])},
            "nodeSelector": {options.label: texts["gpu"]},
            **priority,
        },
    }


def _model_problems(model: str) -> list[str]:
    """The model becomes the value of a label, by which the pods choose nodes."""
    if not model:
        return ["spec.gpu is empty: name the model of the cards"]
    problem = label_value_problem(model)
    return [f"spec.gpu is no value of a label: {problem}"] if problem else []


def _priority_problems(priority: str) -> list[str]:
    problem = subdomain_problem(priority) if priority else ""
    return [f"spec.priority is no name of a PriorityClass: {problem}"] if problem else []


def _option_problems(options: OriginalOptions) -> list[str]:
    of_label, of_resource = label_key_problem(options.label), label_key_problem(options.resource)
    if not of_resource and "/" not in options.resource:
        of_resource = f"{excerpt(options.resource, 80)} has no domain, as nvidia.com/gpu has"
    return [
        *([f"the label of nodes has no name of one: {of_label}"] if of_label else []),
        *([f"the resource of cards is none: {of_resource}"] if of_resource else []),
    ]


def _metadata_problems(metadata: dict[str, Any]) -> list[str]:
    """What is wrong with what is taken over as it is."""
    problems = []
    namespace = metadata.get("namespace") or "default"
    if not isinstance(namespace, str):
        problems.append("metadata.namespace is no text")
    elif problem := namespace_problem(namespace):
        problems.append(f"metadata.namespace: {problem}")
    for part in ("labels", "annotations"):
        said = metadata.get(part) or {}
        if not isinstance(said, dict) or not all(
            isinstance(one, str) for pair in said.items() for one in pair
        ):
            problems.append(f"metadata.{part} must be texts by texts")
            continue
        problems += [
            f"metadata.{part}: {problem}"
            for key, value in said.items()
            if (problem := label_key_problem(key) or (label_value_problem(value) if part == "labels" else ""))
        ]
    return problems


def _text(value: Any) -> str:
    """A field as text: the original's are texts, and people write `gpu-amount: 2`."""
    return str(value) if isinstance(value, str | int) and not isinstance(value, bool) else ""


def _name_problem(name: str) -> str:
    return (
        f"metadata.name {excerpt(name, 60)} must be at most 50 of a-z, 0-9 and -, begin with a letter "
        "and end with a letter or digit"
    )


def _amount_problem(field: str, text: str) -> str:
    if not text:
        return f"spec.{field} is missing: the original panics without one"
    try:
        is_above = parse_quantity(text) > 0
    except QuantityError as error:
        return f"spec.{field}: {error}"
    return "" if is_above else f"spec.{field} must be above 0"


def _count(text: str) -> int:
    """A number of cards; 0 for what is none."""
    is_number = text.isascii() and text.isdecimal() and len(text) <= 2
    return int(text) if is_number and int(text) <= MOST_CARDS else 0


def _count_problem(text: str) -> str:
    return f"spec.gpu-amount {excerpt(text, 32)} must be a whole number from 1 to {MOST_CARDS}"
