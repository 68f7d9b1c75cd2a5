"""A pool that the original tpu-provisioner made for the same Job is taken over, where the settings say so."""

from accelet.provisioner.deciding.attempts import attempts_of, next_place
from accelet.provisioner.deciding.view import SlicesView, Step
from accelet.provisioner.pools.machines import Machines
from accelet.provisioner.pools.pool import NodePool


def adopt(view: SlicesView) -> Step | None:
    """Takes over the original's pool for this Job; None where there is none, or it is not what is wanted."""
    pool = view.original
    if pool is None or view.no_room is not None or not _fits(view, pool):
        return None
    adopted = view.record.enter(
        "Joining",
        f"adopts the original provisioner's pool {pool.name}",
        view.now_s,
        pool=pool.name,
        mark=pool.mark,
        tier=pool.tier,
        zone=pool.zone,
        asks_of="",
        no_room=False,
        sent=True,
        sent_s=0.0,
        retry_s=0.0,
        refusals=0,
    )
    return Step(adopted)


def _fits(view: SlicesView, pool: NodePool) -> bool:
    """Whether it has the machines that are wanted, in a place where they may be. A set stays of one tier."""
    machines, original, place = view.machines, pool.original, next_place(view, view.record)
    if not isinstance(machines, Machines) or original is None or place is None or pool.state != "running":
        return False
    if (original.machine_type, original.hosts) != (machines.machine_type, machines.hosts):
        return False
    if original.topology not in ("", machines.topology):
        return False
    attempts = attempts_of(view)
    tiers = {str(one.tier) for one in attempts} if view.set_size == 1 else {str(attempts[place].tier)}
    return pool.tier in tiers and any(one.zone in ("", pool.zone) for one in attempts)
