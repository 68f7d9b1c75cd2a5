"""What pods get of a v5e host of eight chips, over the sockets between a kubelet and the agent."""

import shutil
import stat
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from random import Random

import pytest

from accelet.fakehost.tpu import HOSTS, rewrite
from accelet.fakekubelet import FakeKubelet, PodRecord, a_pod
from tests.integration.agent.running import agent, until, write_config

TPU = "google.com/tpu"
IDS = [
    *("0000-00-0c.0", "0000-00-0d.0", "0000-00-0e.0", "0000-00-0f.0"),
    *("0000-80-00.0", "0000-80-01.0", "0000-80-02.0", "0000-80-03.0"),
]


@asynccontextmanager
async def serving(folder: Path, settings: str = "") -> AsyncIterator[FakeKubelet]:
    HOSTS["v5e-8"].write(folder)
    config = write_config(folder, f"- {{name: {TPU}, backend: tpu{settings}}}\n")
    async with FakeKubelet(folder) as kubelet, agent(folder, config):
        tpu = await kubelet.registered(TPU)
        await tpu.devices(healthy=8)
        yield kubelet


async def ask(kubelet: FakeKubelet, name: str, chips: int) -> PodRecord:
    return await kubelet.admit(a_pod(name, limits={TPU: chips}))


def why(record: PodRecord) -> str:
    """What a rejected pod's status says."""
    assert record.rejection is not None
    return record.rejection.message


def chips(record: PodRecord) -> list[int]:
    """The positions of the chips a pod holds."""
    return sorted(IDS.index(chip) for chip in record["main"].devices[TPU])


async def test_two_pods_of_four_chips_get_the_two_halves(folder: Path) -> None:
    async with serving(folder, ", mode: sub-host") as kubelet:
        pods = [await ask(kubelet, name, 4) for name in ("one", "other")]

    assert sorted(chips(pod) for pod in pods) == [[0, 1, 2, 3], [4, 5, 6, 7]]
    for pod in pods:
        given = pod["main"].options
        assert given.envs["TPU_CHIPS_PER_PROCESS_BOUNDS"] == "1,4,1"
        assert given.envs["TPU_TOPOLOGY"] == "1x4"
        assert len(given.devices) == 5
        assert [mount.container_path for mount in given.mounts] == ["/tmp/tpu_logs"]
    logs = {pod["main"].options.mounts[0].host_path for pod in pods}
    assert len(logs) == 2
    assert all(stat.filemode(_below(folder, path).stat().st_mode) == "drwxrwxrwt" for path in logs)


async def test_logs_of_an_earlier_container_are_set_aside(folder: Path) -> None:
    async with serving(folder) as kubelet:
        first = await ask(kubelet, "first", 8)
        logs = _below(folder, first["main"].options.mounts[0].host_path)
        (logs / "tpu_driver.INFO").write_text("hello")
        await kubelet.remove(first)
        second = await ask(kubelet, "second", 8)

    assert _below(folder, second["main"].options.mounts[0].host_path) == logs
    assert list(logs.iterdir()) == []
    assert (logs.with_name(f"{logs.name}.previous") / "tpu_driver.INFO").read_text() == "hello"


async def test_what_a_former_agent_discarded_is_removed(folder: Path) -> None:
    discarded = folder / "tmp/tpu_logs/chips.discarded-0123456789abcdef"
    (discarded / "deep").mkdir(parents=True)
    async with serving(folder):
        await until(lambda: not discarded.exists(), timeout_s=30)


async def test_lost_folder_of_a_running_container_is_made_again(folder: Path) -> None:
    async with serving(folder) as kubelet:
        pod = await ask(kubelet, "whole", 8)
        logs = _below(folder, pod["main"].options.mounts[0].host_path)
        shutil.rmtree(folder / "tmp")
        await until(logs.is_dir, timeout_s=30)
        assert stat.filemode(logs.stat().st_mode) == "drwxrwxrwt"


async def test_host_that_lost_chips_while_the_agent_was_away_is_not_given_as_a_smaller_one(
    folder: Path,
) -> None:
    async with serving(folder):
        pass
    rewrite(HOSTS["v5e-8"].without(*(f"0000:80:0{slot}.0" for slot in range(4))), folder)
    config = write_config(folder, f"- {{name: {TPU}, backend: tpu}}\n")
    async with FakeKubelet(folder) as kubelet, agent(folder, config):
        await (await kubelet.registered(TPU)).devices(healthy=4)
        assert "only 4 of its 8 are there" in why(await ask(kubelet, "four", 4))


def _below(folder: Path, path: str) -> Path:
    """Where the agent sees a path of the host."""
    return folder / path.lstrip("/")


async def test_small_pods_leave_the_largest_boxes_free(folder: Path) -> None:
    async with serving(folder, ", mode: sub-host") as kubelet:
        first = await ask(kubelet, "half", 4)
        pair = await ask(kubelet, "pair", 2)
        await kubelet.finish(first)
        await kubelet.remove(first)
        # 0 to 3 are free again, and of 4 to 7 the other pair.
        other = await ask(kubelet, "other-pair", 2)
        half = await ask(kubelet, "other-half", 4)

    assert [chips(pod) for pod in (pair, other, half)] == [[4, 5], [6, 7], [0, 1, 2, 3]]


async def test_pod_that_asks_for_three_chips_is_told_what_it_can_ask_for(folder: Path) -> None:
    async with serving(folder, ", mode: sub-host") as kubelet:
        pod = await ask(kubelet, "three", 3)

    assert not pod.is_running
    assert "3 TPU chips of this node cannot be used together: ask for 1, 2, 4 or 8" in why(pod)


async def test_whole_host_goes_to_one_pod(folder: Path) -> None:
    async with serving(folder) as kubelet:
        part = await ask(kubelet, "part", 4)
        whole = await ask(kubelet, "whole", 8)

    assert "this node gives all its 8 TPU chips to one container, and 4 were asked for" in why(part)
    assert chips(whole) == list(range(8))
    assert whole["main"].options.envs["TPU_CHIPS_PER_HOST_BOUNDS"] == "2,4,1"


@pytest.mark.parametrize("seed", range(3))
async def test_pods_that_come_and_go_get_boxes_while_there_are_any(folder: Path, seed: int) -> None:
    dice = Random(seed)
    running: list[PodRecord] = []
    async with serving(folder, ", mode: sub-host") as kubelet:
        for number in range(30):
            if running and dice.random() < 0.45:
                record = running.pop(dice.randrange(len(running)))
                await kubelet.finish(record)
                await kubelet.remove(record)
                continue
            size = dice.choice([1, 1, 2, 2, 4, 8])
            free = set(range(8)) - {chip for record in running for chip in chips(record)}
            boxes = [set(range(first, first + size)) for first in range(0, 8, size)]
            record = await ask(kubelet, f"pod-{number}", size)
            assert record.is_running == any(box <= free for box in boxes)
            if record.is_running:
                assert set(chips(record)) in boxes
                assert set(chips(record)) <= free
                running.append(record)
