"""What the settings, the TPU VM and the Node's labels say of a host, none of it checked yet."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from accelet.accelerators.tpu.generation import Generation
from accelet.accelerators.tpu.shape import Shape, ShapeError
from accelet.accelerators.tpu.table import generation_named, machine_named

ACCELERATOR_LABELS: Final = ("cloud.google.com/gke-tpu-accelerator", "tpu.google.com/accelerator")
TOPOLOGY_LABELS: Final = ("cloud.google.com/gke-tpu-topology", "tpu.google.com/topology")
COUNT_LABELS: Final = ("cloud.google.com/gke-accelerator-count", "tpu.google.com/chip-count")
RESILIENCY_LABELS: Final = ("cloud.google.com/gke-tpu-ici-resiliency", "tpu.google.com/ici-resiliency")
MACHINE_LABEL: Final = "node.kubernetes.io/instance-type"
"""GKE's labels and those of dra-driver-google-tpu, which any cluster may set; Kubernetes' own for the machine
type."""

TPU_ENV_PATH: Final = "etc/tpu/tpu-env"

_TPU_ENV_LINE: Final = re.compile(r"""\s*([A-Z_]+)\s*:\s*(['"]?)(.*?)\2\s*""")


@dataclass(frozen=True, slots=True)
class Statement:
    """What one source says of a host; None where it is silent. `source` names it in sentences.

    `chips` are those of the host, `slice_shape` and `slice_chips` those of its slice, `host_grid` says how
    many hosts lie along each dimension of that.
    """

    source: str
    generation: Generation | None = None
    slice_shape: Shape | None = None
    chips: int | None = None
    slice_chips: int | None = None
    host_grid: Shape | None = None


@dataclass(frozen=True, slots=True)
class Statements:
    """Statements in order of trust, and a sentence for each word in them that cannot be read."""

    statements: tuple[Statement, ...] = ()
    warnings: tuple[str, ...] = ()


def statements_of_settings(topology: str | None) -> Statements:
    return Statements() if topology is None else _read("the setting topology", topology=topology)


def statements_of_tpu_env(text: str | None) -> Statements:
    """What a TPU VM's `/etc/tpu/tpu-env` says: lines of `KEY: 'value'`; None if there is no such file."""
    if text is None:
        return Statements()
    matches = (_TPU_ENV_LINE.fullmatch(line) for line in text.splitlines())
    values = {match[1]: match[3] for match in matches if match and match[3]}
    bounds = values.get("CHIPS_PER_HOST_BOUNDS") or values.get("TPU_CHIPS_PER_HOST_BOUNDS")
    return _read(
        f"/{TPU_ENV_PATH}",
        accelerator=values.get("ACCELERATOR_TYPE") or values.get("TPU_ACCELERATOR_TYPE"),
        topology=values.get("TOPOLOGY") or values.get("TPU_TOPOLOGY"),
        bounds=bounds,
        grid=values.get("HOST_BOUNDS") or values.get("TPU_HOST_BOUNDS"),
    )


def statements_of_labels(labels: Mapping[str, str]) -> Statements:
    """What the Node's labels say, as three sources: the TPU labels, the machine type's name."""
    statements = _read(
        "a label of the Node",
        accelerator=_first(labels, ACCELERATOR_LABELS),
        topology=_first(labels, TOPOLOGY_LABELS),
        count=_first(labels, COUNT_LABELS),
    )
    machine = machine_named(labels.get(MACHINE_LABEL, ""))
    if machine is None:
        return statements
    by_machine = Statement(f"the machine type {machine.name}", chips=machine.chips)
    return Statements((*statements.statements, by_machine), statements.warnings)


def is_ici_resilient(labels: Mapping[str, str]) -> bool:
    """Whether a slice may route around a failed link: yes, unless a label says false."""
    return (_first(labels, RESILIENCY_LABELS) or "").lower() != "false"


def _read(
    source: str,
    *,
    accelerator: str | None = None,
    topology: str | None = None,
    bounds: str | None = None,
    grid: str | None = None,
    count: str | None = None,
) -> Statements:
    warnings: list[str] = []

    def shape_of(text: str | None) -> Shape | None:
        if text is None:
            return None
        try:
            return Shape.parse(text)
        except ShapeError as error:
            warnings.append(f"{source}: {error}")
            return None

    slice_shape = shape_of(topology)
    host_shape = shape_of(bounds)
    chips = None if host_shape is None else host_shape.chips
    if count is not None:
        if re.fullmatch("[1-9][0-9]?", count):
            chips = int(count)
        else:
            warnings.append(f"{source}: {count!r} is not a number of chips")
    generation = None if accelerator is None else generation_named(accelerator)
    if accelerator is not None and generation is None:
        warnings.append(f"{source}: the accelerator {accelerator!r} is not known")
    slice_chips = None if generation is None else generation.chips_of_type(accelerator or "")
    statement = Statement(source, generation, slice_shape, chips, slice_chips, shape_of(grid))
    said = () if statement == Statement(source) else (statement,)
    return Statements(said, tuple(warnings))


def _first(labels: Mapping[str, str], names: Sequence[str]) -> str | None:
    return next((labels[name] for name in names if labels.get(name)), None)
