"""A fake API server that works: versions, pages, watches, patches, dry runs, and faults on demand."""

from tests.integration.kube.fakeapi.faults import Answer, Drop, Fault, Hang, Hold
from tests.integration.kube.fakeapi.handler import Seen
from tests.integration.kube.fakeapi.server import FakeApi
from tests.integration.kube.fakeapi.state import Json, RefusedError

__all__ = ["Answer", "Drop", "FakeApi", "Fault", "Hang", "Hold", "Json", "RefusedError", "Seen"]
