"""The sample driver with one thing wrong at a time, each to be found out by exactly one check."""

import asyncio
import socket
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import grpc
import grpc.aio
import msgspec

from accelet.fakekubelet.claims.driverclient import ClaimRef
from accelet.fakekubelet.claims.kubeclaims import CLAIMS, SLICES
from accelet.fakekubelet.sample_driver import DRIVER, Json, OlderHealth, RefusedClaimError, SampleDriver
from accelet.kubelet.api import dra_v1_pb2 as v1
from accelet.kubelet.api import dra_v1beta1_pb2, dra_v1beta1_pb2_grpc
from accelet.kubelet.api import drahealth_v1_pb2_grpc as health_grpc
from accelet.kubelet.api import drahealth_v1alpha1_pb2_grpc as v1alpha1_grpc
from accelet.kubelet.api import pluginregistration_pb2 as registration

Context = grpc.aio.ServicerContext[Any, Any]
MUTANTS: dict[type[SampleDriver], str] = {}


def fails(check: str) -> Callable[[type[SampleDriver]], type[SampleDriver]]:
    """The one check that finds this mutant out."""

    def note(mutant: type[SampleDriver]) -> type[SampleDriver]:
        MUTANTS[mutant] = check
        return mutant

    return note


@fails("D1")
class PublishesHalfAPool(SampleDriver):
    def slice(self) -> Json:
        made = super().slice()
        made["spec"]["pool"]["resourceSliceCount"] = 2
        return made


@fails("D2")
class PrefersTheOldProtocol(SampleDriver):
    services = ("v1beta1.DRAPlugin", "v1.DRAPlugin", "v1.DRAResourceHealth")

    async def publish(self) -> None:
        old = grpc.aio.server()
        dra_v1beta1_pb2_grpc.add_DRAPluginServicer_to_server(_Old(self), old)
        health_grpc.add_DRAResourceHealthServicer_to_server(self, old)
        v1alpha1_grpc.add_DRAResourceHealthServicer_to_server(OlderHealth(self), old)
        old.add_insecure_port(f"unix:{self.places.folder / 'old.sock'}")
        await old.start()
        try:
            await super().publish()
        finally:
            await old.stop(None)

    async def GetInfo(  # noqa: N802 - the wire's name
        self, request: Any, context: Context
    ) -> registration.PluginInfo:
        info = await super().GetInfo(request, context)
        info.endpoint = str(self.places.folder / "old.sock")
        return info


class _Old(dra_v1beta1_pb2_grpc.DRAPluginServicer):
    """The same answers by the older protocol."""

    def __init__(self, driver: SampleDriver) -> None:
        self._driver = driver

    async def NodePrepareResources(self, request: Any, context: Context) -> Any:  # noqa: N802 - the wire's name
        asked = v1.NodePrepareResourcesRequest.FromString(request.SerializeToString())
        answer = await self._driver.NodePrepareResources(asked, context)
        return dra_v1beta1_pb2.NodePrepareResourcesResponse.FromString(answer.SerializeToString())

    async def NodeUnprepareResources(self, request: Any, context: Context) -> Any:  # noqa: N802 - the wire's name
        asked = v1.NodeUnprepareResourcesRequest.FromString(request.SerializeToString())
        answer = await self._driver.NodeUnprepareResources(asked, context)
        return dra_v1beta1_pb2.NodeUnprepareResourcesResponse.FromString(answer.SerializeToString())


@fails("D3")
class NamesADeviceTwice(SampleDriver):
    def slice(self) -> Json:
        made = super().slice()
        made["spec"]["devices"] *= 2
        return made


@fails("D4")
class PublishesOnce(SampleDriver):
    async def publish(self) -> None:
        selector = f"spec.nodeName={self.places.node},spec.driver={DRIVER}"
        if not (await self.client.list_page(SLICES, None, {"fieldSelector": selector})).items:
            await self.client.create(SLICES, None, self.slice())
        await asyncio.Event().wait()


@fails("D5")
class SaysOnceWhoItIs(SampleDriver):
    was_asked = False

    async def GetInfo(  # noqa: N802 - the wire's name
        self, request: Any, context: Context
    ) -> registration.PluginInfo:
        if self.was_asked:
            await context.abort(grpc.StatusCode.ALREADY_EXISTS, "you know me")
        self.was_asked = True
        return await super().GetInfo(request, context)


@fails("D6")
class WantsClaims(SampleDriver):
    async def NodePrepareResources(  # noqa: N802 - the wire's name
        self, request: v1.NodePrepareResourcesRequest, context: Context
    ) -> v1.NodePrepareResourcesResponse:
        if not request.claims:
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, "no claims")
        return await super().NodePrepareResources(request, context)


@fails("D7")
class ForgetsTheHealthOfOne(SampleDriver):
    def told_healthy(self) -> Sequence[str]:
        return self.names()[1:]


@fails("D8")
class TakesItsSlicesAlong(SampleDriver):
    async def end(self, services: grpc.aio.Server, announced: grpc.aio.Server) -> None:
        selector = f"spec.nodeName={self.places.node},spec.driver={DRIVER}"
        page = await self.client.list_page(SLICES, None, {"fieldSelector": selector})
        for raw in page.items:
            await self.client.delete(SLICES, None, msgspec.json.decode(raw)["metadata"]["name"])
        await super().end(services, announced)


@fails("D9")
class LeavesItsRegistration(SampleDriver):
    is_terminated = False
    """Set by whoever starts it in this process: only then this is no crash."""

    async def end(self, services: grpc.aio.Server, announced: grpc.aio.Server) -> None:
        await super().end(services, announced)
        if self.is_terminated:
            with socket.socket(socket.AF_UNIX) as left:
                left.bind(str(self.places.registry / f"{DRIVER}-reg.sock"))


@fails("P1")
class NamesAnotherPool(SampleDriver):
    async def prepare(self, ref: ClaimRef) -> list[v1.Device]:
        devices = await super().prepare(ref)
        for device in devices:
            device.pool_name = "another"
        return devices


@fails("P2")
class NamesItAnewEachTime(SampleDriver):
    count = 0

    async def prepare(self, ref: ClaimRef) -> list[v1.Device]:
        self.count += 1
        return await super().prepare(ref)

    def cdi_id(self, ref: ClaimRef, result: Json) -> str:
        return f"{super().cdi_id(ref, result)}-{self.count}"


@fails("P3")
class WritesItsFilesOnce(SampleDriver):
    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self.written: set[str] = set()

    def write_cdi(self, ref: ClaimRef, results: Sequence[Json]) -> None:
        if ref.uid not in self.written:
            super().write_cdi(ref, results)
        self.written.add(ref.uid)


@fails("P4")
class IsBusy(SampleDriver):
    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self.busy: set[str] = set()

    async def prepare(self, ref: ClaimRef) -> list[v1.Device]:
        if ref.uid in self.busy:
            raise RefusedClaimError("it is being prepared")
        self.busy.add(ref.uid)
        try:
            await asyncio.sleep(0.5)  # so long that the other call comes meanwhile
            return await super().prepare(ref)
        finally:
            self.busy.discard(ref.uid)


@fails("P5")
class RemembersInMemory(SampleDriver):
    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self.known: set[str] = set()

    async def prepare(self, ref: ClaimRef) -> list[v1.Device]:
        devices = await super().prepare(ref)
        self.known.add(ref.uid)
        return devices

    async def unprepare(self, ref: ClaimRef) -> None:
        if ref.uid in self.known:
            await super().unprepare(ref)


@fails("P6")
class FailsForAll(SampleDriver):
    async def NodePrepareResources(  # noqa: N802 - the wire's name
        self, request: v1.NodePrepareResourcesRequest, context: Context
    ) -> v1.NodePrepareResourcesResponse:
        response = await super().NodePrepareResources(request, context)
        if len(request.claims) > 1 and any(entry.error for entry in response.claims.values()):
            await context.abort(grpc.StatusCode.INTERNAL, "one of them failed")
        return response


@fails("P7")
class GivesWhatItHasNot(SampleDriver):
    def refuse(self, ref: ClaimRef, results: Sequence[Json], held: dict[str, list[str]]) -> None:
        super().refuse(ref, [result for result in results if result["device"] in self.names()], held)


@fails("P8")
class LooksAtNamesAlone(SampleDriver):
    async def results(self, ref: ClaimRef) -> list[Json]:
        claim = msgspec.json.decode(await self.client.get(CLAIMS, ref.namespace, ref.name))
        return await super().results(replace(ref, uid=claim["metadata"]["uid"]))


@fails("P9")
class GivesTwice(SampleDriver):
    def refuse(self, ref: ClaimRef, results: Sequence[Json], held: dict[str, list[str]]) -> None:
        super().refuse(ref, results, {})


@fails("P10")
class NeverRecovers(SampleDriver):
    was_cancelled = False

    async def prepare(self, ref: ClaimRef) -> list[v1.Device]:
        if self.was_cancelled:
            await asyncio.Event().wait()
        try:
            await asyncio.sleep(3)
            return await super().prepare(ref)
        except asyncio.CancelledError:
            self.was_cancelled = True
            raise


@fails("U1")
class LeavesItsFiles(SampleDriver):
    async def unprepare(self, ref: ClaimRef) -> None:
        path = self.cdi_file(ref)
        content = path.read_bytes() if path.exists() else None
        await super().unprepare(ref)
        if content is not None:
            path.write_bytes(content)


@fails("U2")
class WantsToKnowItsClaims(SampleDriver):
    async def unprepare(self, ref: ClaimRef) -> None:
        if ref.uid not in self.held():
            raise RefusedClaimError("I do not know this claim")
        await super().unprepare(ref)


@fails("U3")
class AsksWhatItKnows(SampleDriver):
    async def unprepare(self, ref: ClaimRef) -> None:
        if ref.uid in self.held():
            await self.results(ref)
        await super().unprepare(ref)
