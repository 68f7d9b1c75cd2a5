"""The terms of elections in tests."""

from typing import Final

from accelet.control.lease import Terms

STEADY: Final = Terms(retry_s=0.1)
"""Leads through stalls of a busy machine; who ends gives the lease back, and is followed at once."""

QUICK: Final = Terms(duration_s=1, renew_within_s=0.7, retry_s=0.1)
"""For tests in which a leader dies: it is followed after a second."""
