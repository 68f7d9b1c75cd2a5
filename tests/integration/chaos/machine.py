"""The state machine: hypothesis draws what happens to the node, and shrinks what went wrong."""

import asyncio
import tempfile
from collections import Counter
from collections.abc import Coroutine
from pathlib import Path
from typing import Any, ClassVar

import hypothesis.strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule

from accelet.fakekubelet import Hang, Late, Refuse
from tests.integration.chaos.agents import TaskAgent, Zygote
from tests.integration.chaos.hardware import RESOURCES, A, B, C, Card
from tests.integration.chaos.world import World

PAUSES = st.sampled_from([0.0, 0.0, 0.002, 0.01, 0.03, 0.08])
"""How long everybody may run before the next thing happens, in seconds."""

POLICIES = st.sampled_from(["none", "balanced", "packed"])


class Chaos(RuleBasedStateMachine):
    """One node per example, with a kubelet of `version`, which a subclass sets.

    `zygote` is there while the machine runs. `steps` and `agents` count what is done and to which.
    """

    version: ClassVar[str]
    zygote: ClassVar[Zygote]
    steps: ClassVar[Counter[str]] = Counter()
    agents: ClassVar[Counter[str]] = Counter()

    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.TemporaryDirectory(prefix="chaos-", ignore_cleanup_errors=True)
        self.loop = asyncio.Runner()
        self.world: World | None = None
        self.is_well = True

    def do(self, name: str, work: Coroutine[Any, Any, None] | None, pause_s: float = 0.0) -> None:
        """Does one thing, then lets the node run on for `pause_s`."""
        self.steps[name] += 1
        self.is_well = False

        async def both() -> None:
            async with asyncio.timeout(60):  # in real time: a hang is a defect, whatever the machine does
                if work is not None:
                    await work
                await self.node.pause(pause_s)

        self.loop.run(both())
        self.is_well = True

    @property
    def node(self) -> World:
        assert self.world is not None
        return self.world

    @initialize(
        seed=st.integers(0, 2**32 - 1),
        is_process=st.booleans(),
    )
    def begin(self, seed: int, is_process: bool) -> None:
        self.agents["in a process of its own" if is_process else "in the test's"] += 1
        folder = Path(self.folder.name)
        start = (lambda: self.zygote.fork(folder)) if is_process else (lambda: TaskAgent(folder))

        async def begin() -> None:
            self.world = World(folder, self.version, seed, start)
            await self.world.begin()

        self.loop.run(begin())

    @rule(pause_s=PAUSES)
    def restart_kubelet(self, pause_s: float) -> None:
        self.do("restart kubelet", self.node.restart_kubelet(), pause_s)

    @rule(pause_s=PAUSES)
    def stop_kubelet(self, pause_s: float) -> None:
        self.do("stop kubelet", self.node.stop_kubelet(), pause_s)

    @rule(pause_s=PAUSES)
    def start_kubelet(self, pause_s: float) -> None:
        self.do("start kubelet", self.node.start_kubelet(), pause_s)

    @rule(pause_s=PAUSES)
    def replace_kubelet(self, pause_s: float) -> None:
        self.do("replace kubelet", self.node.replace_kubelet(), pause_s)

    @rule(pause_s=PAUSES)
    def reboot(self, pause_s: float) -> None:
        self.do("reboot", self.node.reboot(), pause_s)

    @rule(pause_s=PAUSES)
    def replace_directory(self, pause_s: float) -> None:
        self.do("replace directory", self.node.replace_directory(), pause_s)

    @rule(resource=st.sampled_from(RESOURCES), pause_s=PAUSES)
    def cut_stream(self, resource: str, pause_s: float) -> None:
        self.do("cut stream", self.node.cut_stream(resource), pause_s)

    @rule(pause_s=PAUSES)
    def drop_kubelet_socket(self, pause_s: float) -> None:
        self.node.drop_kubelet_socket()
        self.do("drop kubelet.sock", None, pause_s)

    @rule(pause_s=PAUSES)
    def remove_sockets(self, pause_s: float) -> None:
        self.node.remove_sockets()
        self.do("remove the agent's sockets", None, pause_s)

    @rule(times=st.integers(1, 3), pause_s=PAUSES)
    def refuse(self, times: int, pause_s: float) -> None:
        self.node.kubelet.faults.register.inject(Refuse("not now"), times=times)
        self.do("refuse Register", None, pause_s)

    @rule(late_s=st.sampled_from([0.05, 0.3]), pause_s=PAUSES)
    def answer_late(self, late_s: float, pause_s: float) -> None:
        self.node.kubelet.faults.register.inject(Late(late_s), times=2)
        self.do("answer Register late", None, pause_s)

    @rule(pause_s=PAUSES)
    def hang(self, pause_s: float) -> None:
        self.node.kubelet.faults.register.inject(Hang())
        self.do("hang in Register", None, pause_s)

    @rule(pause_s=PAUSES)
    def fill_disk(self, pause_s: float) -> None:
        self.node.kubelet.faults.disk_full = True
        self.do("fill disk", None, pause_s)

    @rule(pause_s=PAUSES)
    def lift_faults(self, pause_s: float) -> None:
        self.node.lift_faults()
        self.do("lift faults", None, pause_s)

    @rule(pause_s=PAUSES)
    def kill_agent(self, pause_s: float) -> None:
        self.do("kill agent", self.node.kill_agent(), pause_s)

    @rule(pause_s=PAUSES)
    def stop_agent(self, pause_s: float) -> None:
        self.do("stop agent", self.node.stop_agent(), pause_s)

    @rule(pause_s=PAUSES)
    def start_agent(self, pause_s: float) -> None:
        async def start() -> None:
            self.node.start_agent()

        self.do("start agent", start(), pause_s)

    @rule(
        resource=st.sampled_from(RESOURCES),
        card=st.integers(0, 3),
        state=st.sampled_from(Card),
        pause_s=PAUSES,
    )
    def flap(self, resource: str, card: int, state: Card, pause_s: float) -> None:
        self.node.flap(resource, card, state)
        self.do("flap device", None, pause_s)

    @rule(others=st.sampled_from([(), (B,), (C,), (B, C)]), policy=POLICIES, pause_s=PAUSES)
    def reload(self, others: tuple[str, ...], policy: str, pause_s: float) -> None:
        self.node.reload({A: policy, **dict.fromkeys(others, "none")})
        self.do("reload configuration", None, pause_s)

    @rule(pause_s=PAUSES)
    def break_config(self, pause_s: float) -> None:
        self.do("break configuration", self.node.break_config(), pause_s)

    @rule(
        limits=st.dictionaries(st.sampled_from(RESOURCES), st.integers(1, 2), min_size=1, max_size=2),
        has_init=st.booleans(),
        starts=st.booleans(),
        pause_s=PAUSES,
    )
    def admit(self, limits: dict[str, int], has_init: bool, starts: bool, pause_s: float) -> None:
        self.do("admit pod", self.node.admit(limits, has_init=has_init, starts=starts), pause_s)

    @rule(number=st.integers(0, 20), pause_s=PAUSES)
    def finish_pod(self, number: int, pause_s: float) -> None:
        self.do("finish pod", self.node.finish(number), pause_s)

    @rule(number=st.integers(0, 20), pause_s=PAUSES)
    def remove_pod(self, number: int, pause_s: float) -> None:
        self.do("remove pod", self.node.remove(number), pause_s)

    @rule(pause_s=PAUSES)
    def start_late(self, pause_s: float) -> None:
        self.do("start containers late", self.node.start_late(), pause_s)

    @rule()
    def settle(self) -> None:
        self.do("settle", self.node.settle())

    def teardown(self) -> None:
        try:
            if self.world is not None and self.is_well:
                self.do("settle at the end", self.world.settle())
                self.loop.run(self.world.end())
        finally:
            if self.world is not None and not self.is_well:
                self.loop.run(self.world.abandon())
            self.loop.close()
            self.folder.cleanup()
