"""What the configuration says of looking at cards."""

from typing import Annotated

import msgspec
from msgspec import Meta

from accelet.accelerators.sensors.heat import HeatLimits

Celsius = Annotated[int, Meta(ge=40, le=150, description="degrees Celsius")]


class SensorSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`every_s` is the time from one look to the next, in seconds.

    A card whose chip or memory is at its limit in three looks is unhealthy until it has cooled by five
    degrees; without a limit no temperature makes a card so. `holders` tells which containers hold which
    cards, and has /metrics ask for a token.
    """

    every_s: Annotated[int, Meta(ge=5, le=300)] = 30
    temperature_limit: Celsius | None = None
    memory_temperature_limit: Celsius | None = None
    holders: bool = False

    @property
    def heat_limits(self) -> HeatLimits:
        return HeatLimits(self.temperature_limit, self.memory_temperature_limit)
