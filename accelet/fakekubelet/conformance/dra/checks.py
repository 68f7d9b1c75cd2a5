"""All checks of DRA drivers, in the order in which they are run."""

from typing import Final

from accelet.fakekubelet.conformance.dra.preparing import PREPARING
from accelet.fakekubelet.conformance.dra.publishing import PUBLISHING
from accelet.fakekubelet.conformance.dra.registering import REGISTERING_DRIVERS

DRA_CHECKS: Final = (*REGISTERING_DRIVERS, *PUBLISHING, *PREPARING)
