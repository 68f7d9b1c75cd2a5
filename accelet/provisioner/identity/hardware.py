"""Whether there is a slice like the one that pods ask for."""

from accelet.provisioner.identity.hosts import host_table
from accelet.provisioner.identity.names import LONGEST_SHOWN
from accelet.provisioner.identity.sentences import ACCELERATOR, CHIPS, CONTAINERS, TOPOLOGY
from accelet.provisioner.identity.template import TpuTemplate


def judge_hardware(template: TpuTemplate) -> str | None:
    """Why no slice is like that; None if one is, or if the template does not say which it is for."""
    table, accelerator, topology = host_table(), template.accelerator, template.topology
    if not template.is_known:
        return None
    if accelerator not in table.topologies:
        return ACCELERATOR.format(accelerator=shown(accelerator), known=known_accelerators())
    key = f"{accelerator} {topology}"
    if key not in table.sizes:
        return TOPOLOGY.format(
            accelerator=accelerator, topology=shown(topology), topologies=table.topologies[accelerator]
        )
    if template.hosts == 0:
        chips = shown(template.chips)
        return CHIPS.format(accelerator=accelerator, topology=topology, sizes=table.sizes[key], chips=chips)
    if template.hosts > 1 and len(template.containers) > 1:
        return CONTAINERS.format(containers=len(template.containers))
    return None


def known_accelerators() -> str:
    """All of them, in words."""
    *first, last = host_table().topologies
    return f"{', '.join(first)} and {last}"


def shown(text: str) -> str:
    """Somebody's text, as long as a sentence bears it."""
    return text if len(text) <= LONGEST_SHOWN else text[:LONGEST_SHOWN] + "…"


def count(number: int, word: str) -> str:
    """`1 pod`, `4 pods`."""
    return f"{number} {word}" if number == 1 else f"{number} {word}s"
