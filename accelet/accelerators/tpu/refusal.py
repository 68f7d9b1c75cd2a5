"""What a user reads when chips cannot be given: what is wrong, and what to ask for."""

from collections.abc import Sequence

from accelet.accelerators.device import Device
from accelet.accelerators.tpu.boxes import SIZES
from accelet.accelerators.tpu.host import Host


def explain_not_whole(host: Host, asked: int) -> str:
    """Why a host that is given as a whole does not give `asked` chips."""
    splits = ", or set mode: sub-host to use {}" if host.is_whole_slice else ""
    if not host.is_complete and host.shape is not None:
        return (
            f"this node gives all its TPU chips to one container, and only {len(host.chips)} of its "
            f"{host.shape.chips} are there: use another node until they are back{splits.format('those')}"
        )
    because = ""
    if not host.is_whole_slice:
        because = f" because it is one host of {host.slice_name}"
    ill = [chip.id for chip in host.chips if not chip.health.is_healthy]
    now = f" (unhealthy now: {', '.join(ill)})" if ill else ""
    every = len(host.chips)
    return (
        f"this node gives all its {every} TPU chips to one container{because}, and {asked} were asked for: "
        f"ask for {every}{now}{splits.format('some of them')}"
    )


def explain_not_a_box(host: Host, chips: Sequence[Device]) -> str:
    """Why these chips of a host cannot be used together, and which can instead."""
    asked = len(chips)
    groups = host.groups(asked)
    if not groups:
        sizes = [str(size) for size in SIZES if host.groups(size)]
        listed = sizes[0] if len(sizes) == 1 else f"{', '.join(sizes[:-1])} or {sizes[-1]}"
        return f"{asked} TPU chips of this node cannot be used together: ask for {listed}"
    named = "; ".join(", ".join(chip.id for chip in host.chips if chip.id in group) for group in groups)
    return (
        f"the TPU chips {', '.join(chip.id for chip in chips)} are not neighbours that can be used together; "
        f"the groups of {asked} on this node are: {named}"
    )
