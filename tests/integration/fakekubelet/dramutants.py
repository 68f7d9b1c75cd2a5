"""The sample driver with one thing wrong at a time, each to be found out by exactly one check."""

import asyncio
import contextlib
import itertools
import json
import socket
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import replace
from typing import Any, ClassVar

import grpc
import grpc.aio
import msgspec

from accelet.fakekubelet.claims.driverclient import ClaimRef
from accelet.fakekubelet.claims.kubeclaims import CLAIMS, SLICES
from accelet.fakekubelet.sample_driver import DRIVER, KIND, Json, OlderHealth, RefusedClaimError, SampleDriver
from accelet.kube.errors import KubeError
from accelet.kubelet.api import dra_v1_pb2 as v1
from accelet.kubelet.api import dra_v1beta1_pb2, dra_v1beta1_pb2_grpc
from accelet.kubelet.api import drahealth_v1_pb2 as health_v1
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


class _Publishes(SampleDriver):
    """Something of its first device is wrong."""

    wrong: ClassVar[Json] = {}

    def slice(self) -> Json:
        made = super().slice()
        made["spec"]["devices"][0] |= self.wrong
        return made


class _Counts(SampleDriver):
    """Its pool is of two slices: counters first, then devices, each of which uses up one of them."""

    consumed: ClassVar[Json] = {"counterSet": "units", "counters": {"unit-0": {"value": "1"}}}

    def slices(self) -> list[Json]:
        devices, counters = self.slice(), self.slice()
        for one in (devices, counters):
            one["spec"]["pool"]["resourceSliceCount"] = 2
        del counters["spec"]["devices"]
        units = {f"unit-{number}": {"value": "1"} for number in range(3)}
        counters["spec"]["sharedCounters"] = [{"name": "units", "counters": units}]
        for number, device in enumerate(devices["spec"]["devices"]):
            used = {"counterSet": "units", "counters": {f"unit-{number}": {"value": "1"}}}
            device["consumesCounters"] = [used]
        devices["spec"]["devices"][-1]["consumesCounters"] = [self.consumed]
        return [counters, devices]


class CountsWell(_Counts):
    """Correct: counters are shared, and used up by turns."""

    consumed: ClassVar[Json] = {"counterSet": "units", "counters": {"unit-2": {"value": "1"}}}


@fails("D3")
class HasTooManyAttributes(_Publishes):
    wrong: ClassVar[Json] = {"attributes": {f"number{number}": {"int": number} for number in range(33)}}


@fails("D3")
class HasAFailureConditionAlone(_Publishes):
    wrong: ClassVar[Json] = {"bindingFailureConditions": ["sample.example.com/broken"]}


@fails("D10")
class WantsMoreThanThereIs(_Counts):
    consumed: ClassVar[Json] = {"counterSet": "units", "counters": {"unit-2": {"value": "2"}}}


@fails("D10")
class WantsACounterThatIsNotThere(_Counts):
    consumed: ClassVar[Json] = {"counterSet": "units", "counters": {"unit-9": {"value": "1"}}}


@fails("D10")
class WantsACounterSetThatIsNotThere(_Counts):
    consumed: ClassVar[Json] = {"counterSet": "other", "counters": {"unit-2": {"value": "1"}}}


@fails("D11")
class HasAnIllegalKey(_Publishes):
    wrong: ClassVar[Json] = {"attributes": {"sample.example.com/serial-number": {"string": "1"}}}


@fails("D11")
class HasALongKey(_Publishes):
    wrong: ClassVar[Json] = {"capacity": {"memory" * 6: {"value": "1Gi"}}}


@fails("D12")
class HasALongText(_Publishes):
    wrong: ClassVar[Json] = {"attributes": {"model": {"string": "x" * 80}}}


@fails("D12")
class HasAVersionOfTwoNumbers(_Publishes):
    wrong: ClassVar[Json] = {"attributes": {"driverVersion": {"version": "1.2"}}}


@fails("D12")
class HasAValueOfTwoKinds(_Publishes):
    wrong: ClassVar[Json] = {"attributes": {"model": {"string": "x", "int": 1}}}


@fails("D13")
class TaintsWithAnUnknownEffect(_Publishes):
    wrong: ClassVar[Json] = {"taints": [{"key": "sample.example.com/lost", "effect": "Evict"}]}


@fails("D13")
class TaintsWithASentence(_Publishes):
    wrong: ClassVar[Json] = {
        "taints": [{"key": "sample.example.com/lost", "value": "fell off the bus", "effect": "None"}]
    }


@fails("D13")
class TaintsWithALongKey(_Publishes):
    wrong: ClassVar[Json] = {
        "taints": [{"key": f"sample.example.com/{'too-many-errors-' * 4}", "effect": "None"}]
    }


@fails("D14")
class PutsCountersBesideDevices(SampleDriver):
    def slice(self) -> Json:
        made = super().slice()
        made["spec"]["sharedCounters"] = [{"name": "units", "counters": {"unit-0": {"value": "1"}}}]
        return made


@fails("D14")
class SendsAnEmptyListOfCounters(SampleDriver):
    def slice(self) -> Json:
        made = super().slice()
        made["spec"]["sharedCounters"] = []
        return made


@fails("D15")
class HasAPolicyWithoutSharing(_Publishes):
    wrong: ClassVar[Json] = {
        "capacity": {
            "memory": {
                "value": "1Gi",
                "requestPolicy": {"default": "1Gi", "validRange": {"min": "1Mi", "step": "1Mi"}},
            }
        }
    }


@fails("D16")
class WritesTenTimesASecond(SampleDriver):
    async def publish(self) -> None:
        writing = asyncio.create_task(self.write_again())
        try:
            await super().publish()
        finally:
            writing.cancel()

    async def write_again(self) -> None:
        selector = f"spec.nodeName={self.places.node},spec.driver={DRIVER}"
        for number in itertools.count():
            await asyncio.sleep(0.1)
            with contextlib.suppress(KubeError):
                for raw in (await self.client.list_page(SLICES, None, {"fieldSelector": selector})).items:
                    name = msgspec.json.decode(raw)["metadata"]["name"]
                    seen = {"metadata": {"annotations": {"sample.example.com/seen": str(number)}}}
                    await self.client.patch(SLICES, None, name, seen, "merge")


@fails("D17")
class TellsItsHealthOnce(SampleDriver):
    async def NodeWatchResources(  # noqa: N802 - the wire's name
        self, request: health_v1.NodeWatchResourcesRequest, context: Context
    ) -> AsyncIterator[health_v1.NodeWatchResourcesResponse]:
        async for report in super().NodeWatchResources(request, context):
            yield report
            await asyncio.Event().wait()


@fails("P1")
class NamesAnotherPool(SampleDriver):
    async def prepare(self, ref: ClaimRef) -> list[v1.Device]:
        devices = await super().prepare(ref)
        for device in devices:
            device.pool_name = "another"
        return devices


@fails("P2")
class NamesItAnewEachTime(SampleDriver):
    """Every name that it ever gave can be found."""

    count = 0

    async def prepare(self, ref: ClaimRef) -> list[v1.Device]:
        self.count += 1
        return await super().prepare(ref)

    def cdi_id(self, ref: ClaimRef, result: Json) -> str:
        return f"{super().cdi_id(ref, result)}-{self.count}"

    def write_cdi(self, ref: ClaimRef, results: Sequence[Json]) -> None:
        plain = [super(NamesItAnewEachTime, self).cdi_id(ref, result).partition("=")[2] for result in results]
        edits = {"containerEdits": {"env": ["SAMPLE=1"]}}
        numbers = range(1, self.count + 1)
        devices = [{"name": f"{name}-{number}"} | edits for name in plain for number in numbers]
        self.write(self.cdi_file(ref), {"cdiVersion": "0.5.0", "kind": KIND, "devices": devices})


@fails("P3")
class WritesItsFilesOnce(SampleDriver):
    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self.written: set[str] = set()

    def write_cdi(self, ref: ClaimRef, results: Sequence[Json]) -> None:
        if ref.uid not in self.written:
            super().write_cdi(ref, results)
        self.written.add(ref.uid)


@fails("P3")
class TrustsTheFilesItFinds(SampleDriver):
    def write_cdi(self, ref: ClaimRef, results: Sequence[Json]) -> None:
        if not self.cdi_file(ref).exists():
            super().write_cdi(ref, results)


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
            await asyncio.sleep(1.5)
            return await super().prepare(ref)
        except asyncio.CancelledError:
            self.was_cancelled = True
            raise


@fails("P11")
class AnswersForAnotherRequest(SampleDriver):
    async def prepare(self, ref: ClaimRef) -> list[v1.Device]:
        devices = await super().prepare(ref)
        for device in devices:
            device.request_names[:] = ["another"]
        return devices


@fails("P11")
class MixesUpRequests(SampleDriver):
    async def prepare(self, ref: ClaimRef) -> list[v1.Device]:
        devices = await super().prepare(ref)
        names = [list(device.request_names) for device in devices]
        for device, others in zip(devices, reversed(names), strict=True):
            device.request_names[:] = others
        return devices


@fails("P12")
class WritesEmptyEdits(SampleDriver):
    def write_cdi(self, ref: ClaimRef, results: Sequence[Json]) -> None:
        names = [self.cdi_id(ref, result).partition("=")[2] for result in results]
        devices = [{"name": name, "containerEdits": {}} for name in names]
        self.write(self.cdi_file(ref), {"cdiVersion": "0.5.0", "kind": KIND, "devices": devices})


@fails("P12")
class WritesAVersionThatIsTooOld(SampleDriver):
    """A name that begins with a digit, as uids do, is of 0.5.0."""

    def write_cdi(self, ref: ClaimRef, results: Sequence[Json]) -> None:
        super().write_cdi(ref, results)
        path = self.cdi_file(ref)
        device = {"name": self.cdi_id(ref, results[0]).partition("=")[2], "containerEdits": {"env": ["A=1"]}}
        self.write(path, {"cdiVersion": "0.4.0", "kind": KIND, "devices": [device]})

    def cdi_id(self, ref: ClaimRef, result: Json) -> str:
        return f"{KIND}=0-{ref.uid}-{result['device']}"


@fails("P12")
class NamesNoKind(SampleDriver):
    async def prepare(self, ref: ClaimRef) -> list[v1.Device]:
        devices = await super().prepare(ref)
        for device in devices:
            device.cdi_device_ids[:] = [name.partition("=")[2] for name in device.cdi_device_ids]
        return devices


@fails("P13")
class AnswersForAStranger(SampleDriver):
    async def NodePrepareResources(  # noqa: N802 - the wire's name
        self, request: v1.NodePrepareResourcesRequest, context: Context
    ) -> v1.NodePrepareResourcesResponse:
        response = await super().NodePrepareResources(request, context)
        if request.claims:
            response.claims["a-claim-of-yesterday"].SetInParent()
        return response


@fails("P13")
class SaysNothingOfWhatItDoesNotKnow(SampleDriver):
    async def NodeUnprepareResources(  # noqa: N802 - the wire's name
        self, request: v1.NodeUnprepareResourcesRequest, context: Context
    ) -> v1.NodeUnprepareResourcesResponse:
        known = [claim for claim in request.claims if claim.uid in self.held()]
        return await super().NodeUnprepareResources(v1.NodeUnprepareResourcesRequest(claims=known), context)


@fails("P14")
class TakesItsTime(SampleDriver):
    async def prepare(self, ref: ClaimRef) -> list[v1.Device]:
        await asyncio.sleep(8)
        return await super().prepare(ref)


@fails("P15")
class ClearsTheCdiFolder(SampleDriver):
    """At its start it takes everything there for its own."""

    async def run(self) -> None:
        held = self.held()
        for path in self.places.cdi.iterdir():
            if not any(uid in path.name for uid in held):
                path.unlink()
        await super().run()


@fails("P15")
class ReadsAllCdiFiles(SampleDriver):
    async def prepare(self, ref: ClaimRef) -> list[v1.Device]:
        try:
            for path in self.places.cdi.glob("*.json"):
                json.loads(path.read_bytes())
        except ValueError as error:
            raise RefusedClaimError(f"the CDI folder is damaged: {error}") from error
        return await super().prepare(ref)


@fails("P16")
class KnowsItsClaimsByUid(SampleDriver):
    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self.known: dict[str, list[Json]] = {}

    async def results(self, ref: ClaimRef) -> list[Json]:
        return self.known.setdefault(ref.uid, await super().results(ref))


@fails("U1")
class LeavesItsFiles(SampleDriver):
    async def unprepare(self, ref: ClaimRef) -> None:
        path = self.cdi_file(ref)
        content = path.read_bytes() if path.exists() else None
        await super().unprepare(ref)
        if content is not None:
            path.write_bytes(content)


@fails("U4")
class UnpreparesAll(SampleDriver):
    async def unprepare(self, ref: ClaimRef) -> None:
        await super().unprepare(ref)
        for path in self.places.cdi.glob("sample.example.com-claim_*"):
            path.unlink()


@fails("U5")
class InsistsOnItsFiles(SampleDriver):
    async def unprepare(self, ref: ClaimRef) -> None:
        if ref.uid in self.held() and not self.cdi_file(ref).exists():
            raise RefusedClaimError("the claim's CDI file is gone")
        await super().unprepare(ref)


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
