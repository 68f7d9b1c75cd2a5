"""Pods with claims: when a fake kubelet prepares and unprepares, and what it makes of the answers."""

import asyncio
import json
import zlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import grpc.aio
import pytest

from accelet.fakekubelet import (
    FakeKubelet,
    GiveUp,
    KubeletStartError,
    LoseAnswer,
    ManualClock,
    Pod,
    PodRecord,
    Twice,
    a_container,
    a_pod,
)
from accelet.kubelet.api import podresources_pb2 as podresources
from accelet.kubelet.api import podresources_pb2_grpc as podresources_grpc
from tests.integration.fakekubelet.scripteddriver import DRIVER, Claims, Device, ScriptedDriver, serving


@dataclass
class Site:
    kubelet: FakeKubelet
    clock: ManualClock
    claims: Claims
    driver: ScriptedDriver

    async def admit(self, pod: Pod) -> PodRecord:
        """A pod whose claims are there, allocated and reserved for it."""
        self.claims.of(*(record.pod for record in self.kubelet.pods), pod)
        return await self.kubelet.admit(pod)

    def called(self, method: str) -> list[tuple[str, ...]]:
        return [tuple(sorted(call.claims)) for call in self.driver.called(method)]


@asynccontextmanager
async def a_site(root: Path, version: str = "1.36") -> AsyncIterator[Site]:
    clock, claims, driver = ManualClock(), Claims(), ScriptedDriver(root)
    kubelet = FakeKubelet(root, version=version, clock=clock, claims=claims, seed=3)
    async with kubelet, serving(driver):
        await clock.advance(1)
        await kubelet.driver_registered(DRIVER)
        yield Site(kubelet, clock, claims, driver)


def pod_of(*claims: str, name: str = "pod") -> Pod:
    return a_pod(name, uid=f"uid-{name}", claims={claim: claim for claim in claims})


async def test_all_claims_of_a_pod_are_prepared_by_one_call_with_45_s(root: Path) -> None:
    async with a_site(root) as site:
        record = await site.admit(pod_of("one", "two"))
        (call,) = site.driver.called("prepare")
        assert (call.service, sorted(call.claims)) == ("v1", ["one", "two"])
        assert call.left_s is not None
        assert 40 < call.left_s < 46  # gRPC rounds on its way
        assert sorted(record["main"].options.cdi_devices) == ["one", "two"]


async def test_each_driver_of_a_claim_is_called(root: Path) -> None:
    other = ScriptedDriver(root, name="other.example.com")
    async with a_site(root) as site, serving(other, "other-reg.sock"):
        await site.clock.advance(1)
        await site.kubelet.driver_registered("other.example.com")
        pod = pod_of("both")
        site.claims.add("both", pod, drivers=(DRIVER, "other.example.com"))
        other.devices["both"] = [Device("two", cdi_ids=("two",))]
        record = await site.kubelet.admit(pod)
        assert sorted(record["main"].options.cdi_devices) == ["both", "two"]
        await site.kubelet.remove(record)
        await site.kubelet.released(record)
        assert [one.called("unprepare")[0].claims for one in (site.driver, other)] == [("both",), ("both",)]


async def test_a_container_gets_the_devices_of_its_requests(root: Path) -> None:
    async with a_site(root) as site:
        site.driver.devices["one"] = [
            Device("a", ("first",), ("a",)),
            Device("b", ("second",), ("b",)),
            Device("c", (), ("c",)),
        ]
        containers = [
            a_container("whole", claims=["one"]),
            a_container("part", claims=["one/second"]),
            a_container("none"),
        ]
        record = await site.admit(a_pod("pod", containers=containers, claims={"one": "one"}))
        assert record["whole"].options.cdi_devices == ("a", "b", "c")
        assert record["part"].options.cdi_devices == ("b", "c")
        assert record["none"].options.cdi_devices == ()


async def test_claims_of_a_container_come_in_any_order(root: Path) -> None:
    async with a_site(root) as site:
        orders = set()
        for number in range(12):
            record = await site.admit(pod_of("one", "two", name=f"pod-{number}"))
            orders.add(record["main"].options.cdi_devices)
        assert orders == {("one", "two"), ("two", "one")}


async def test_a_claim_that_another_pod_uses_is_neither_prepared_nor_unprepared_again(root: Path) -> None:
    async with a_site(root) as site:
        first = await site.admit(pod_of("one", name="first"))
        second = await site.admit(pod_of("one", name="second"))
        await site.kubelet.remove(first)
        await site.kubelet.released(first)
        assert (site.called("prepare"), site.called("unprepare")) == ([("one",)], [])
        await site.kubelet.finish(second)
        await site.kubelet.released(second)
        assert site.called("unprepare") == [("one",)]
        assert site.kubelet.claim("one") is None


@pytest.mark.parametrize(
    ("fault", "why"),
    [
        ("errors", "NodePrepareResources failed for ResourceClaim one: no such tile"),
        ("failure", "NodePrepareResources: rpc error: code = Internal desc = broken"),
        ("skips", "NodePrepareResources skipped 1 ResourceClaims"),
        ("strange", "NodePrepareResources returned result for unknown claim UID nobody"),
    ],
)
async def test_what_cannot_be_prepared_is_tried_again_after_a_minute_or_more(
    root: Path, fault: str, why: str
) -> None:
    async with a_site(root) as site:
        wrong = {"errors": {"one": "no such tile"}, "failure": "broken"}.get(fault, True)
        right = getattr(site.driver, fault)
        setattr(site.driver, fault, wrong)
        record = await site.admit(pod_of("one"))
        assert record.claim_error == f"Failed to prepare dynamic resources: prepare dynamic resources: {why}"
        setattr(site.driver, fault, right)
        await site.clock.advance(59)
        assert len(site.driver.called("prepare")) == 1
        await site.clock.advance(32)
        await site.kubelet.running(record)
        assert record.claim_error is None


@pytest.mark.parametrize(
    ("claim", "why"),
    [
        (None, 'fetch ResourceClaim one: resourceclaims.resource.k8s.io "one" not found'),
        ({"drivers": None}, "ResourceClaim one: not allocated"),
        ({"drivers": ("absent.example.com",)}, "DRA driver absent.example.com is not registered"),
    ],
)
async def test_a_claim_that_is_not_ready_reaches_no_driver(
    root: Path, claim: dict[str, tuple[str, ...] | None] | None, why: str
) -> None:
    async with a_site(root) as site:
        pod = pod_of("one")
        if claim is not None:
            site.claims.add("one", pod, drivers=claim["drivers"])
        record = await site.kubelet.admit(pod)
        assert (record.claim_error or "").endswith(f": {why}")
        assert site.kubelet.claim("one") is None
        assert site.driver.calls == []


async def test_a_claim_of_others_is_refused(root: Path) -> None:
    async with a_site(root) as site:
        pod, other = pod_of("one"), pod_of(name="other")
        site.claims.add("one", other)
        record = await site.kubelet.admit(pod)
        assert "pod pod (uid-pod) is not allowed to use ResourceClaim one (uid-one)" in (
            record.claim_error or ""
        )
        generated = a_pod("generated", uid="uid-generated", generated_claims={"one": "one"})
        record = await site.kubelet.admit(generated)
        assert "ResourceClaim default/one was not created for Pod default/generated (Pod is not owner)" in (
            record.claim_error or ""
        )


async def test_unprepare_that_fails_is_tried_again_after_ten_seconds_or_more(root: Path) -> None:
    async with a_site(root) as site:
        record = await site.admit(pod_of("one"))
        site.driver.errors["one"] = "busy"
        await site.kubelet.remove(record)
        await site.kubelet.trace.until(lambda: "unprepare-failed" in _events(site.kubelet), "the failure")
        del site.driver.errors["one"]
        await site.clock.advance(9)
        assert len(site.called("unprepare")) == 1
        await site.clock.advance(7)
        await site.kubelet.released(record)
        assert len(site.called("unprepare")) == 2


def _events(kubelet: FakeKubelet) -> list[str]:
    return [event.event for event in kubelet.trace]


async def test_prepared_is_forgotten_by_the_next_kubelet_and_devices_are_not(root: Path) -> None:
    async with a_site(root) as site:
        record = await site.admit(pod_of("one"))
        await site.kubelet.renew_sandbox(record)
        assert len(site.called("prepare")) == 1
        await site.kubelet.restart()
        await site.clock.advance(1)
        await site.kubelet.driver_registered(DRIVER)
        assert await site.kubelet.restart_container(record)
        assert record["main"].options.cdi_devices == ("one",)
        assert len(site.called("prepare")) == 1
        await site.kubelet.renew_sandbox(record)
        assert len(site.called("prepare")) == 2


@pytest.mark.parametrize(("version", "ids"), [("1.35", ("one", "one")), ("1.36", ("one",))])
async def test_a_second_answer_counts_beside_the_first_up_to_1_35(
    root: Path, version: str, ids: tuple[str, ...]
) -> None:
    async with a_site(root, version) as site:
        record = await site.admit(pod_of("one"))
        await site.kubelet.restart()
        await site.clock.advance(1)
        await site.kubelet.driver_registered(DRIVER)
        await site.kubelet.renew_sandbox(record)
        assert record["main"].options.cdi_devices == ids


async def test_what_a_pod_left_behind_while_no_kubelet_was_there_is_unprepared_within_a_minute(
    root: Path,
) -> None:
    async with a_site(root) as site:
        record = await site.admit(pod_of("one"))
        await site.kubelet.stop()
        await site.kubelet.remove(record)
        await site.kubelet.start()
        await site.clock.advance(1)
        await site.kubelet.driver_registered(DRIVER)
        assert site.called("unprepare") == []
        await site.clock.advance(60)
        await site.kubelet.released(record)
        assert site.called("unprepare") == [("one",)]


async def test_the_state_file_is_the_real_ones(root: Path) -> None:
    async with a_site(root) as site:
        empty = json.loads(json.loads((root / "dra_manager_state").read_bytes())["Data"])
        assert empty["ClaimInfoStateList"] is None
        site.driver.devices["one"] = [Device("a", ("gpu",), ("x/y=a",), share="s")]
        await site.admit(pod_of("one"))
        written = json.loads((root / "dra_manager_state").read_bytes())
        assert written["Checksum"] == zlib.crc32(written["Data"].encode())
        assert json.loads(written["Data"]) == {
            "kind": "DRACheckpoint",
            "apiVersion": "checkpoint.dra.kubelet.k8s.io/v1",
            "ClaimInfoStateList": [
                {
                    "ClaimUID": "uid-one",
                    "ClaimName": "one",
                    "Namespace": "default",
                    "PodUIDs": {"uid-pod": {}},
                    "DriverState": {
                        DRIVER: {
                            "Devices": [
                                {
                                    "PoolName": "pool",
                                    "DeviceName": "a",
                                    "ShareID": "s",
                                    "RequestNames": ["gpu"],
                                    "CDIDeviceIDs": ["x/y=a"],
                                }
                            ]
                        }
                    },
                }
            ],
        }


@pytest.mark.parametrize("content", ['{"Data":', '{"Data":"{}","Checksum":1}'])
async def test_a_kubelet_does_not_start_over_a_spoilt_state_file(root: Path, content: str) -> None:
    (root / "dra_manager_state").write_text(content)
    kubelet = FakeKubelet(root, claims=Claims())
    with pytest.raises(KubeletStartError, match="checkpoint state"):
        await kubelet.start()
    assert not kubelet.is_running
    (root / "dra_manager_state").unlink()
    await kubelet.start()
    await kubelet.stop()


async def test_a_name_that_is_used_again_while_its_old_claim_is_held_is_refused(root: Path) -> None:
    async with a_site(root) as site:
        await site.admit(pod_of("one", name="old"))
        new = pod_of("one", name="new")
        site.claims.add("one", new, uid="another")
        record = await site.kubelet.admit(new)
        assert "old ResourceClaim with same name one and different UID uid-one still exists" in (
            record.claim_error or ""
        )


@pytest.mark.parametrize(("version", "is_refused"), [("1.36", False), ("1.37", True)])
async def test_from_1_37_no_pod_joins_a_claim_that_is_being_unprepared(
    root: Path, version: str, *, is_refused: bool
) -> None:
    async with a_site(root, version) as site:
        first = await site.admit(pod_of("one", name="first"))
        site.driver.held = asyncio.Event()
        await site.kubelet.remove(first)
        await site.kubelet.trace.until(lambda: "unprepare" in _events(site.kubelet), "Unprepare")
        second = pod_of("one", name="second")
        site.claims.add("one", second)
        record = await site.kubelet.admit(second)
        site.driver.held.set()
        await site.kubelet.released(first)
        assert ("being unprepared" in (record.claim_error or "")) == is_refused
        # Before, the pod runs with a claim that nobody holds for it.
        assert record.has_sandbox != is_refused


async def test_a_call_has_45_s_of_the_kubelets_time(root: Path) -> None:
    async with a_site(root) as site:
        site.driver.held = asyncio.Event()
        pod = pod_of("one")
        site.claims.of(pod)
        record = site.kubelet.bind(pod)
        await site.kubelet.trace.until(lambda: "prepare" in _events(site.kubelet), "Prepare")
        await site.clock.advance(44)
        assert record.claim_error is None
        await site.clock.advance(2)
        await site.kubelet.decided(record)
        assert "code = DeadlineExceeded" in (record.claim_error or "")
        site.driver.held.set()


async def test_faults_of_calls(root: Path) -> None:
    async with a_site(root) as site:
        site.kubelet.faults.prepare.inject(Twice(), times=1)
        await site.admit(pod_of("one"))
        assert len(site.called("prepare")) == 2
        site.kubelet.faults.prepare.inject(LoseAnswer(), times=1)
        lost = await site.admit(pod_of("two", name="two"))
        assert "code = Unavailable" in (lost.claim_error or "")
        assert len(site.called("prepare")) == 3
        site.driver.held = asyncio.Event()
        site.kubelet.faults.prepare.inject(GiveUp(after_s=0), times=1)
        given_up = await site.admit(pod_of("three", name="three"))
        assert "code = DeadlineExceeded" in (given_up.claim_error or "")
        site.driver.held.set()


async def test_podresources_tells_of_claims(root: Path) -> None:
    async with a_site(root) as site:
        site.driver.devices["one"] = [Device("a", cdi_ids=("a",)), Device("b", cdi_ids=("b",))]
        await site.admit(pod_of("one"))
        socket = site.kubelet.pod_resources_dir / "kubelet.sock"
        async with grpc.aio.insecure_channel(f"unix:{socket}") as channel:
            stub = podresources_grpc.PodResourcesListerStub(channel)
            request = podresources.GetPodResourcesRequest(pod_name="pod", pod_namespace="default")
            (container,) = (await stub.Get(request)).pod_resources.containers
        (claim,) = container.dynamic_resources
        assert (claim.claim_name, claim.claim_namespace) == ("one", "default")
        shown = [
            (
                device.driver_name,
                device.pool_name,
                device.device_name,
                [cdi.name for cdi in device.cdi_devices],
            )
            for device in claim.claim_resources
        ]
        # A kubelet adds the CDI devices of one device to those of the device before it.
        assert shown == [(DRIVER, "pool", "a", ["a"]), (DRIVER, "pool", "b", ["a", "b"])]


async def test_cdi_devices_that_are_nowhere_keep_a_container_waiting(root: Path) -> None:
    (root / "cdi").mkdir()
    clock, claims = ManualClock(), Claims()
    kubelet = FakeKubelet(root, clock=clock, claims=claims, cdi_dirs=[root / "cdi"])
    async with kubelet, serving(ScriptedDriver(root)) as driver:
        driver.devices["one"] = [Device("a", cdi_ids=("x.com/gpu=a",))]
        await clock.advance(1)
        await kubelet.driver_registered(DRIVER)
        pod = pod_of("one")
        claims.of(pod)
        record = await kubelet.admit(pod)
        assert record["main"].error == "CDI device injection failed: unresolvable CDI devices x.com/gpu=a"
        device = {"name": "a", "containerEdits": {"env": ["A=1"], "deviceNodes": [{"path": "/dev/a"}]}}
        document = {"cdiVersion": "0.6.0", "kind": "x.com/gpu", "devices": [device]}
        (root / "cdi" / "x.json").write_text(json.dumps(document))
        await clock.advance(11)
        await kubelet.running(record)
        assert (record["main"].injected.envs, record["main"].injected.nodes) == ({"A": "1"}, ("/dev/a",))


def test_a_pod_with_claims_needs_an_api_server(root: Path) -> None:
    for kubelet in (FakeKubelet(root), FakeKubelet(root, version="1.31", claims=Claims())):
        with pytest.raises(ValueError, match="give the fake kubelet an API server"):
            kubelet.bind(pod_of("one"))
    with pytest.raises(ValueError, match="use claims it does not have: two"):
        a_pod(containers=[a_container(claims=["two"])], claims={"one": "one"})
