"""What judges `make e2e-scheduler` finds the wrong that it looks for, and nothing where all is well."""

from collections.abc import Sequence
from random import Random

from accelet.kube.pods import Pod
from accelet.scheduler.gangs.grouping import GATE_PREFIX
from tests.e2e.gangs.fleet import GPUS
from tests.e2e.gangs.judge import Judge, Kept, Sight, Streak
from tests.e2e.gangs.kinds import Drawn, draw
from tests.unit.scheduler.values import pod

_PLACES = {f"n{at}": (f"b{at // 2}", f"s{at // 2}", f"h{at}") for at in range(4)}
_NODES = dict.fromkeys(_PLACES, GPUS)


def _drawn(kind: str = "like", size: int = 2, level: int = 0, **more: bool) -> Drawn:
    return Drawn(kind, kind, "plain", size, size, (8,) * size, [{"kind": "Job"}], 1.0, level=level, **more)


def _pods(*nodes: str | None) -> list[Pod]:
    gates = (f"{GATE_PREFIX}j",)
    return [pod(f"j-{rank}", on=node, gates=gates, gpus=8) for rank, node in enumerate(nodes)]


def _partial_s(*sights: Sight, hot: Sequence[str] = (), is_led: bool = True) -> float:
    judge = Judge(_PLACES, frozenset(hot))
    for _ in range(3):
        judge.look(sights, _NODES, 1.0, is_led=is_led)
    return judge.partial[sights[0].gang.name].worst_s


def test_half_a_gang_is_partial_while_there_is_room_for_the_other_half() -> None:
    assert _partial_s(Sight(_drawn(), _pods("n0", None), 0)) == 3
    assert _partial_s(Sight(_drawn(), _pods("n0", None), 0), is_led=False) == 0
    assert _partial_s(Sight(_drawn(), _pods("n0", "n1"), 0)) == 0
    assert _partial_s(Sight(_drawn(), _pods(None, None), 0)) == 0
    assert _partial_s(Sight(_drawn(size=3), _pods("n0", None), 0)) == 0, "one is not made yet"
    assert _partial_s(Sight(_drawn(size=3), _pods("n0", None), 1)) == 3, "one is done"


def test_there_is_no_remedy_where_others_or_the_gangs_own_rules_take_the_room() -> None:
    half = _pods("n0", None)
    other = Sight(_drawn("near"), _pods("n1", "n1"), 0)
    assert _partial_s(Sight(_drawn(level=1), half, 0)) == 3
    assert _partial_s(Sight(_drawn(level=1), half, 0), other) == 0, "the home is full"
    assert _partial_s(Sight(_drawn(), half, 0), other) == 3
    assert _partial_s(Sight(_drawn(is_hot=True), half, 0), hot=["n0"]) == 0
    ported = _drawn("ported", is_apart=True)
    one_each = Sight(_drawn("ported", size=3, is_apart=True), _pods("n1", "n2", "n3"), 0)
    assert _partial_s(Sight(ported, half, 0), one_each) == 0, "each node has the port taken"


def test_a_streak_ends_where_it_is_broken() -> None:
    streak = Streak()
    for holds, passed_s in ((True, 2.0), (True, 3.0), (False, 9.0), (True, 4.0)):
        streak.look(holds=holds, passed_s=passed_s)
    assert (streak.now_s, streak.worst_s) == (4.0, 5.0)


def test_each_reservation_is_judged_by_itself() -> None:
    kept = Kept()
    for which in ("a", "a", "a", "b", "b", None, "b"):
        kept.look(which, 2.0)
    assert kept.one.worst_s == 4, "it has begun some time before it was seen first"
    assert kept.in_a_row.worst_s == 10


def test_gangs_of_all_kinds_are_drawn_and_alike_from_one_seed() -> None:
    gangs = [draw(number, chance) for chance in (Random(1),) for number in range(300)]
    again = [draw(number, chance) for chance in (Random(1),) for number in range(300)]
    assert gangs == again
    assert len({gang.kind for gang in gangs}) == 10
    assert {gang.namespace for gang in gangs if gang.kind == "simple"} == {"plain"}
