"""Slices as people look at them."""

from collections.abc import Mapping, Sequence

from accelet.cli.drawing.output import Output
from accelet.cli.drawing.records import Records
from accelet.provisioner.offline import OfflinePlan, PlannedSlice
from accelet.provisioner.record import SliceRequest

_LONGEST_VALUE = 120
_HEADS = (
    *("NAMESPACE", "SET", "FOR", "ACCELERATOR", "TOPOLOGY"),
    *("PHASE", "HOSTS", "TIER", "ZONE", "POOL", "WHY"),
)


def print_slices(output: Output, found: Sequence[SliceRequest]) -> None:
    """Every slice that is wanted, and how far it is."""
    if not found:
        output.line("No slice is asked for.")
        return
    heads = (
        "NAMESPACE",
        "SET",
        "FOR",
        "ACCELERATOR",
        "TOPOLOGY",
        "PHASE",
        "HOSTS",
        "TIER",
        "ZONE",
        "POOL",
        "WHY",
    )
    output.table(Records(heads, [_cells(one) for one in found]))


def _cells(one: SliceRequest) -> Sequence[str]:
    spec, status = one.spec, one.status
    job = spec.owner.job if spec.owner else one.name
    why = "; ".join(text for text in (status.why, *(found for _, found in one.problems)) if text)
    return (
        *(one.namespace, spec.slice_set.name, job, spec.accelerator, spec.topology),
        *(status.phase, status.hosts, status.tier, status.zone, status.pool, why),
    )


def print_offline_plan(output: Output, found: OfflinePlan, told: Sequence[Mapping[str, str]] = ()) -> None:
    """What would be made, what would not and why: a line each, none of it folded.

    `told`: what the first worker of each slice is told, in the order of the slices.
    """
    for index, planned in enumerate(found.slices):
        output.line(_describe(planned))
        for name, value in told[index].items() if told else ():
            output.line(f"  {name}={shortened(value)}")
    for refused in found.refused:
        job = f" {refused.replicated_job}" if refused.replicated_job else ""
        output.line(f"{refused.owner}{job}: refused: {refused.reason}")
    if not found.slices and not found.refused:
        output.line("No JobSet, Job, LeaderWorkerSet or RayCluster in it asks for TPUs.")


def shortened(value: str) -> str:
    """A value as it fits on a line: a slice may have thousands of names."""
    return value if len(value) <= _LONGEST_VALUE else f"{value[:_LONGEST_VALUE]}… ({len(value)} characters)"


def _describe(planned: PlannedSlice) -> str:
    wanted, machines, attempt = planned.wanted, planned.wanted.machines, planned.pool.attempt
    job = f" {wanted.replicated_job} {wanted.index}" if wanted.replicated_job else ""
    if wanted.owner.is_of_groups and not wanted.replicated_job:
        job = f" {wanted.index}"
    where = f" in {attempt.zone}" if attempt.zone else ""
    return (
        f"{wanted.owner}{job}: {machines.accelerator} {machines.topology}, "
        f"{machines.hosts} of {machines.machine_type}, {attempt.tier}{where}, pool {planned.pool.name}"
    )
