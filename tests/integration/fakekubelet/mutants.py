"""The sample plugin with one thing wrong at a time, each to be found out by exactly one check."""

import asyncio
import contextlib
import os
import socket
import sys
import time
import uuid
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path
from typing import ClassVar

import grpc
import grpc.aio

from accelet.fakekubelet.devices.holdings import read_checkpoint
from accelet.fakekubelet.sample_plugin import POLL_S, GivenUpError, SamplePlugin, main
from accelet.kubelet.api import deviceplugin_pb2 as api
from accelet.kubelet.api import deviceplugin_pb2_grpc as rpc
from accelet.kubelet.api import podresources_pb2, podresources_pb2_grpc

Context = grpc.aio.ServicerContext[object, object]
SETTLING_S = 0.5
"""A stream ends a few milliseconds before the next kubelet is to be seen."""

MUTANTS: dict[type[SamplePlugin], str] = {}


def fails(check: str) -> Callable[[type[SamplePlugin]], type[SamplePlugin]]:
    """The one check that finds this mutant out."""

    def note(mutant: type[SamplePlugin]) -> type[SamplePlugin]:
        MUTANTS[mutant] = check
        return mutant

    return note


# Registering


@fails("R1")
class NeverRegisters(SamplePlugin):
    async def register(self) -> None:
        await asyncio.Event().wait()


@fails("R2")
class RegistersBeforeItServes(SamplePlugin):
    async def announce(self, server: grpc.aio.Server) -> None:
        registering = asyncio.create_task(self.register())
        try:
            await asyncio.sleep(0.3)
            server.add_insecure_port(f"unix:{self.socket}")
            await server.start()
            await registering
        finally:
            registering.cancel()
            await asyncio.gather(registering, return_exceptions=True)


@fails("R3")
class IsImpatient(SamplePlugin):
    async def register(self) -> None:
        async with grpc.aio.insecure_channel(f"unix:{self.folder / 'kubelet.sock'}") as channel:
            await rpc.RegistrationStub(channel).Register(self.registration(), timeout=5)


@fails("R4")
class TakesItsTimeAfterARestart(SamplePlugin):
    async def watch(self, seen: tuple[int, int]) -> None:
        await super().watch(seen)
        await asyncio.sleep(SETTLING_S)
        if self.kubelet() != seen:
            await asyncio.sleep(2)


@fails("R5")
class EndsWithoutAKubelet(SamplePlugin):
    async def kubelet_appears(self) -> tuple[int, int]:
        seen = self.kubelet()
        if seen is None:
            raise GivenUpError("no kubelet")
        return seen


@fails("R6")
class SpinsOnADeadSocket(SamplePlugin):
    async def register(self) -> None:
        while True:
            try:
                return await super().register()
            except grpc.aio.AioRpcError as error:
                if "connect" not in (error.details() or ""):
                    raise
            deadline = asyncio.get_running_loop().time() + POLL_S
            while asyncio.get_running_loop().time() < deadline:
                pass


@fails("R7")
class TrustsItsOwnSocket(SamplePlugin):
    """Its socket is still there, so it takes the kubelet for the same one."""

    async def watch(self, seen: tuple[int, int]) -> None:
        await super().watch(seen)
        await asyncio.sleep(SETTLING_S)
        if self.socket.exists() and self.kubelet() != seen:
            await asyncio.Event().wait()


@fails("R8")
class HoldsOnToTheOldFolder(SamplePlugin):
    def __init__(self, folder: Path, devices: Path) -> None:
        super().__init__(folder, devices)
        self.descriptor = os.open(folder, os.O_RDONLY)
        self.folder = Path(f"/proc/self/fd/{self.descriptor}")


@fails("R8")
class EndsWellInANewFolder(SamplePlugin):
    async def watch(self, seen: tuple[int, int]) -> None:
        before = self.folder.stat().st_ino
        await super().watch(seen)
        await asyncio.sleep(SETTLING_S)
        if self.folder.stat().st_ino != before:
            raise GivenUpError("another folder", code=0)


@fails("R9")
class HammersTheKubelet(SamplePlugin):
    async def run(self) -> None:
        self.clear_up()
        while True:
            with contextlib.suppress(grpc.aio.AioRpcError):
                await self.live(await self.kubelet_appears())
            await asyncio.sleep(POLL_S)


@fails("R10")
class IgnoresACutStream(SamplePlugin):
    def is_over(self, seen: tuple[int, int]) -> bool:
        self.stream_ended.clear()
        return self.kubelet() != seen or not self.socket.exists()


@fails("R11")
class GivesUpAtTheFirstNo(SamplePlugin):
    def is_final(self, error: grpc.aio.AioRpcError) -> bool:
        return "connect" not in (error.details() or "")


@fails("R12")
class RegistersTwice(SamplePlugin):
    async def watch(self, seen: tuple[int, int]) -> None:
        await asyncio.sleep(1)
        if not self.is_over(seen):
            await self.register()
        await super().watch(seen)


@fails("R12")
class RegistersNowAndAgain(SamplePlugin):
    """To be on the safe side it begins a new generation now and then."""

    async def watch(self, seen: tuple[int, int]) -> None:
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(super().watch(seen), 1.6)


@fails("R13")
class HasOneSocketName(SamplePlugin):
    def socket_name(self) -> str:
        return "sample-one.sock"


@fails("R14")
class RemovesItsSocket(SamplePlugin):
    async def register(self) -> None:
        await super().register()
        self.socket.unlink()

    def is_over(self, seen: tuple[int, int]) -> bool:
        return self.stream_ended.is_set() or self.kubelet() != seen


@fails("R15")
class LeaksAFile(SamplePlugin):
    leaked: ClassVar[list[int]] = []

    async def live(self, seen: tuple[int, int]) -> None:
        self.leaked.append(os.open(self.folder, os.O_RDONLY))
        await super().live(seen)


@fails("R16")
class ChokesOnNewFields(SamplePlugin):
    async def GetDevicePluginOptions(self, request: api.Empty, context: Context) -> api.DevicePluginOptions:  # noqa: N802
        if request.ByteSize():
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, "what is that?")
        return self.options()


@fails("R18")
class SaysOtherOptionsWhenItRegisters(SamplePlugin):
    def registration(self) -> api.RegisterRequest:
        request = super().registration()
        request.options.pre_start_required = False
        return request


# Listing


class Renamed(SamplePlugin):
    """Its ids begin with the names of its files."""

    def file(self, device: str) -> Path:
        return self.devices / device[: len("dev-0")]


@fails("L1")
class ListsLate(SamplePlugin):
    async def ListAndWatch(  # noqa: N802
        self, request: api.Empty, context: Context
    ) -> AsyncIterator[api.ListAndWatchResponse]:
        await asyncio.sleep(0.5)
        async for message in super().ListAndWatch(request, context):
            yield message


@fails("L2")
class NumbersItsGenerations(Renamed):
    generation = 0

    async def live(self, seen: tuple[int, int]) -> None:
        self.generation += 1
        self.held_back = {}
        self.listed = self.scan()
        await super().live(seen)

    def read(self, path: Path) -> api.Device:
        device = super().read(path)
        device.ID += f".g{self.generation}"
        return device

    def scan(self) -> list[api.Device]:
        return [self.read(path) for path in sorted(self.devices.iterdir())] + self._gone()

    def _gone(self) -> list[api.Device]:
        here = {path.name for path in self.devices.iterdir()}
        before = {each.ID: each for each in getattr(self, "listed", [])}
        return [
            self.gone(each)
            for name, each in before.items()
            if name.partition(".")[0] not in here and name.endswith(f".g{self.generation}")
        ]


@fails("L3")
class DrawsItsIds(Renamed):
    def __init__(self, folder: Path, devices: Path) -> None:
        self.drawn = uuid.uuid4().hex[:6]
        super().__init__(folder, devices)

    def scan(self) -> list[api.Device]:
        return [self._drawn(device) for device in super().scan()]

    def _drawn(self, device: api.Device) -> api.Device:
        return (
            api.Device(ID=f"{device.ID}.{self.drawn}", health=device.health, topology=device.topology)
            if device.HasField("topology")
            else api.Device(ID=f"{device.ID}.{self.drawn}", health=device.health)
        )


@fails("L4")
class RepeatsItself(SamplePlugin):
    def look(self) -> None:
        super().look()
        self.wake()


@fails("L5")
class HasColonsInItsIds(Renamed):
    def scan(self) -> list[api.Device]:
        found = super().scan()
        return [api.Device(ID=f"{device.ID}:x", health=device.health) for device in found]


@fails("L6")
class ListsADeviceTwice(SamplePlugin):
    def scan(self) -> list[api.Device]:
        found = super().scan()
        return [*found, found[0]]


@fails("L7")
class InventsAWord(SamplePlugin):
    def scan(self) -> list[api.Device]:
        *found, last = super().scan()
        return [*found, api.Device(ID=last.ID, health="healthy")]


@fails("L8")
class SendsAnEmptyTopology(SamplePlugin):
    def read(self, path: Path) -> api.Device:
        device = super().read(path)
        device.topology.CopyFrom(api.TopologyInfo())
        return device


@fails("L9")
class FitsOnAGoodDayOnly(SamplePlugin):
    def scan(self) -> list[api.Device]:
        return [api.Device(ID=f"{number:063d}", health="Healthy") for number in range(50_500)]

    def answer(self, ids: Sequence[str]) -> api.ContainerAllocateResponse:
        return api.ContainerAllocateResponse()

    def look(self) -> None:
        pass


@fails("L10")
class NeverLooksAgain(SamplePlugin):
    def look(self) -> None:
        pass


@fails("L11")
class DropsWhatIsGone(SamplePlugin):
    def scan(self) -> list[api.Device]:
        self.held_back = {}
        return super().scan()


@fails("L12")
class HasAnUnknownNumaNode(SamplePlugin):
    """What sysfs says of a device without a node, taken for one."""

    def read(self, path: Path) -> api.Device:
        device = super().read(path)
        device.topology.CopyFrom(api.TopologyInfo(nodes=[api.NUMANode(ID=-1)]))
        return device


@fails("L12")
class HasANumaNodeThatTheHostHasNot(SamplePlugin):
    def read(self, path: Path) -> api.Device:
        device = super().read(path)
        device.topology.CopyFrom(api.TopologyInfo(nodes=[api.NUMANode(ID=64)]))
        return device


@fails("L13")
class DropsAllForOne(SamplePlugin):
    """When a device is gone its look fails, and it lists what it has lost alone."""

    def scan(self) -> list[api.Device]:
        found = super().scan()
        gone = [device for device in found if not self.file(device.ID).exists()]
        return gone or found


@fails("L13")
class TakesAllForUnhealthy(SamplePlugin):
    def scan(self) -> list[api.Device]:
        found = super().scan()
        is_whole = all(self.file(device.ID).exists() for device in found)
        return found if is_whole else [self.gone(device) for device in found]


# Allocating


@fails("A1")
class AnswersForOneContainer(SamplePlugin):
    async def Allocate(self, request: api.AllocateRequest, context: Context) -> api.AllocateResponse:  # noqa: N802
        answer = await super().Allocate(request, context)
        return api.AllocateResponse(container_responses=answer.container_responses[:1])


@fails("A2")
class GivesAHugeEnvironment(SamplePlugin):
    def answer(self, ids: Sequence[str]) -> api.ContainerAllocateResponse:
        answer = super().answer(ids)
        if len(ids) == len(self.listed):
            answer.envs["HUGE"] = "x" * 200_000
        return answer


@fails("A3")
class AnswersSlowly(SamplePlugin):
    async def Allocate(self, request: api.AllocateRequest, context: Context) -> api.AllocateResponse:  # noqa: N802
        await asyncio.sleep(0.3)
        return await super().Allocate(request, context)


@fails("A4")
class CountsItsAnswers(SamplePlugin):
    answers = 0

    def answer(self, ids: Sequence[str]) -> api.ContainerAllocateResponse:
        self.answers += 1
        answer = super().answer(ids)
        answer.envs["ANSWER"] = str(self.answers)
        return answer


@fails("A5")
class GivesStrangers(SamplePlugin):
    def unusable(self, ids: Sequence[str]) -> list[str]:
        sick = {device.ID for device in self.listed if device.health != "Healthy"}
        return sorted(set(ids) & sick)


@fails("A6")
class GivesTheUnhealthy(SamplePlugin):
    def unusable(self, ids: Sequence[str]) -> list[str]:
        return sorted(set(ids) - {device.ID for device in self.listed})


@fails("A7")
class KnowsBetterThanTheKubelet(SamplePlugin):
    """If all devices are held it takes the next call for a mistake."""

    def unusable(self, ids: Sequence[str]) -> list[str]:
        holdings, _ = read_checkpoint((self.folder / "kubelet_internal_checkpoint").read_text())
        held = holdings.ids_by_resource().get(self.resource, set())
        return sorted(ids) if len(held) == len(self.listed) else super().unusable(ids)


@fails("A8")
class ForgetsWhatMustBeThere(SamplePlugin):
    def prefer(self, available: Sequence[str], must: Sequence[str], size: int) -> list[str]:
        return sorted(available)[:size]


@fails("A8")
class PrefersTooMany(SamplePlugin):
    def prefer(self, available: Sequence[str], must: Sequence[str], size: int) -> list[str]:
        return super().prefer(available, must, size + 1)


@fails("A8")
class PrefersWhatIsNotThere(SamplePlugin):
    def prefer(self, available: Sequence[str], must: Sequence[str], size: int) -> list[str]:
        return [f"not-{device}" for device in super().prefer(available, must, size)]


@fails("A9")
class PrefersWhatComesFirst(SamplePlugin):
    def prefer(self, available: Sequence[str], must: Sequence[str], size: int) -> list[str]:
        return [*must, *(device for device in available if device not in must)][:size]


@fails("A10")
class FailsToPrefer(SamplePlugin):
    def prefer(self, available: Sequence[str], must: Sequence[str], size: int) -> list[str]:
        if size > len(available):
            raise ValueError("there are not so many")
        return super().prefer(available, must, size)


@fails("A11")
class LosesItsFiles(SamplePlugin):
    def __init__(self, folder: Path, devices: Path) -> None:
        super().__init__(folder, devices)
        self.files = folder.parent / "files"
        self.files.mkdir(exist_ok=True)
        for old in self.files.iterdir():
            old.unlink()

    def answer(self, ids: Sequence[str]) -> api.ContainerAllocateResponse:
        file = self.files / "-".join(ids)
        file.touch()
        return api.ContainerAllocateResponse(
            mounts=[api.Mount(container_path="/run/file", host_path=str(file), read_only=True)]
        )


@fails("A12")
class ReadiesOnce(SamplePlugin):
    def __init__(self, folder: Path, devices: Path) -> None:
        super().__init__(folder, devices)
        self.readied: set[str] = set()

    async def PreStartContainer(  # noqa: N802
        self, request: api.PreStartContainerRequest, context: Context
    ) -> api.PreStartContainerResponse:
        if self.readied & set(request.devices_ids):
            await context.abort(grpc.StatusCode.ALREADY_EXISTS, "has been readied")
        self.readied.update(request.devices_ids)
        return api.PreStartContainerResponse()


@fails("A12")
class ReadiesOneAtATime(SamplePlugin):
    busy = False

    async def PreStartContainer(  # noqa: N802
        self, request: api.PreStartContainerRequest, context: Context
    ) -> api.PreStartContainerResponse:
        if self.busy:
            await context.abort(grpc.StatusCode.UNAVAILABLE, "busy")
        self.busy = True
        await asyncio.sleep(0.1)
        self.busy = False
        return api.PreStartContainerResponse()


class _AsksPodResources(SamplePlugin):
    @contextlib.asynccontextmanager
    async def podresources(self) -> "AsyncIterator[podresources_pb2_grpc.PodResourcesListerAsyncStub]":
        path = self.folder.parent / "pod-resources" / "kubelet.sock"
        async with grpc.aio.insecure_channel(f"unix:{path}") as channel:
            yield podresources_pb2_grpc.PodResourcesListerStub(channel)


@fails("A13")
class ListsAllPods(_AsksPodResources):
    async def Allocate(self, request: api.AllocateRequest, context: Context) -> api.AllocateResponse:  # noqa: N802
        with contextlib.suppress(grpc.aio.AioRpcError):
            async with self.podresources() as stub:
                await stub.List(podresources_pb2.ListPodResourcesRequest())
        return await super().Allocate(request, context)


@fails("A14")
class FailsWhenTheKubeletIsBusy(_AsksPodResources):
    async def Allocate(self, request: api.AllocateRequest, context: Context) -> api.AllocateResponse:  # noqa: N802
        try:
            async with self.podresources() as stub:
                await stub.Get(podresources_pb2.GetPodResourcesRequest(pod_name="a", pod_namespace="default"))
        except grpc.aio.AioRpcError as error:
            if error.code() is grpc.StatusCode.RESOURCE_EXHAUSTED:
                await context.abort(error.code(), "the kubelet is busy")
        return await super().Allocate(request, context)


@fails("A15")
class RemembersACancelledCall(SamplePlugin):
    was_cancelled = False

    async def Allocate(self, request: api.AllocateRequest, context: Context) -> api.AllocateResponse:  # noqa: N802
        if self.was_cancelled:
            await context.abort(grpc.StatusCode.ABORTED, "still holding the lock")
        try:
            await asyncio.sleep(0.05)
        except asyncio.CancelledError:
            self.was_cancelled = True
            raise
        return await super().Allocate(request, context)


@fails("A16")
class PrefersSlowly(SamplePlugin):
    async def GetPreferredAllocation(  # noqa: N802
        self, request: api.PreferredAllocationRequest, context: Context
    ) -> api.PreferredAllocationResponse:
        await asyncio.sleep(0.3)
        return await super().GetPreferredAllocation(request, context)


# What containers are given


@fails("G1")
class GivesARelativeHostPath(SamplePlugin):
    def answer(self, ids: Sequence[str]) -> api.ContainerAllocateResponse:
        answer = super().answer(ids)
        for device in answer.devices:
            device.host_path = device.host_path.lstrip("/")
        return answer


@fails("G1")
class GivesAPathWithANul(SamplePlugin):
    def answer(self, ids: Sequence[str]) -> api.ContainerAllocateResponse:
        answer = super().answer(ids)
        for mount in answer.mounts:
            mount.container_path += "\0"
        return answer


@fails("G1")
class MountsOverTheRoot(SamplePlugin):
    def answer(self, ids: Sequence[str]) -> api.ContainerAllocateResponse:
        answer = super().answer(ids)
        answer.mounts.add(container_path="/", host_path=str(self.devices))
        return answer


@fails("G2")
class GivesEveryDeviceTheSamePath(SamplePlugin):
    """Each alone is right; a container of two has one of them."""

    def answer(self, ids: Sequence[str]) -> api.ContainerAllocateResponse:
        answer = super().answer(ids)
        for mount in answer.mounts:
            mount.container_path = "/run/sample/device"
        return answer


@fails("G2")
class MountsOverItsDevice(SamplePlugin):
    def answer(self, ids: Sequence[str]) -> api.ContainerAllocateResponse:
        answer = super().answer(ids)
        for mount, device in zip(answer.mounts, answer.devices, strict=True):
            mount.container_path = f"{device.container_path}/"
        return answer


@fails("G3")
class WantsToExecuteADevice(SamplePlugin):
    def answer(self, ids: Sequence[str]) -> api.ContainerAllocateResponse:
        answer = super().answer(ids)
        for device in answer.devices:
            device.permissions = "rwx"
        return answer


@fails("G3")
class LeavesPermissionsOut(SamplePlugin):
    def answer(self, ids: Sequence[str]) -> api.ContainerAllocateResponse:
        answer = super().answer(ids)
        for device in answer.devices:
            device.permissions = ""
        return answer


@fails("G4")
class NamesACdiDeviceWithoutItsKind(SamplePlugin):
    def answer(self, ids: Sequence[str]) -> api.ContainerAllocateResponse:
        answer = super().answer(ids)
        for device in answer.cdi_devices:
            device.name = device.name.partition("=")[2]
        return answer


@fails("G4")
class NamesACdiDeviceInAnAnnotation(SamplePlugin):
    def answer(self, ids: Sequence[str]) -> api.ContainerAllocateResponse:
        answer = super().answer(ids)
        answer.annotations["cdi.k8s.io/sample"] = "example.com/sample=dev-0, example.com/sample=dev-1"
        return answer


@fails("G4")
class HasAClassOfOneLetter(SamplePlugin):
    def answer(self, ids: Sequence[str]) -> api.ContainerAllocateResponse:
        answer = super().answer(ids)
        for device in answer.cdi_devices:
            device.name = device.name.replace("/sample=", "/s=")
        return answer


@fails("G5")
class PutsAnEqualsSignIntoAName(SamplePlugin):
    def answer(self, ids: Sequence[str]) -> api.ContainerAllocateResponse:
        answer = super().answer(ids)
        answer.envs["SAMPLE=DEVICES"] = "1"
        return answer


@fails("G5")
class PutsANulIntoAValue(SamplePlugin):
    def answer(self, ids: Sequence[str]) -> api.ContainerAllocateResponse:
        answer = super().answer(ids)
        answer.envs["SAMPLE_DEVICES"] = "\0".join(ids)
        return answer


@fails("G6")
class GivesADeviceThatIsNotThere(SamplePlugin):
    def answer(self, ids: Sequence[str]) -> api.ContainerAllocateResponse:
        answer = super().answer(ids)
        for device in answer.devices:
            device.host_path = "/dev/no-such-device"
        return answer


@fails("G6")
class GivesAFileForADevice(SamplePlugin):
    def answer(self, ids: Sequence[str]) -> api.ContainerAllocateResponse:
        answer = super().answer(ids)
        for device in answer.devices:
            device.host_path = str(self.file(ids[0]))
        return answer


@fails("G6")
class MountsWhatIsNotThere(SamplePlugin):
    def answer(self, ids: Sequence[str]) -> api.ContainerAllocateResponse:
        answer = super().answer(ids)
        for mount in answer.mounts:
            mount.host_path += "-library"
        return answer


# Stopping


@fails("S1")
class TakesItsTimeToEnd(SamplePlugin):
    async def run(self) -> None:
        try:
            await super().run()
        finally:
            await asyncio.sleep(3)


@fails("S2")
class LeavesItsSocket(SamplePlugin):
    async def live(self, seen: tuple[int, int]) -> None:
        try:
            await super().live(seen)
        finally:
            with socket.socket(socket.AF_UNIX) as left, contextlib.suppress(OSError):
                left.bind(str(self.socket))


@fails("S3")
class LeavesLitter(SamplePlugin):
    async def announce(self, server: grpc.aio.Server) -> None:
        await super().announce(server)
        (self.folder / "sample-state.json").write_text("{}")


@fails("S4")
class NeverClearsUp(SamplePlugin):
    def clear_up(self) -> None:
        pass


@fails("S5")
class ClearsTheWholeFolder(SamplePlugin):
    def clear_up(self) -> None:
        for path in self.folder.iterdir():
            if path.is_socket() and path.name != "kubelet.sock":
                path.unlink()


class StartsSlowly(SamplePlugin):
    """Correct: it has much to do before it can begin."""

    def __init__(self, folder: Path, devices: Path) -> None:
        end = time.process_time() + 3
        while time.process_time() < end:
            pass
        super().__init__(folder, devices)


# Two resources in one process


class _Half(Renamed):
    """One of two resources, with devices of its own."""

    def __init__(self, folder: Path, devices: Path, letter: str) -> None:
        self.resource = f"example.com/sample-{letter}"
        self.letter = letter
        super().__init__(folder, devices)

    def scan(self) -> list[api.Device]:
        return [
            api.Device(ID=f"{device.ID}.{self.letter}", health=device.health, topology=device.topology)
            for device in super().scan()
        ]


class TwoResources(SamplePlugin):
    """Correct: two halves that know nothing of each other."""

    letters = ("a", "b")

    def halves(self) -> list[SamplePlugin]:
        return [_Half(self.folder, self.devices, letter) for letter in self.letters]

    async def run(self) -> None:
        try:
            async with asyncio.TaskGroup() as group:
                for half in self.halves():
                    group.create_task(half.run())
        except* GivenUpError as errors:
            raise GivenUpError(str(errors.exceptions[0])) from None


@fails("R17")
class TiesItsResourcesTogether(TwoResources):
    async def run(self) -> None:
        halves = self.halves()
        async with asyncio.TaskGroup() as group:
            for half in halves:
                group.create_task(half.run())
            while True:
                waiting = [asyncio.create_task(half.stream_ended.wait()) for half in halves]
                await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
                for half in halves:
                    half.stream_ended.set()
                await asyncio.sleep(POLL_S)
                for task in waiting:
                    task.cancel()


@fails("L6")
class SharesIdsBetweenResources(TwoResources):
    def halves(self) -> list[SamplePlugin]:
        first, second = (SamplePlugin(self.folder, self.devices) for _ in range(2))
        second.resource = "example.com/sample-too"
        return [first, second]


if __name__ == "__main__":
    wanted = sys.argv.pop(1)
    every: list[type[SamplePlugin]] = [*MUTANTS, TwoResources, StartsSlowly]
    chosen = next(mutant for mutant in every if mutant.__name__ == wanted)
    sys.exit(asyncio.run(main(chosen)))
