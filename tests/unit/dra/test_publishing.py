"""What is published of a node's hardware: within Kubernetes' rules, and true."""

import tempfile
from collections.abc import Mapping
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from accelet.accelerators.device import Health
from accelet.accelerators.scancache import uncached
from accelet.accelerators.settings import NodeFacts
from accelet.accelerators.tpu.settings import TpuSettings
from accelet.dra.names import FILES_DRIVER, GPU_DRIVER, TPU_DRIVER, label_of
from accelet.dra.pool import DevicePool, DeviceTaint, PoolDevice
from accelet.dra.publishing.build import MOST_DEVICES, build_pool
from accelet.dra.publishing.gpus import millicores_of
from accelet.dra.publishing.served import ServedResource
from accelet.dra.publishing.slices import amount_text, divide, render_all
from accelet.dra.publishing.taints import taints_of
from accelet.fakehost.tpu import HOSTS, TpuHost
from tests.unit.dra.apirules import faults, number
from tests.unit.dra.strategies import GIB, file_nodes, files, gpu, gpu_nodes, gpus, unit_names

CHIPS = [
    f"0000-{bus}-{slot}-0"
    for bus, slots in (("00", ("0c", "0d", "0e", "0f")), ("80", ("00", "01", "02", "03")))
    for slot in slots
]


def pool_of(resource: ServedResource, driver: str = GPU_DRIVER) -> DevicePool:
    pool = build_pool(driver, "node-1", [resource])
    return pool.with_taints(taints_of([resource]))


def devices_of(pool: DevicePool) -> dict[str, dict[str, Any]]:
    bodies: list[Mapping[str, Any]] = list(render_all(pool))
    return {device["name"]: device for body in bodies for device in body["spec"].get("devices", ())}


def tpu_host(host: TpuHost, root: Path, **settings: Any) -> ServedResource:
    backend = TpuSettings(**settings).backend()
    return ServedResource("google.com/tpu", backend, backend.scan(host.write(root)))


@given(gpu_nodes)
def test_any_cards_make_a_pool_that_kubernetes_takes(resource: ServedResource) -> None:
    assert faults(render_all(pool_of(resource))) == []


@given(file_nodes)
def test_any_files_make_a_pool_that_kubernetes_takes(resource: ServedResource) -> None:
    assert faults(render_all(pool_of(resource, FILES_DRIVER))) == []


@given(gpu_nodes)
def test_devices_with_hardware_in_common_use_up_a_counter_together(resource: ServedResource) -> None:
    """No two sets of exclusive devices that overlap fit into the counters."""
    pool = pool_of(resource)
    have = {one.name: one.counters for one in pool.counter_sets}
    for one, other in combinations([d for d in pool.devices if d.is_exclusive], 2):
        fits = one.counter_set != other.counter_set or all(
            one.counters.get(name, 0) + other.counters.get(name, 0) <= amount
            for name, amount in have[one.counter_set or ""].items()
        )
        assert fits == one.atoms.isdisjoint(other.atoms)


@given(gpu_nodes)
def test_all_tiles_of_a_card_fit_into_its_counters(resource: ServedResource) -> None:
    pool = pool_of(resource)
    for counters in pool.counter_sets:
        tiles = [d for d in pool.devices if d.kind == "tile" and d.counter_set == counters.name]
        for name, amount in counters.counters.items():
            assert sum(tile.counters.get(name, 0) for tile in tiles) <= amount


@given(gpu_nodes)
def test_the_smallest_come_first_and_monitors_last(resource: ServedResource) -> None:
    kinds = [device.kind for device in pool_of(resource).devices]
    assert kinds == sorted(kinds, key=["tile", "gpu", "monitor"].index)


@given(gpu_nodes)
def test_order_and_division_do_not_depend_on_health(resource: ServedResource) -> None:
    pool = build_pool(GPU_DRIVER, "node-1", [resource])
    taint = {device.unit: (DeviceTaint("unhealthy", "NoSchedule"),) for device in resource.inventory.devices}
    before, after = divide(pool), divide(pool.with_taints(taint))
    assert [[d.name for d in part.devices] for part in before] == [
        [d.name for d in part.devices] for part in after
    ]


def test_a_card_with_two_tiles_is_published_as_the_documents_say() -> None:
    pool = pool_of(gpus(gpu(3, tiles=2, memory=128 * GIB)))
    counters, devices = render_all(pool)
    common = {
        "card": {"string": "0000-03-00-0"},
        "kernelDriver": {"string": "i915"},
        "pciDevice": {"string": "0x0bd5"},
        "resource.kubernetes.io/pciBusID": {"string": "0000:03:00.0"},
        "resource.kubernetes.io/pcieRoot": {"string": "pci0000:00"},
        "resource.kubernetes.io/numaNode": {"int": 0},
    }
    millicores = {
        "value": "1000",
        "requestPolicy": {"default": "1000", "validRange": {"min": "10", "max": "1000", "step": "10"}},
    }
    assert counters == {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceSlice",
        "metadata": {"generateName": "00000-gpu.accelet.dev-node-1-"},
        "spec": {
            "driver": "gpu.accelet.dev",
            "nodeName": "node-1",
            "pool": {"name": "node-1", "generation": 1, "resourceSliceCount": 2},
            "sharedCounters": [
                {
                    "name": "gpu-0000-03-00-0",
                    "counters": {
                        "tile-0": {"value": "1"},
                        "tile-1": {"value": "1"},
                        "memory": {"value": "128Gi"},
                    },
                }
            ],
        },
    }
    spec: Any = devices["spec"]
    assert [device["name"] for device in spec["devices"]] == [
        "gpu-0000-03-00-0-tile-0",
        "gpu-0000-03-00-0-tile-1",
        "gpu-0000-03-00-0",
        "gpu-0000-03-00-0-monitor",
    ]
    assert spec["devices"][1] == {
        "name": "gpu-0000-03-00-0-tile-1",
        "attributes": {
            "type": {"string": "tile"},
            "tile": {"int": 1},
            "tiles": {"int": 1},
            **common,
        },
        "capacity": {
            "millicores": millicores,
            "memory": {
                "value": "64Gi",
                "requestPolicy": {"default": "0", "validRange": {"min": "0", "max": "64Gi", "step": "1Mi"}},
            },
        },
        "consumesCounters": [
            {
                "counterSet": "gpu-0000-03-00-0",
                "counters": {"tile-1": {"value": "1"}, "memory": {"value": "64Gi"}},
            }
        ],
        "allowMultipleAllocations": True,
    }
    assert spec["devices"][3] == {
        "name": "gpu-0000-03-00-0-monitor",
        "attributes": {"type": {"string": "monitor"}, "tiles": {"int": 2}, **common},
        "allowMultipleAllocations": True,
    }


def test_a_card_with_one_tile_has_no_tile_device() -> None:
    assert list(devices_of(pool_of(gpus(gpu(3))))) == ["gpu-0000-03-00-0", "gpu-0000-03-00-0-monitor"]


def test_a_card_with_too_many_tiles_is_offered_whole_and_says_so() -> None:
    pool = pool_of(gpus(gpu(3, tiles=32)))
    assert [device.kind for device in pool.devices] == ["gpu", "monitor"]
    assert pool.left_out == (
        "0000-03-00.0 has 32 tiles and is offered whole only: Kubernetes counts no more than 31 of one card",
    )


@pytest.mark.parametrize(("memory", "is_told"), [(2**63 - 2**20, True), (2**63, False), (2**90, False)])
def test_more_memory_than_kubernetes_counts_is_left_out_and_said(memory: int, *, is_told: bool) -> None:
    """It would take the whole pool with it: the API server refuses an amount that no step divides."""
    pool = pool_of(gpus(gpu(3, tiles=2, memory=memory), gpu(4, memory=GIB)))
    assert faults(render_all(pool)) == []
    card = devices_of(pool)["gpu-0000-03-00-0"]
    assert ("memory" in card["capacity"]) == is_told
    told = [f"0000-03-00.0 is said to have {memory} bytes of memory and is offered without: "]
    assert [said.partition("Kubernetes")[0] for said in pool.left_out] == ([] if is_told else told)
    assert "memory" in devices_of(pool)["gpu-0000-04-00-0"]["capacity"]


def test_a_card_whose_memory_is_not_known_has_no_amount_of_it() -> None:
    """Not 0: a claim that asks for some does not get it, and an expression can tell."""
    pool = pool_of(gpus(gpu(3, tiles=2, memory=None)))
    assert faults(render_all(pool)) == []
    assert not any("memory" in device.get("capacity", {}) for device in devices_of(pool).values())
    assert not any("memory" in counters.counters for counters in pool.counter_sets)
    assert pool.left_out == ()


@given(st.integers(1, 100))
def test_shares_of_a_card_are_never_more_than_allowed(shares: int) -> None:
    capacity = millicores_of(shares)
    assert capacity.value // capacity.default <= shares
    assert capacity.default % capacity.step == 0
    if shares in (1, 2, 3, 4, 5, 10, 20, 25, 50, 100):
        assert capacity.value // capacity.default == shares


def test_a_sick_card_is_tainted_whole_but_its_monitor_is_not() -> None:
    pool = pool_of(gpus(gpu(3, tiles=2, health=Health("hot")), gpu(4)))
    taints = {name: device.get("taints") for name, device in devices_of(pool).items()}
    sick = [{"key": "gpu.accelet.dev/unhealthy", "effect": "NoSchedule"}]
    assert taints == {
        "gpu-0000-03-00-0-tile-0": sick,
        "gpu-0000-03-00-0-tile-1": sick,
        "gpu-0000-03-00-0": sick,
        "gpu-0000-04-00-0": None,
        "gpu-0000-03-00-0-monitor": None,
        "gpu-0000-04-00-0-monitor": None,
    }


def test_files_for_several_holders_are_shared_by_count() -> None:
    device = devices_of(pool_of(files("dev-fuse", shares=3), FILES_DRIVER))["file-dev-fuse"]
    assert device["capacity"]["holders"] == {
        "value": "3",
        "requestPolicy": {"default": "1", "validValues": ["1"]},
    }
    assert device["allowMultipleAllocations"] is True


def test_a_file_for_one_holder_is_not_shared() -> None:
    device = devices_of(pool_of(files("dev-fuse"), FILES_DRIVER))["file-dev-fuse"]
    assert "allowMultipleAllocations" not in device
    assert "capacity" not in device


def test_too_many_devices_are_cut_and_told() -> None:
    pool = pool_of(files(*(f"dev-f{i}" for i in range(MOST_DEVICES + 5))), FILES_DRIVER)
    assert len(pool.devices) == MOST_DEVICES
    assert pool.left_out == ("4101 devices are too many: the first 4096 are published",)
    assert faults(render_all(pool)) == []


def test_a_node_without_devices_publishes_one_empty_slice() -> None:
    (body,) = render_all(pool_of(gpus()))
    spec: Any = body["spec"]
    assert spec == {
        "driver": "gpu.accelet.dev",
        "nodeName": "node-1",
        "pool": {"name": "node-1", "generation": 1, "resourceSliceCount": 1},
    }


@given(st.lists(unit_names, min_size=2, max_size=2, unique=True))
def test_two_units_never_have_one_name(units: list[str]) -> None:
    assert len({label_of(unit) for unit in units}) == 2


def test_boxes_of_a_tpu_host_are_published_small_first(tmp_path: Path) -> None:
    pool = pool_of(tpu_host(HOSTS["v5e-8"], tmp_path, mode="sub-host"), TPU_DRIVER)
    assert faults(render_all(pool)) == []
    assert [device.name for device in pool.devices] == [
        *(f"chips-1-{chip}" for chip in CHIPS),
        *(f"chips-2-{CHIPS[first]}-{CHIPS[first + 1]}" for first in (0, 2, 4, 6)),
        "chips-4-0000-00-0c-0-0000-00-0f-0",
        "chips-4-0000-80-00-0-0000-80-03-0",
        "chips-8-0000-00-0c-0-0000-80-03-0",
    ]
    device = devices_of(pool)["chips-2-0000-80-00-0-0000-80-01-0"]
    counters = {"chip-0000-80-00-0": {"value": "1"}, "chip-0000-80-01-0": {"value": "1"}}
    assert device["consumesCounters"] == [{"counterSet": "host", "counters": counters}]
    assert device["attributes"]["generation"] == {"string": "v5e"}
    assert device["attributes"]["chips"] == {"int": 2}
    assert device["attributes"]["firstChip"] == {"int": 4}


def test_a_host_given_out_whole_has_one_box_and_its_chips_by_number(tmp_path: Path) -> None:
    pool = pool_of(tpu_host(HOSTS["v5e-8"], tmp_path), TPU_DRIVER)
    assert faults(render_all(pool)) == []
    kinds = [(device.name, device.kind) for device in pool.devices]
    box = ("chips-8-0000-00-0c-0-0000-80-03-0", "box")
    assert kinds == [*((f"chip-{chip}", "host-chip") for chip in CHIPS), box]


ADDRESSES = [function.address for function in HOSTS["v5e-8"].functions]


@settings(max_examples=20, deadline=None)
@given(st.sets(st.sampled_from(ADDRESSES), max_size=7), st.booleans())
def test_a_name_stays_that_of_the_same_chips_whichever_others_leave(gone: set[str], was_seen: bool) -> None:
    """Also on a host that was never seen complete."""
    with tempfile.TemporaryDirectory() as one, tempfile.TemporaryDirectory() as other:
        before = tpu_host(HOSTS["v5e-8"], Path(one), mode="sub-host")
        seen = before.inventory.remember if was_seen else None
        backend = TpuSettings(mode="sub-host").backend_on(NodeFacts(remembered=seen), uncached)
        now = ServedResource(
            "google.com/tpu", backend, backend.scan(HOSTS["v5e-8"].without(*gone).write(Path(other)))
        )
        named = pool_of(before, TPU_DRIVER).by_name
        for name, device in pool_of(now, TPU_DRIVER).by_name.items():
            assert name not in named or named[name].atoms == device.atoms
            assert not was_seen or named[name].attributes["firstChip"] == device.attributes["firstChip"]


def test_an_incomplete_host_given_out_whole_publishes_nothing_and_says_so(tmp_path: Path) -> None:
    host = HOSTS["v5e-8"].without("0000:00:0c.0")
    pool = pool_of(tpu_host(host, tmp_path), TPU_DRIVER)
    assert pool.devices == ()
    assert pool.left_out == ("google.com/tpu: these 7 chips form no box that can be used",)


@given(st.integers(0, 2**62))
def test_memory_is_written_exactly(amount: int) -> None:
    assert number(amount_text("memory", amount)) == amount


@pytest.mark.parametrize(("amount", "text"), [(0, "0"), (2**20, "1Mi"), (3 * 2**29, "1536Mi"), (1, "1")])
def test_memory_has_the_largest_suffix(amount: int, text: str) -> None:
    assert amount_text("memory", amount) == text


@settings(max_examples=30)
@given(gpu_nodes)
def test_taints_of_a_unit_reach_every_device_made_of_it(resource: ServedResource) -> None:
    pool = pool_of(resource)
    sick = {device.unit for device in resource.inventory.devices if not device.health.is_healthy}

    def expects_taint(device: PoolDevice) -> bool:
        return device.kind != "monitor" and not sick.isdisjoint(device.units)

    assert all(bool(device.taints) == expects_taint(device) for device in pool.devices)
