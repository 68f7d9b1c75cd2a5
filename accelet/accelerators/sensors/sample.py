"""What is told of a card, and under which name."""

from dataclasses import dataclass
from typing import Literal

Family = Literal["gauge", "counter"]


@dataclass(frozen=True, slots=True)
class Metric:
    """A family of samples. `labels` come after `pci`, which every sample has.

    Units are the base units: seconds, joules, watts, celsius, hertz, volts, bytes.
    """

    name: str
    family: Family
    help: str
    labels: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Sample:
    """One value of one card; `labels` are the values of the metric's labels, in their order."""

    metric: Metric
    value: float
    labels: tuple[str, ...] = ()


IS_ACTIVE = Metric(
    "accelet_card_active", "gauge", "Whether the card is awake; of one that sleeps nothing more is read."
)
ENERGY = Metric(
    "accelet_card_energy_joules",
    "counter",
    "Energy used since the agent began to look; `card` is the whole card, `pkg` its chip.",
    ("sensor",),
)
POWER_LIMIT = Metric(
    "accelet_card_power_limit_watts", "gauge", "Limits of power that the card keeps.", ("sensor", "limit")
)
TEMPERATURE = Metric("accelet_card_temperature_celsius", "gauge", "Temperatures.", ("sensor",))
TEMPERATURE_LIMIT = Metric(
    "accelet_card_temperature_limit_celsius",
    "gauge",
    "Temperatures at which the card protects itself.",
    ("sensor", "limit"),
)
VOLTAGE = Metric("accelet_card_voltage_volts", "gauge", "Voltages.", ("sensor",))
FAN_SPEED = Metric("accelet_card_fan_speed_rpm", "gauge", "Revolutions a minute.", ("fan",))
FREQUENCY = Metric(
    "accelet_card_frequency_hertz", "gauge", "What the engines run at; 0 while they rest.", ("tile", "gt")
)
FREQUENCY_LIMIT = Metric(
    "accelet_card_frequency_limit_hertz",
    "gauge",
    "The lowest and the highest that the engines are allowed.",
    ("tile", "gt", "limit"),
)
IS_THROTTLED = Metric(
    "accelet_card_throttled",
    "gauge",
    "Whether the engines run slower for this reason at this moment.",
    ("tile", "gt", "reason"),
)
AWAKE = Metric(
    "accelet_card_awake_seconds",
    "counter",
    "Time in which not all engines of this part rested: an upper bound of their use.",
    ("tile", "gt"),
)
LINK_WIDTH = Metric("accelet_card_pcie_link_width", "gauge", "Lanes of the PCI Express link in use.")
LINK_WIDTH_LIMIT = Metric("accelet_card_pcie_link_width_limit", "gauge", "Lanes that there could be.")
LINK_SPEED = Metric(
    "accelet_card_pcie_link_transfers_per_second", "gauge", "Transfers a second and lane; lower in rest."
)
LINK_SPEED_LIMIT = Metric(
    "accelet_card_pcie_link_transfers_per_second_limit", "gauge", "Transfers a second and lane at most."
)
PCIE_ERRORS = Metric(
    "accelet_card_pcie_errors",
    "counter",
    "Errors on the way to the card since it was found, by Advanced Error Reporting.",
    ("severity",),
)
MEMORY_SIZE = Metric(
    "accelet_card_memory_size_bytes", "gauge", "Memory that pods can use, by the dmem cgroup.", ("region",)
)

METRICS = (
    IS_ACTIVE,
    ENERGY,
    POWER_LIMIT,
    TEMPERATURE,
    TEMPERATURE_LIMIT,
    VOLTAGE,
    FAN_SPEED,
    FREQUENCY,
    FREQUENCY_LIMIT,
    IS_THROTTLED,
    AWAKE,
    LINK_WIDTH,
    LINK_WIDTH_LIMIT,
    LINK_SPEED,
    LINK_SPEED_LIMIT,
    PCIE_ERRORS,
    MEMORY_SIZE,
)
