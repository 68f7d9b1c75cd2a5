import pytest
from hypothesis import given
from hypothesis import strategies as st

from accelet.accelerators.device import DEVICE_ID_PATTERN
from accelet.accelerators.pci import PciAddress

addresses = st.builds(
    PciAddress,
    domain=st.integers(0, 0xFFFFFFFF),
    bus=st.integers(0, 0xFF),
    device=st.integers(0, 0x1F),
    function=st.integers(0, 7),
)


@given(addresses)
def test_both_writings_read_back(address: PciAddress) -> None:
    assert PciAddress.parse(str(address)) == address
    assert PciAddress.parse(address.as_id) == address
    assert DEVICE_ID_PATTERN.fullmatch(address.as_id)


def test_order_is_that_of_numbers_not_of_texts() -> None:
    texts = ["0000:03:00.0", "0000:1a:00.0", "0000:9a:00.1", "10000:00:02.0"]
    assert sorted(map(PciAddress.parse, reversed(texts))) == list(map(PciAddress.parse, texts))  # type: ignore[type-var]


@pytest.mark.parametrize(
    "text", ["", "device", "card0", "0000:03:00", "0000:03:00.8", "3:00.0", "0000:g3:00.0"]
)
def test_other_texts_are_no_addresses(text: str) -> None:
    assert PciAddress.parse(text) is None
