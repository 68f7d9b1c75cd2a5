"""Whether a PCI function still answers, by the first bytes of its configuration."""

from pathlib import Path


def find_config_fault(config: Path, vendor: str, unit: str) -> str | None:
    """What keeps the function whose configuration is the file `config` from being used, as a sentence.

    `vendor` is the id it has to have (`0x8086`), `unit` what people call it (`card`). A function that has
    left the bus reads as all ones. None also where the file is not there, or not ours to read.
    """
    try:
        with config.open("rb") as file:
            start = file.read(2)
    except (FileNotFoundError, PermissionError):
        return None
    except OSError as error:
        return f"its PCI configuration cannot be read: {error.strerror}"
    if start == b"\xff\xff":
        return f"its PCI configuration reads 0xffff: the {unit} no longer answers on the bus"
    if start != bytes.fromhex(vendor.removeprefix("0x"))[::-1]:
        return f"its PCI configuration reads vendor 0x{start[::-1].hex() or '(nothing)'}, not {vendor}"
    return None
