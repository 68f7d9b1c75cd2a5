"""The world of a task whose places count: nodes with room, a scheduler that holds some, and Moves."""

import random
from collections.abc import Iterable
from dataclasses import replace
from datetime import UTC, datetime

from accelet.gputask.deciding.view import AdvanceMove, AskToSave, DeleteMove, TaskAction, TaskView
from accelet.gputask.objects.task import GpuTask
from accelet.kinds.gputask import TaskMoves
from accelet.kinds.move import HOLDS, Move, MoveGain, MovePlace, MoveSpec, MoveStatus, MoveTask
from accelet.scheduler.moves.holding import first_come, held_places, judge_move, new_places
from tests.unit.gputask.world import SimPod, TaskThought, TaskWorld

_LIVE = ("Pending", "Running")


def moment(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)


class MovingWorld(TaskWorld):
    """Nodes by name with how many pods they take. `strangers` are other people's pods, by node.

    The scheduler knows Moves by a watch that lags (`known`), but for what it has written itself; one that has
    crashed lists them before it does anything.
    """

    def __init__(self, chance: random.Random, task: GpuTask, slots: dict[str, int]) -> None:
        super().__init__(chance, task, faulty=0.0)
        self.slots, self.strangers = slots, dict.fromkeys(slots, 0)
        self.moves: dict[str, Move] = {}
        self.before: dict[str, Move] = {}
        self.known: dict[str, Move] = {}
        self.finishes = 0.0
        self.proposed = 0
        self.forbidden = ""

    # What the controller sees and does.

    def view(self) -> TaskView:
        return replace(super().view(), moves=tuple(self.moves.values()), forbidden_move=self.forbidden)

    def late_view(self) -> TaskView:
        """As after writes of another leader that the watch of Moves has not told of yet."""
        late = tuple(self.before.get(name, move) for name, move in self.moves.items())
        return replace(self.view(), moves=late)

    def act(self, thought: TaskThought) -> None:
        """The owner's word is asked once more before the program is disturbed, as the controller does."""
        action, seen = thought.step.action, thought.view.task
        is_begun = isinstance(action, AdvanceMove) and action.phase in ("Saving", "Leaving")
        is_current = (seen.generation, seen.approves) == (self.task.generation, self.task.approves)
        if not is_begun or is_current:
            super().act(thought)

    def perform(self, action: TaskAction) -> None:
        match action:
            case AdvanceMove(move, "Leaving") if move.spec.gain.kind != "Person":
                policy = (self.task.spec.move or TaskMoves()).policy
                assert policy != "Never", "a task was moved whose owner forbids it"
                is_approved = any(one.reason == "ByPerson" for one in move.status.conditions)
                assert policy != "Ask" or is_approved or self.task.approves == move.name, "nobody approved it"
                self._advance(action)
            case AdvanceMove():
                self._advance(action)
            case DeleteMove(move):
                assert move.has_ended, "a Move was deleted that has not ended"
                self.moves.pop(move.name, None)
            case AskToSave(move, pods):
                asked = {pod.uid for pod in pods}
                for pod in self.pods:
                    if pod.uid in asked:
                        pod.asked_by = move.uid
            case _:
                super().perform(action)

    def _advance(self, wanted: AdvanceMove) -> None:
        save_by = moment(wanted.save_by_s) if wanted.save_by_s else None
        said = wanted.phase, wanted.reason, wanted.why, moment(self.now_s)
        self.write(wanted.move, wanted.move.status.advance(*said, save_by=save_by))

    def write(self, seen: Move, status: MoveStatus) -> Move | None:
        """The API server's part: a version that is not the newest is refused."""
        now = self.moves.get(seen.name)
        if now is None or now.resource_version != seen.resource_version:
            return None
        assert not now.has_ended, "a Move that has ended was changed"
        assert not now.is_under_way or status.phase in ("Arriving", "Done"), "a Move under way was withdrawn"
        self.before[seen.name] = now
        version = str(int(now.resource_version) + 1)
        self.moves[seen.name] = replace(now, status=status, resource_version=version)
        return self.moves[seen.name]

    # What the scheduler does.

    def restart_scheduler(self) -> None:
        self.known = dict(self.moves)

    def propose(self) -> None:
        """A Move of all ranks to places that are free now, where there are any."""
        live = [pod for pod in self.pods if pod.phase in _LIVE]
        jobs = [job for job in self.jobs.values() if not (job.failed or job.complete)]
        if not live or len(jobs) != 1 or any(pod.phase != "Running" or pod.deleted for pod in live):
            return
        free, places = self.free(), []
        for pod in live:
            nodes = [name for name, room in free.items() if room > 0 and name != pod.node]
            if not nodes:
                return
            node = self.chance.choice(nodes)
            free[node] -= 1
            places.append(MovePlace(rank=pod.rank, pod_uid=pod.uid, from_node=pod.node, to_node=node))
        self.proposed += 1
        spec = MoveSpec(
            task=MoveTask(name="train", uid=self.task.uid, attempt=jobs[0].attempt),
            takes={"pods": 1},
            places=tuple(places),
            gain=MoveGain(kind="LetsIn", lets_in="someone"),
            valid_until=moment(self.now_s + 600),
        )
        name = f"train-{self.proposed}"
        move = Move("ml", name, f"move-{name}", "1", self.now_s, spec, MoveStatus())
        self.moves[name] = self.known[name] = move

    def free(self) -> dict[str, int]:
        """What the scheduler may give away."""
        free = {name: slots - self.strangers[name] for name, slots in self.slots.items()}
        for _, node in self._taken(self.known.values()):
            free[node] -= 1
        return free

    def _taken(self, moves: Iterable[Move]) -> set[tuple[int, str]]:
        """The places that the task has, and those that are held for it."""
        held = {(one.rank, one.node) for move in moves for one in held_places(move, self._arrived(move))}
        return held | self._mine()

    def _mine(self) -> set[tuple[int, str]]:
        return {(pod.rank, pod.node) for pod in self.pods if pod.phase in _LIVE and pod.node}

    def _arrived(self, move: Move) -> set[int]:
        live = (pod for pod in self.pods if pod.phase in _LIVE and pod.node)
        return {pod.rank for pod in live if pod.uid not in move.pod_uids}

    def run_scheduler(self) -> None:
        """Looks at each Move, then places what is gated."""
        for move in first_come(self.known.values()):
            self._judge(move)
        self._place()

    def _judge(self, move: Move) -> None:
        wanted: dict[str, int] = {}
        mine = self._mine()
        is_held = move.phase in HOLDS
        for place in move.spec.places:
            if (place.rank, place.to_node) not in mine:
                wanted[place.to_node] = wanted.get(place.to_node, 0) + 1
        free = self.free()
        has_room = all(free[node] + (count if is_held else 0) >= count for node, count in wanted.items())
        verdict = judge_move(move, "free" if has_room else "lost", self.now_s)
        if verdict is None:
            return
        status = move.status.advance(verdict.phase, verdict.reason, verdict.why, moment(self.now_s))
        now = self.write(move, status) or self.moves.get(move.name)
        if now is None:
            del self.known[move.name]  # a person has deleted it
        else:
            self.known[move.name] = now

    def _place(self) -> None:
        for job in self.jobs.values():
            gated = [pod for pod in self.pods if pod.job == job.uid and self._is_gated(pod)]
            if not gated:
                continue
            ranks: dict[str, int | None] = {pod.uid: pod.rank for pod in gated}
            moves = [move for move in self.known.values() if move.phase in HOLDS]
            found = next((held for move in moves if (held := new_places(move, ranks)) is not None), None)
            if found is not None and all(self._takes(one.node) for one in found.values()):
                for pod in gated:
                    pod.node = found[pod.uid].node
            else:
                self._place_anywhere(gated, moves)

    def _place_anywhere(self, gated: list[SimPod], moves: list[Move]) -> None:
        """As the planner would; what is held for this task is free for it."""
        free = self.free()
        for _, node in self._taken(moves) - self._mine():
            free[node] += 1
        open_nodes = [name for name, room in free.items() for _ in range(room)]
        if len(open_nodes) >= len(gated):
            self.chance.shuffle(open_nodes)
            for pod, node in zip(gated, open_nodes, strict=False):
                pod.node = node

    def _takes(self, node: str) -> bool:
        """Whether the node is still there with the room that was held."""
        return self.slots[node] > 0

    def _is_gated(self, pod: SimPod) -> bool:
        return pod.phase == "Pending" and not pod.node and not pod.deleted

    # What others do.

    def run_pod(self) -> None:
        live = [pod for pod in self.pods if pod.phase in _LIVE and (pod.node or pod.deleted)]
        if not live:
            return
        pod = self.chance.choice(live)
        if pod.deleted:
            is_lenient = pod.phase == "Running" and self.chance.random() < self.stubborn
            self.end(pod, 0 if is_lenient else 143)
        elif pod.phase == "Pending":
            pod.phase = "Running"
        elif pod.asked_by and not pod.saved_for and self.chance.random() < 0.5:
            pod.saved_for = pod.asked_by
        elif self.chance.random() < self.finishes:
            pod.done = True
            self.end(pod, 0)

    def add_stranger(self) -> None:
        """Somebody else's pod gets any place that the scheduler may give away: none that is held."""
        nodes = [name for name, room in self.free().items() if room > 0]
        if not nodes:
            return
        name = self.chance.choice(nodes)
        self.strangers[name] += 1
        held = sum(node == name for _, node in self._taken(self.moves.values()))
        assert held + self.strangers[name] <= self.slots[name], (
            f"a place on {name} that is held was given away"
        )

    def remove_stranger(self) -> None:
        nodes = [name for name, count in self.strangers.items() if count]
        if nodes:
            self.strangers[self.chance.choice(nodes)] -= 1

    def check(self) -> None:
        """What must hold at every moment; nodes that were lost are left out."""
        for name, slots in self.slots.items():
            used = self.strangers[name] + sum(node == name for _, node in self._mine())
            assert not slots or used <= slots, f"{name} has {used} of {slots}"
        ranks = [pod.rank for pod in self.pods if pod.phase in _LIVE]
        assert len(ranks) == len(set(ranks)), "a rank lives twice"


def movable(policy: str = "WhenItHelps", **values: int) -> TaskMoves:
    return TaskMoves(policy=policy, **values)  # type: ignore[arg-type]  # of the policies
