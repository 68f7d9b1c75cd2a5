"""An agent that looks at its cards, from their files to what the kubelet, Prometheus and people are told."""

import asyncio
from collections.abc import Callable, Mapping
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest
from prometheus_client.parser import text_string_to_metric_families

from accelet.agent.process import Agent
from accelet.fakeapi import FakeApi
from accelet.fakeapi.faults import Fault, HoldBack
from accelet.fakehost.gpus import Gpu, write_gpus
from accelet.fakehost.sensors import device, write_asleep, write_dmem, write_files, write_i915
from accelet.fakekubelet import FakeKubelet, a_pod
from tests.integration.agent.running import GPU, agent, configuration_loaded_at, scan, until

CARD = Gpu(3, "0000:03:00.0")
OTHER = Gpu(4, "0000:04:00.0")
RESOURCES = f"version: v1\nresources: [{{name: {GPU}, backend: intel-gpu}}]\n"


TRAIN = {
    "metadata": {"name": "train"},
    "spec": {"nodeName": "node", "containers": [{"name": "main", "image": "i"}]},
}


def write(folder: Path, sensors: str, more: str = "") -> Path:
    """Replaces the configuration in one step."""
    fresh = folder / "config.new"
    fresh.write_text(f"{RESOURCES}sensors: {sensors}\n{more}")
    return fresh.rename(folder / "config.yaml")


def read(running: Agent, token: str | None = None) -> Mapping[str, float]:
    """The metrics, each as `name{values}` with the values of its labels, in the order of these.

    Raises:
        HTTPError: they were not given out.
    """
    headers = {} if token is None else {"Authorization": f"Bearer {token}"}
    request = Request(f"http://127.0.0.1:{running.probe_port}/metrics", headers=headers)
    with urlopen(request, timeout=10) as answer:  # on this machine
        text = answer.read().decode()
    return {
        f"{sample.name}{{{','.join(sample.labels.values())}}}": sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        if not sample.name.endswith("_created")
    }


async def refused(running: Agent, token: str | None) -> int:
    with pytest.raises(HTTPError) as raised:
        await asyncio.to_thread(read, running, token)
    with raised.value:
        return raised.value.code


async def until_read(
    running: Agent, is_so: Callable[[Mapping[str, float]], bool], token: str | None = None
) -> Mapping[str, float]:
    """The metrics, once they are so."""
    await until(lambda: running.probe_port is not None)
    async with asyncio.timeout(10):
        while not is_so(found := await asyncio.to_thread(read, running, token)):  # noqa: ASYNC110 - as `until`
            await asyncio.sleep(0.05)
    return found


async def until_shown(running: Agent, name: str, token: str | None = None) -> float:
    return (await until_read(running, lambda found: name in found, token))[name]


def count_looks(running: Agent) -> float:
    name = "accelet_card_look_duration_seconds_count"
    return running.metrics.registry.get_sample_value(name) or 0.0


async def look_again(running: Agent, folder: Path, sensors: str, more: str) -> None:
    """A change of the period has the agent look at once."""
    await until(lambda: count_looks(running) > 0)
    before = count_looks(running)
    write(folder, sensors, more)
    await until(lambda: count_looks(running) > before)


def notes(api: FakeApi) -> list[str]:
    found = api.state.list("apis/events.k8s.io/v1/events", {}, None)
    return [one["note"] for one in found["items"]]


async def test_what_cards_do_is_told_and_of_one_that_sleeps_only_that(folder: Path) -> None:
    root = write_gpus(folder, [CARD, OTHER])
    for card in (CARD, OTHER):
        write_i915(root, card)
    write_asleep(root, OTHER)
    write_dmem(root, {"0000:03:00.0/vram0": 1 << 34}, {})
    async with FakeKubelet(folder), agent(folder, write(folder, "{}")) as running:
        active = "accelet_card_active{%s}"
        assert await until_shown(running, active % CARD.pci) == 1
        assert await until_shown(running, active % OTHER.pci) == 0
        shown = await asyncio.to_thread(read, running)
        assert shown["accelet_card_temperature_celsius{0000:03:00.0,pkg}"] == 57
        assert shown["accelet_card_energy_joules_total{0000:03:00.0,card}"] == 0
        assert shown["accelet_card_memory_size_bytes{0000:03:00.0,vram0}"] == 1 << 34
        told = {name for name in shown if OTHER.pci in name and name.startswith("accelet_card_")}
        assert told == {active % OTHER.pci, "accelet_card_read_errors_total{0000:04:00.0}"}


async def test_nobody_looks_unless_told_to(folder: Path) -> None:
    write_i915(write_gpus(folder, [CARD]), CARD)
    async with FakeKubelet(folder) as kubelet, agent(folder, write(folder, "null")) as running:
        await kubelet.resource(GPU).devices(healthy=1)
        write(folder, "{every_s: 60}")
        await until_shown(running, "accelet_card_active{0000:03:00.0}")
        write(folder, "null")
        await until(lambda: not any("card_active{" in name for name in read(running)))


async def test_a_card_that_is_too_hot_is_ill_until_it_has_cooled_and_its_node_says_so(folder: Path) -> None:
    root = write_gpus(folder, [CARD, OTHER])
    write_i915(root, CARD)
    write_i915(root, OTHER)
    heat = device(root, CARD) / "hwmon/hwmon3"
    with FakeApi() as api:
        api.state.create("api/v1/nodes", "", {"metadata": {"name": "node"}})
        kubeconfig = api.write_kubeconfig(folder / "kubeconfig")
        events = "health_events: true\n"
        limit = "{every_s: %d, temperature_limit: 90}"
        write_files(heat, {"temp1_input": 95_000})
        file = write(folder, limit % 50, events)
        async with FakeKubelet(folder) as kubelet, agent(folder, file, kubeconfig) as running:
            gpus = kubelet.resource(GPU)
            await gpus.devices(healthy=2)
            for period in (51, 52):
                await look_again(running, folder, limit % period, events)
            await until(lambda: count_looks(running) >= 3)
            await gpus.devices(healthy=1)
            await until(lambda: any("0000:03:00.0 is ill: it is too hot" in note for note in notes(api)))
            write_files(heat, {"temp1_input": 84_000})
            await look_again(running, folder, limit % 53, events)
            await scan(folder, running)
            await scan(folder, running)
            await gpus.devices(healthy=2)
            await until(lambda: any("0000:03:00.0 is well again" in note for note in notes(api)))
            assert not any(OTHER.pci in note for note in notes(api))


async def test_holders_are_told_to_whoever_may_read_metrics_and_to_nobody_else(folder: Path) -> None:
    write_i915(write_gpus(folder, [CARD]), CARD)
    with FakeApi() as api:
        kubeconfig = api.write_kubeconfig(folder / "kubeconfig")
        api.authority.tokens |= {"good": "prometheus", "pod": "system:serviceaccount:tenant:default"}
        api.authority.readers.add(("prometheus", "/metrics"))
        file = write(folder, "{holders: true}")
        async with FakeKubelet(folder) as kubelet, agent(folder, file, kubeconfig) as running:
            await kubelet.resource(GPU).devices(healthy=1)
            made = api.state.create("api/v1/pods", "default", TRAIN)
            pod = a_pod("train", limits={GPU: 1}, uid=made["metadata"]["uid"])
            await kubelet.admit(pod)
            await scan(folder, running)
            held = f"accelet_card_allocated{{main,default,0000:03:00.0,train,{GPU}}}"
            assert await until_shown(running, held, "good") == 1
            assert await refused(running, None) == 401
            assert await refused(running, "made up") == 401
            assert await refused(running, "pod") == 403
            reviews = api.count(method="POST", path="tokenreviews")
            await asyncio.to_thread(read, running, "good")
            assert await refused(running, "pod") == 403
            assert api.count(method="POST", path="tokenreviews") == reviews, "answers are remembered"
            loaded_at = configuration_loaded_at(running)
            write(folder, "{holders: false}")
            await until(lambda: configuration_loaded_at(running) > loaded_at)
            assert held not in await asyncio.to_thread(read, running)


async def test_a_scrape_that_was_under_way_when_holders_were_switched_off_names_nobody(folder: Path) -> None:
    write_i915(write_gpus(folder, [CARD]), CARD)
    with FakeApi() as api:
        kubeconfig = api.write_kubeconfig(folder / "kubeconfig")
        api.authority.tokens["good"] = "prometheus"
        api.authority.readers.add(("prometheus", "/metrics"))
        held = HoldBack()
        api.faults.append(Fault(held, path="tokenreviews"))
        file = write(folder, "{holders: true}")
        async with FakeKubelet(folder) as kubelet, agent(folder, file, kubeconfig) as running:
            await kubelet.resource(GPU).devices(healthy=1)
            made = api.state.create("api/v1/pods", "default", TRAIN)
            await kubelet.admit(a_pod("train", limits={GPU: 1}, uid=made["metadata"]["uid"]))
            await scan(folder, running)
            scrape = asyncio.create_task(asyncio.to_thread(read, running, "good"))
            await until(held.is_made.is_set)
            loaded_at = configuration_loaded_at(running)
            write(folder, "{holders: false}")
            await until(lambda: configuration_loaded_at(running) > loaded_at)
            held.released.set()
            await scrape
            assert not any("card_allocated" in name for name in await asyncio.to_thread(read, running))


async def test_an_ill_card_is_not_well_because_its_resource_begins_anew_or_because_it_is_gone(
    folder: Path,
) -> None:
    root = write_gpus(folder, [CARD, OTHER])
    with FakeApi() as api:
        api.state.create("api/v1/nodes", "", {"metadata": {"name": "node"}})
        kubeconfig = api.write_kubeconfig(folder / "kubeconfig")
        events = "health_events: true\n"
        file = write(folder, "null", events)
        async with FakeKubelet(folder) as kubelet, agent(folder, file, kubeconfig) as running:
            await kubelet.resource(GPU).devices(healthy=2)
            (root / CARD.nodes[1][1:]).unlink()
            await scan(folder, running)
            await until(lambda: any("0000:03:00.0 is ill: its render node" in note for note in notes(api)))
            file.write_text(RESOURCES.replace("intel-gpu", "intel-gpu, shares: 2") + events)
            await kubelet.resource(GPU).devices(healthy=2, unhealthy=2)
            (root / "sys/class/drm/card3").unlink()
            await scan(folder, running)
            await scan(folder, running)
            assert not any("well again" in note for note in notes(api))
            assert not any("0000-03-00.0" in note for note in notes(api)), "a card has one name"
