"""Pods of random shapes that come, go, are turned away and come again, on a node that has its troubles."""

import asyncio
import os
import sys
import tempfile
from collections import Counter
from dataclasses import dataclass, field, replace
from pathlib import Path
from random import Random

from accelet.agent.process import Agent
from accelet.fakeapi import FakeApi, Json
from accelet.fakekubelet import Container, Event, FakeKubelet, Pod, PodRecord, Rejection, a_container, a_pod
from tests.fakes.clocks import QuickClock
from tests.integration.agent.running import GPU, agent, config
from tests.integration.identity.world import REPLICA_SET, STATEFUL_SET, World, gas, tiles_config

CARDS = 8
SHARES = 60
TILES = 2
LAGS_S = (0.0, 0.0, 0.02, 0.5, 2.0)
SUFFIX = "bcdfghjklmnpqrstvwxz2456789"

KUBELET_SECONDS = 20
"""In one of the machine's: the kubelet's rate limit is not what is tested here."""

Assigned = dict[str, dict[int, frozenset[int]]]
"""What each container is assigned: tiles by card."""


@dataclass(frozen=True)
class Drawn:
    """A pod, what its containers are assigned, and who made it."""

    pod: Pod
    assigned: Assigned
    owner: Json | None


def draw(random: Random, name: str | None = None) -> Drawn:
    """A pod that can be admitted: what a plain init container has fits whatever comes after it."""
    main = [
        a_container(f"main{i}", amounts(random.choice([0, 1, 1, 2]))) for i in range(random.randint(1, 3))
    ]
    if not any(container.limits for container in main):
        main[-1] = a_container(main[-1].name, amounts(1))
    init = [draw_init(random, i) for i in range(random.choice([0, 0, 0, 1, 2]))]
    assigned = assign(random, main)
    owner = STATEFUL_SET if name is not None else None
    if name is None and random.random() < 0.7:
        name, owner = "web-7d9c5-" + "".join(random.choices(SUFFIX, k=5)), REPLICA_SET
    name = name or f"bare-{random.getrandbits(32):x}"
    return Drawn(
        a_pod(name, containers=main, init_containers=init, annotations=render(main, assigned)),
        assigned,
        owner,
    )


def assign(random: Random, main: list[Container], *, with_tiles: float = 0.7) -> Assigned:
    """Cards at random, and for some containers tiles of them at random."""
    assigned: Assigned = {}
    for container in main:
        cards = random.sample(range(CARDS), container.limits.get(GPU, 0))
        has_tiles = random.random() < with_tiles
        some = [frozenset({0}), frozenset({1}), frozenset({0, 1})] if has_tiles else [frozenset[int]()]
        assigned[container.name] = {card: random.choice(some) for card in cards}
    return assigned


def amounts(count: int) -> dict[str, int]:
    return {GPU: count} if count else {}


def draw_init(random: Random, index: int) -> Container:
    if random.random() < 0.5:
        return a_container(f"side{index}", amounts(random.choice([0, 1, 2])), restart_policy="Always")
    return a_container(f"init{index}", amounts(random.choice([0, 1])))


def render(main: list[Container], assigned: Assigned) -> dict[str, str]:
    cards = "|".join(",".join(f"card{card}" for card in assigned[one.name]) for one in main)
    tiles = "|".join(
        ",".join(
            f"card{card}:{'+'.join(f'gt{tile}' for tile in sorted(some))}"
            for card, some in assigned[one.name].items()
            if some
        )
        for one in main
    )
    return gas(cards, tiles if tiles.strip("|") else None)


def wanted_view(assigned: dict[int, frozenset[int]]) -> tuple[list[str], str | None]:
    """The nodes and the mask (FLAT: tiles counted through all cards) that an assignment asks for."""
    numbers = [
        position * TILES + tile
        for position, (_, tiles) in enumerate(sorted(assigned.items()))
        for tile in sorted(tiles or range(TILES))
    ]
    nodes = [f"/dev/dri/card{card}" for card in sorted(assigned)]
    is_whole = len(numbers) == TILES * len(assigned)
    return nodes, None if is_whole else ",".join(map(str, numbers))


def own_view(record: PodRecord, container: str) -> tuple[list[str], str | None]:
    options = record.containers[container].options
    return [node.container_path for node in options.devices], options.envs.get("ZE_AFFINITY_MASK")


def why_refused(message: str) -> str:
    """What the sentence in a refused pod's status says, in short."""
    sentences = {
        "had been deleted by force": "refused for a former one's sake",
        "which is gone or ending, was on this node without": "refused beside one that is gone",
        "it cannot be told": "unproven",
        "assigned is": "mismatch",
        "turned away by the test": "turned away",
    }
    return next((kind for said, kind in sentences.items() if said in message), "turned away by the kubelet")


@dataclass
class Storm:
    """`counts` has what became of pods and containers, `wrong` what was given to whom it was not for."""

    world: World
    random: Random
    counts: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)
    staying: list[PodRecord] = field(default_factory=list)
    hook_turns_away: float = 0.1
    most_late_s: float = 0.0
    _names: int = 0

    def after_devices(self, _pod: Pod) -> Rejection | None:
        """Some pods are turned away by a check that comes after their devices."""
        if self.random.random() < self.hook_turns_away:
            return Rejection("OutOfcpu", "turned away by the test")
        return None

    def hear(self, event: Event) -> None:
        """A pod that ran is turned away by a kubelet that starts again; its status arrives a little later."""
        for record in self.staying if event.event == "rejected" else ():
            if str(record.pod) == event.pod:
                delay_s = self.random.random() * 0.05
                asyncio.get_running_loop().call_later(delay_s, self.world.post_status, record)

    async def blow(self, containers: int, *, pods_at_once: int = 6, kubelet_restarts: int = 1) -> None:
        """Goes on until about so many more containers have been admitted."""
        until = self.counts["containers"] + containers
        self.world.api.lag_s = self.random.choice(LAGS_S)
        clock = asyncio.create_task(self._watch_clock())
        async with asyncio.TaskGroup() as tasks:
            for _ in range(pods_at_once):
                tasks.create_task(self._arrive(until))
            tasks.create_task(self._restart(until, containers, kubelet_restarts))
        clock.cancel()
        while len(self.staying) > 12:
            await self.world.remove(self.staying.pop(0))

    async def _watch_clock(self) -> None:
        """How late the machine is: the agent's own time limits are real ones."""
        loop = asyncio.get_running_loop()
        while True:
            due_s = loop.time() + 0.02
            await asyncio.sleep(0.02)
            self.most_late_s = max(self.most_late_s, loop.time() - due_s)

    async def _restart(self, until: int, containers: int, times: int) -> None:
        for number in range(times, 0, -1):
            while self.counts["containers"] < until - containers * number / (times + 1):  # noqa: ASYNC110 - time
                await asyncio.sleep(0.05)
            await self.world.kubelet.restart()

    async def _arrive(self, until: int) -> None:
        random = self.random
        while self.counts["containers"] < until:
            await asyncio.sleep(random.random() * 0.02)
            if random.random() < 0.4:
                self._names += 1
                name = f"db-{self._names}"
                while await self._live(draw(random, name)) and self.counts["containers"] < until:
                    pass  # made anew under its name, at once
            else:
                await self._live(draw(random))

    async def _live(self, drawn: Drawn) -> bool:
        """One pod, from its creation to its end; whether it is to be made anew."""
        world, random = self.world, self.random
        created = world.create(drawn.pod, owner=drawn.owner)
        if random.random() < 0.1:
            # By force: the kubelet has not confirmed it, and as far as the agent can tell is admitting it.
            world.delete(created)
            self.counts["pods deleted by force and made anew"] += drawn.owner is STATEFUL_SET
            return True
        await asyncio.sleep(random.random() * 0.01)
        record = world.kubelet.bind(replace(created))
        await world.kubelet.decided(record, timeout_s=90)
        self._check(drawn, record)
        await asyncio.sleep(random.random() * 0.05)
        world.post_status(record)
        if record.admitted and random.random() < 0.15 and drawn.owner is not STATEFUL_SET:
            self.staying.append(record)
            return False
        await asyncio.sleep(random.random() * 0.1)
        await world.remove(record)
        return drawn.owner is STATEFUL_SET and random.random() < 0.5

    def _check(self, drawn: Drawn, record: PodRecord) -> None:
        asked = [one.name for one in record.pod.in_order() if one.limits]
        self.counts["containers"] += len(asked)
        if record.rejection is not None:
            message = record.rejection.message
            kind = why_refused(message)
            self.counts[f"pods {kind}"] += 1
            self.counts["refused"] += "turned away" not in kind
            return
        self.counts["pods admitted"] += 1
        for name in asked:
            view = own_view(record, name)
            assigned = drawn.assigned.get(name)
            right = view == wanted_view(assigned) if assigned else view[1] is None
            self.counts["right" if right else "wrong"] += 1
            if not right:
                self.wrong.append(f"{record.pod} {name}: {view}, assigned {assigned}")


def note_matches(counts: Counter[str], agent: Agent) -> None:
    """Adds what the agent counted in its life."""
    for family in agent.metrics.registry.collect():
        for sample in family.samples:
            if sample.name in ("accelet_matches_total", "accelet_answers_settled_total"):
                label = sample.labels.get("proof") or sample.labels.get("outcome")
                counts[f"{sample.name} {label}"] += int(sample.value)


def is_soak() -> bool:
    return os.environ.get("ACCELET_HYPOTHESIS_PROFILE") == "soak"


async def blow(folder: Path, version: str, containers: int, lives: int, seed: int = 7) -> Storm:
    """So many containers on a kubelet of this version, over so many lives of the agent.

    In each life the kubelet restarts once, and the watch lags by another time.
    """
    with FakeApi() as api:
        random = Random(seed)
        storm = Storm(World(api, FakeKubelet(folder), api.write_kubeconfig(folder / "kubeconfig")), random)
        kubelet = storm.world.kubelet = FakeKubelet(
            folder,
            version=version,
            seed=seed,
            clock=QuickClock(KUBELET_SECONDS),
            admission_hook=storm.after_devices,
        )
        path = folder / "config.yaml"
        path.write_text(config(tiles_config(CARDS, shares=SHARES)))
        kubelet.trace.listen(storm.hear)
        async with kubelet:
            for _ in range(lives):
                async with agent(folder, path, storm.world.kubeconfig) as running:
                    await kubelet.resource(GPU).devices(healthy=CARDS * SHARES, timeout_s=60)
                    # A pod bound within 0.05 s of a registration may be refused: it may have come before it.
                    await running.knows_pods()
                    await storm.blow(containers // lives)
                    note_matches(storm.counts, running)
    return storm


async def report(containers: int) -> None:
    """What became of the containers, by version of the kubelet, as a table."""
    sys.stdout.write("| kubelet | containers | right | pods refused | pods turned away | wrong |\n")
    sys.stdout.write("|---|---|---|---|---|---|\n")
    for version in ("1.33", "1.34", "1.36", "1.38"):
        with tempfile.TemporaryDirectory(prefix="storm-") as name:
            counts = (await blow(Path(name), version, containers, 5)).counts
        away = counts["pods turned away"] + counts["pods turned away by the kubelet"]
        figures = (counts["containers"], counts["right"], counts["refused"], away, counts["wrong"])
        sys.stdout.write(f"| {version} | {' | '.join(map(str, figures))} |\n")


if __name__ == "__main__":
    asyncio.run(report(int(sys.argv[1])))
