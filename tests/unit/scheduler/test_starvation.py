"""A tenant's gangs against everybody else's: nodes kept for them, and the work that they cost."""

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from random import Random
from time import process_time

from hypothesis import given
from hypothesis import strategies as st

from accelet.kube.pods import Container
from accelet.scheduler.cluster.cluster import Cluster
from accelet.scheduler.cluster.topology import Scheme
from accelet.scheduler.gangs.grouping import Gang, GangKey, find_gangs
from accelet.scheduler.placement.backlog import Backlog
from accelet.scheduler.placement.refusals import Refusals
from accelet.scheduler.placement.reservation import Patience, Reservation
from accelet.scheduler.placement.shares import Shares
from tests.fakes.nodes import HOST, node
from tests.unit.scheduler.test_planning import Leader
from tests.unit.scheduler.values import pod

NAMESPACES = ("alice", "mallory")


def kept_for(namespace: str, gang: str) -> Reservation:
    return Reservation(GangKey(namespace, gang, "job"), frozenset({"n0"}))


KEPT = st.none() | st.tuples(st.sampled_from(NAMESPACES), st.sampled_from("ab")).map(
    lambda who: kept_for(*who)
)


@given(st.lists(st.tuples(st.integers(0, 50), KEPT), max_size=30))
def test_while_others_wait_no_namespace_has_nodes_kept_for_more_than_half_of_the_time(
    history: Sequence[tuple[int, Reservation | None]],
) -> None:
    shares, now_s, had_s, first_s = Shares(), 0.0, 0.0, None
    current: Reservation | None = None
    for passed_s, asked in history:
        wanted, now_s = asked, now_s + passed_s
        if current is not None and current.gang.namespace == "mallory":
            had_s += passed_s
        is_kept = wanted is not None and wanted.gang == (current and current.gang)
        if wanted is not None and not is_kept:
            shares.note(None, now_s)  # the time of the former one is over before there is another
            if shares.rests_until_s(wanted.gang.namespace, NAMESPACES) > now_s:
                wanted = None
        shares.note(wanted, now_s)
        if wanted is not None and wanted.gang.namespace == "mallory":
            if not is_kept and first_s is not None:
                assert had_s <= (now_s - first_s) / 2
            first_s = now_s if first_s is None else first_s
        current = wanted


def test_a_namespace_that_is_alone_does_not_rest() -> None:
    shares = Shares()
    shares.note(kept_for("mallory", "a"), 0.0)
    shares.note(None, 100.0)
    assert shares.rests_until_s("mallory", {"mallory", "alice"}) == 200.0
    assert shares.rests_until_s("mallory", {"mallory"}) == 0.0
    assert shares.rests_until_s("alice", {"mallory", "alice"}) == 0.0
    shares.note(None, 201.0)
    assert shares == Shares(None, 100.0)


async def test_gangs_that_want_every_node_take_no_turns_in_keeping_them() -> None:
    """One after the other would, each for its whole time, while somebody's simple pod waits."""
    leader = Leader()
    for number in range(4):
        leader.state.set_node(node(f"n{number}", f"b/s/h{number}"))
        leader.state.set_pod(replace(pod(f"x{number}", on=f"n{number}", gpus=8), restart_policy="Never"))
    for number in range(5):
        for rank in range(4):
            name = f"greedy{number}-{rank}"
            leader.state.set_pod(
                pod(
                    name,
                    labels={"job-name": f"greedy{number}"},
                    gpus=8,
                    namespace="mallory",
                    created_s=leader.clock.now_s(),
                )
            )
    late = leader.clock.now_s() + 10**6
    modest = pod("modest", labels={"job-name": "modest"}, gpus=8, namespace="alice", created_s=late)
    leader.state.set_pod(modest)
    kept_s = 0
    async with leader.leads():
        for _ in range(240):
            await leader.clock.advance(60)
            kept_s += 60 * (leader.sample("reserved_nodes") > 0)
    assert 3600 <= kept_s <= 4 * 3600 / 2 + 3600


def unlike_gangs(random: Random, nodes: int) -> list[Gang]:
    """Five gangs of 64 unlike pods, three a node, which they would fill to the last bit."""
    found: list[Gang] = []
    for number in range(5):
        sizes = [Fraction(random.randrange(16_000, 26_000), 1000) for _ in range(63)]
        sizes.append(min(Fraction(40), max(Fraction(1), nodes * 64 - sum(sizes, Fraction()))))
        found += find_gangs(
            replace(
                pod(
                    f"g{number}-{rank}",
                    labels={"job-name": f"g{number}"},
                    selector={"of": "all"},
                    namespace="mallory",
                    priority=10,
                ),
                containers=(Container("main", {"cpu": cpu}),),
            )
            for rank, cpu in enumerate(sizes)
        )
    return found


def test_gangs_that_never_fit_keep_nobody_waiting() -> None:
    count = 21
    nodes = [node(f"n{n}", f"b{n % 3}/s{n % 7}/h{n}", labels={"of": "all"}) for n in range(count)]
    cluster = Cluster(Scheme(), [*nodes, node("other", "b0/s0/other")])
    modest = find_gangs([pod("modest", gpus=1, namespace="alice", selector={HOST: "other"})])
    gangs, refusals = [*unlike_gangs(Random(12), count), *modest], Refusals()
    for now_s in (0.0, 1.0, 2.0):
        backlog = Backlog(gangs, cluster.snapshot(), Patience(now_s, 600.0), refusals)
        began_s = process_time()
        made = []
        for plan in backlog.plans():
            made.append((plan.gang.key.namespace, plan.nodes is not None))
            if plan.gang is modest[0]:
                assert process_time() - began_s < 1.0, "five searches came before it"
        assert process_time() - began_s < 10.0
        assert sorted(made) == [("alice", True), *[("mallory", False)] * 5]
    assert process_time() - began_s < 0.1, "what was searched in vain is not searched again at once"
