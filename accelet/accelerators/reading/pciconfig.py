"""Whether a PCI function still answers, by the first bytes of its configuration."""

from pathlib import Path

from accelet.accelerators.device import HEALTHY, Health

_ID_BYTES = 2


def read_config_health(config: Path, vendor: str, unit: str) -> Health:
    """Whether the function whose configuration is the file `config` can be used.

    `vendor` is the id it has to have (`0x8086`), `unit` what people call it (`card`). A function that has
    left the bus reads as all ones. Healthy also where the file is not there, or not ours to read; unknown
    where reading it fails. Blocks for as long as the function takes to answer: call it where that is bounded
    (`HardwareReads`).
    """
    try:
        # Without a buffer, which reads all 4,096 bytes: in a virtual machine that takes 22 ms (an H200).
        with config.open("rb", buffering=0) as file:
            start = file.read(_ID_BYTES)
    except (FileNotFoundError, PermissionError):
        return HEALTHY
    except OSError as error:
        return Health(f"its PCI configuration cannot be read: {error.strerror}", is_unknown=True)
    if start == b"\xff\xff":
        return Health(f"its PCI configuration reads 0xffff: the {unit} no longer answers on the bus")
    if start != bytes.fromhex(vendor.removeprefix("0x"))[::-1]:
        found = start[::-1].hex() or "(nothing)"
        reason = f"its PCI configuration reads vendor 0x{found}, not {vendor}"
        return Health(reason, is_unknown=len(start) < _ID_BYTES)
    return HEALTHY
