"""One request against what is there: an allocation, or a refusal in a sentence."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random

from hypothesis import given
from hypothesis import strategies as st

from accelet.accelerators.backend import Tiles
from accelet.accelerators.device import HEALTHY, Device, DeviceId, Health, UnitId
from accelet.accelerators.edits import ContainerEdits
from accelet.accelerators.errors import EditsError
from accelet.accelerators.inventory import Inventory
from resourcemanager.allocation import Allocation, Refusal
from resourcemanager.manager import ResourceManager, ResourceRules


@dataclass(frozen=True)
class Fixed:
    """A back-end whose hardware is given, and whose containers see the ids they got."""

    inventory: Inventory
    refuses: str | None = None

    def scan(self, root: Path) -> Inventory:
        return self.inventory

    def valid_sets(
        self, inventory: Inventory, size: int, available: Collection[DeviceId] | None = None
    ) -> None:
        return None

    def edits(
        self,
        inventory: Inventory,
        devices: Sequence[Device],
        tiles: Tiles,
        environment: Mapping[str, str],
    ) -> ContainerEdits:
        if self.refuses:
            raise EditsError(self.refuses)
        return ContainerEdits(environment={"GOT": " ".join(device.id for device in devices)})


def manager(*devices: Device, distinct: bool = False, refuses: str | None = None) -> ResourceManager:
    backend = Fixed(Inventory(devices), refuses)
    made = ResourceManager(ResourceRules("a.b/gpu", is_distinct=distinct), backend)
    made.update(backend.scan(Path("/")))
    return made


def device(name: str, unit: str | None = None, health: Health = HEALTHY) -> Device:
    return Device(DeviceId(name), UnitId(unit or name), health)


def ask(asked: ResourceManager, *ids: str) -> Allocation | Refusal:
    return asked.allocate([DeviceId(name) for name in ids])


def test_devices_are_given_in_order_of_hardware() -> None:
    given_ = ask(manager(device("b"), device("a"), device("c")), "a", "b")
    assert isinstance(given_, Allocation)
    assert given_.edits.environment["GOT"] == "b a"


def test_unknown_device_is_refused() -> None:
    refused = ask(manager(device("a")), "z")
    assert refused == Refusal(
        "unknown-device",
        "a.b/gpu has no device z on this node any more; create the pod again, for which the kubelet will"
        " choose another",
    )


def test_unhealthy_device_is_refused_with_its_reason() -> None:
    refused = ask(manager(device("a", health=Health("it is too hot"))), "a")
    assert refused == Refusal(
        "unhealthy-device",
        "device a of a.b/gpu is unhealthy (it is too hot); create the pod again, for which the kubelet will"
        " choose another",
    )


def test_device_that_is_gone_is_refused_with_its_reason() -> None:
    asked = manager(device("a"))
    asked.update(Inventory())
    refused = ask(asked, "a")
    assert isinstance(refused, Refusal)
    assert "gone from the node" in refused.sentence


def test_two_shares_of_one_device_are_refused_only_where_they_must_differ() -> None:
    shares = (device("a-s0", "a"), device("a-s1", "a"), device("b-s0", "b"))
    refused = ask(manager(*shares, distinct=True), "a-s1", "a-s0")
    assert isinstance(refused, Refusal)
    assert refused.code == "not-distinct"
    assert isinstance(ask(manager(*shares, distinct=True), "a-s1", "b-s0"), Allocation)
    assert isinstance(ask(manager(*shares), "a-s1", "a-s0"), Allocation)


def test_two_tiles_of_one_card_are_different_devices() -> None:
    def tile(number: int, share: int) -> Device:
        name = DeviceId(f"a-t{number}-s{share}")
        return Device(name, UnitId("a"), HEALTHY, tile=number, tile_count=2)

    made = manager(tile(0, 0), tile(0, 1), tile(1, 0), distinct=True)
    assert isinstance(ask(made, "a-t0-s0", "a-t1-s0"), Allocation)
    refused = ask(made, "a-t0-s0", "a-t0-s1")
    assert isinstance(refused, Refusal)
    assert refused.code == "not-distinct"


def test_set_that_the_hardware_cannot_use_is_refused_in_the_back_ends_words() -> None:
    refused = ask(manager(device("a"), refuses="ask for 1, 2 or 4 chips"), "a")
    assert refused == Refusal("unusable-set", "ask for 1, 2 or 4 chips")


def test_empty_request_is_refused() -> None:
    assert isinstance(ask(manager(device("a"))), Refusal)


@given(st.lists(st.sampled_from(["a", "b", "c", "sick", "z"]), max_size=6), st.randoms())
def test_same_ids_in_any_order_and_number_get_the_same_answer(ids: list[str], random: Random) -> None:
    asked = manager(device("a"), device("b"), device("c"), device("sick", health=Health("sick")))
    shuffled = [*ids, *ids]
    random.shuffle(shuffled)
    answer = ask(asked, *ids)
    assert ask(asked, *shuffled) == answer
    assert isinstance(answer, Allocation) is (bool(ids) and {"sick", "z"}.isdisjoint(ids))
