"""Slices as people look at them."""

from accelet.cli.drawing.output import Output
from accelet.provisioner.offline import OfflinePlan, PlannedSlice


def print_offline_plan(output: Output, found: OfflinePlan) -> None:
    """What would be made, what would not and why: a line each, none of it folded."""
    for planned in found.slices:
        output.line(_describe(planned))
    for refused in found.refused:
        job = f" {refused.replicated_job}" if refused.replicated_job else ""
        output.line(f"{refused.owner}{job}: refused: {refused.reason}")
    if not found.slices and not found.refused:
        output.line("No JobSet or Job in it asks for TPUs.")


def _describe(planned: PlannedSlice) -> str:
    wanted, machines, attempt = planned.wanted, planned.wanted.machines, planned.pool.attempt
    job = f" {wanted.replicated_job} {wanted.index}" if wanted.replicated_job else ""
    where = f" in {attempt.zone}" if attempt.zone else ""
    return (
        f"{wanted.owner}{job}: {machines.accelerator} {machines.topology}, "
        f"{machines.hosts} of {machines.machine_type}, {attempt.tier}{where}, pool {planned.pool.name}"
    )
