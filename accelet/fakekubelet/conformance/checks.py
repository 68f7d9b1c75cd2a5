"""All checks, in the order in which they are run."""

from typing import Final

from accelet.fakekubelet.conformance.allocating import ALLOCATING
from accelet.fakekubelet.conformance.giving import GIVING
from accelet.fakekubelet.conformance.listing import LISTING
from accelet.fakekubelet.conformance.registering import REGISTERING
from accelet.fakekubelet.conformance.stopping import STOPPING

CHECKS: Final = (*REGISTERING, *LISTING, *ALLOCATING, *GIVING, *STOPPING)
