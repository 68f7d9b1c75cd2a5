"""An API server in this process that works: versions, pages, watches, patches, faults on demand.

For tests, and for demos without a cluster. It takes objects of every group, version and plural. What it has
behaves as a real API server does, and contract tests hold it to one. It does not have:

- discovery, OpenAPI, protobuf, tables; RBAC and admission (`state.validate` checks objects, by plural);
- schemas: fields that are unknown or of a wrong type are stored, and nothing is defaulted;
- strategic merge: such a patch is taken for a merge patch, so that its lists replace whole lists;
- owners of fields: an apply creates or merges, and what it no longer names stays;
- kubelets: no pod runs, and its log is what `logs` has of it;
- grace periods: a pod that is deleted is gone at once, unless it has finalizers;
- selectors of disruption budgets by `matchExpressions`, and the controller that keeps their status;
- controllers: no Job makes pods, and no garbage is collected unless `state.collects_garbage` is set.
"""

from accelet.fakeapi.faults import Answer, Drop, Fault, Hang, HoldBack
from accelet.fakeapi.handler import SeenRequest
from accelet.fakeapi.lifecycle import Json
from accelet.fakeapi.server import FakeApi
from accelet.fakeapi.state import RefusedError

__all__ = ["Answer", "Drop", "FakeApi", "Fault", "Hang", "HoldBack", "Json", "RefusedError", "SeenRequest"]
