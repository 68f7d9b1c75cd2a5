"""The kubelet asks which devices a container had best get, and gives it those that are closest."""

from pathlib import Path

from accelet.fakehost.amd import MI300X_CPX, write_amd
from accelet.fakehost.nvidia import HGX_H100, write_nvidia
from accelet.fakekubelet import FakeKubelet, a_pod
from tests.integration.agent.running import agent

AMD, NVIDIA = "amd.com/gpu", "nvidia.com/gpu"


def write_config(folder: Path, name: str, backend: str) -> Path:
    path = folder / "config.yaml"
    path.write_text(f"version: v1\nresources:\n- {{name: {name}, backend: {backend}}}\n")
    return path


async def test_a_container_gets_the_partitions_of_one_gpu(folder: Path) -> None:
    write_amd(folder, MI300X_CPX)
    config = write_config(folder, AMD, "amd-gpu")
    async with FakeKubelet(folder) as kubelet, agent(folder, config):
        await kubelet.resource(AMD).devices(healthy=63)
        gpus = []
        for name, count in (("seven", 7), ("whole", 8), ("five", 5), ("three", 3)):
            pod = await kubelet.admit(a_pod(name, limits={AMD: count}))
            gpus.append({device.rpartition("-p")[0] for device in pod["main"].devices[AMD]})
        assert gpus[0] == {"0000-e5-00.0"}, "the GPU that has seven"
        assert [len(found) for found in gpus] == [1, 1, 1, 1]
        assert gpus[2] == gpus[3], "the rest of a GPU before a whole one"


async def test_a_container_gets_gpus_of_one_numa_node(folder: Path) -> None:
    write_nvidia(folder, HGX_H100)
    config = write_config(folder, NVIDIA, "nvidia-gpu")
    async with FakeKubelet(folder) as kubelet, agent(folder, config):
        await kubelet.resource(NVIDIA).devices(healthy=8)
        uuids = [card.uuid for card in HGX_H100]
        for name, half in (("one", uuids[:4]), ("two", uuids[4:])):
            pod = await kubelet.admit(a_pod(name, limits={NVIDIA: 4}))
            assert set(pod["main"].devices[NVIDIA]) == set(half)
