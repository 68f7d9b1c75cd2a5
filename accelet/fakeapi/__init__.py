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

It may import the rows below; no process that it answers.

direct       The same requests without HTTP, on a clock: for runs that must be the same each time.
fakecluster  A cluster of one Node, for the DRA driver that `accelet conformance --dra` checks.
faults       What can be done to a request instead of answering it.
firstfit     Devices for claims by plain first fit: far less than kube-scheduler does, enough to show a driver
             at work.
handler      How the fake API server answers one request.
history =    The objects of one resource and what has happened to them, as lists and watches with selectors
             see it.
jsoncopy =   Copies of JSON: several times as fast as copy.deepcopy, which looks for what occurs twice.
lifecycle =  What an API server itself decides about an object: identity, generation, status, its end.
patches =    JSON patch (RFC 6902) and merge patch (RFC 7386), as far as an API server takes them.
paths =      What a request is about, as its path says.
podrules =   What may be changed of a pod, as Kubernetes 1.36 has it in ValidatePodUpdate
             (pkg/apis/core/validation).
reviews      Answers who somebody is and what he may do: reviews, which are answered and not stored.
selectors =  Label and field selectors.
server       The fake API server itself: HTTP on 127.0.0.1, one thread a connection.
state        The objects of a fake API server: versions, preconditions, a log of changes.
streaming    One watch: what it sends, and when it ends.
"""

from accelet.fakeapi.faults import Answer, Drop, Fault, Hang, HoldBack
from accelet.fakeapi.handler import SeenRequest
from accelet.fakeapi.lifecycle import Json
from accelet.fakeapi.server import FakeApi
from accelet.fakeapi.state import RefusedError

__all__ = ["Answer", "Drop", "FakeApi", "Fault", "Hang", "HoldBack", "Json", "RefusedError", "SeenRequest"]
