"""The same script on both kubelets."""

import asyncio
import tempfile
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from tests.e2e.scenarios.dra.driver import RecordingDriver
from tests.e2e.scenarios.dra.kubelets import ClaimKubelet, RealClaimKubelet, fake_claim_kubelet
from tests.e2e.scenarios.dra.looking import look
from tests.e2e.scenarios.dra.script import AdmitClaims, Answer, ClaimAct, OnClaimPod, read_claim_script
from tests.e2e.scenarios.nodes import Site
from tests.e2e.scenarios.transcript import Transcript

PREPARING = "preparing"
LEAVING = "leaving"
"""Takes as long as a kubelet waits for a driver that is gone."""


async def play_claims_on_fake(name: str, version: str) -> list[str]:
    """The transcript of a script on a fake kubelet, in a folder whose path leaves room for sockets."""
    with tempfile.TemporaryDirectory(prefix="claims-") as folder:
        async with fake_claim_kubelet(Path(folder), version) as kubelet:
            return await _Play(kubelet).run(name)


async def play_claims_on_node(name: str, site: Site) -> list[str]:
    """The transcript of a script on a real kubelet; its claims are removed afterwards."""
    real = RealClaimKubelet(site)
    transcript = await _Play(real).run(name)
    acts = [act for _, act in read_claim_script(name) if act.admit is not None]
    made = {claim for act in acts for claim, devices in act.action.claims.items() if devices}
    await real.clean(sorted(made))
    return transcript


class _Play:
    def __init__(self, kubelet: ClaimKubelet) -> None:
        self.kubelet, self.transcript = kubelet, Transcript()
        self.driver = RecordingDriver(kubelet.root, kubelet.own_root, kubelet.cdi, self.transcript)

    async def run(self, name: str) -> list[str]:
        try:
            for heading, act in read_claim_script(name):
                self.transcript.begin(heading)
                await self._perform(act)
            return self.transcript.render()
        finally:
            await self.driver.close()

    async def _perform(self, act: ClaimAct) -> None:
        perform: Callable[[Any], Awaitable[None]] = getattr(self, f"_{act.name}")
        await perform(act.action)

    async def _drive(self, _action: object) -> None:
        await self.driver.serve()

    async def _admit(self, action: AdmitClaims) -> None:
        self.driver.devices |= {name: devices for name, devices in action.claims.items() if devices}
        self.transcript.add("", await self.kubelet.admit(action))

    async def _remove(self, action: OnClaimPod) -> None:
        await self.kubelet.remove(action.pod)

    async def _behave(self, action: Answer) -> None:
        self.driver.behave(action)

    async def _look(self, _action: object) -> None:
        await look(self.kubelet.root, self.transcript, self.kubelet.pod_name)

    async def _stop_kubelet(self, _action: object) -> None:
        await self.kubelet.stop()

    async def _start_kubelet(self, _action: object) -> None:
        self.driver.registered, self.driver.watched = asyncio.Event(), asyncio.Event()
        await self.kubelet.start()
        await self.driver.is_back()

    async def _publish(self, _action: object) -> None:
        await self.kubelet.publish()

    async def _close(self, _action: object) -> None:
        await self.driver.close()

    async def _wiped(self, _action: object) -> None:
        await self.kubelet.wiped()
        self.transcript.add("", "the slice is gone")
