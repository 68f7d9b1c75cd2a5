"""Whether the admission policies are in force on which it rests that what is written can be believed."""

import asyncio
from collections.abc import Callable, Sequence
from typing import Final, Protocol

from accelet.kube.apiresources import ApiResource
from accelet.kube.errors import ForbiddenError, KubeError, NotFoundError
from accelet.kube.objects import RawObject, Wire, WireObject, read_object
from accelet.runtime.backoff import Backoff
from accelet.runtime.clock import SYSTEM_CLOCK, Clock
from accelet.runtime.failing import Failing
from accelet.runtime.logs import Log
from accelet.runtime.waiting import wait_for_hint

_GROUP: Final = "admissionregistration.k8s.io"
POLICIES: Final = ApiResource("ValidatingAdmissionPolicy", "validatingadmissionpolicies", _GROUP)
BINDINGS: Final = ApiResource("ValidatingAdmissionPolicyBinding", "validatingadmissionpolicybindings", _GROUP)

FIRST_S: Final = 1.0
AGAIN_S: Final = 30.0
"""From one look to the next while they are not in force, at first and at last: whole clusters ask."""

SELDOM_S: Final = 300.0
"""Once they are."""

_log = Log(__name__)


class GetApi(Protocol):
    """The request that is made; `accelet.kube.client.Client` makes it, and raises KubeError."""

    async def get(self, resource: ApiResource, namespace: str | None, name: str) -> bytes: ...


class _WireSpec(Wire, frozen=True):
    policy_name: str | None = None
    validation_actions: list[str] | None = None


class _WireBinding(WireObject, frozen=True):
    spec: _WireSpec | None = None


def judge_binding(raw: RawObject, name: str) -> str:
    """Why the binding does not put the policy of its name in force, empty if it does.

    Raises:
        MalformedObjectError: it is not what the API promises.
    """
    spec = read_object(raw, BINDINGS.kind, _WireBinding).spec or _WireSpec()
    if spec.policy_name != name:
        return f"the {BINDINGS.kind} {name} binds another policy"
    if "Deny" not in (spec.validation_actions or ()):
        return f"the {BINDINGS.kind} {name} does not refuse (validationActions: [Deny])"
    return ""


class Reliance:
    """Says whether each policy is there, and its binding of the same name refuses what it forbids.

    What was once in force stays believed: to look again only tells people. Until then everybody waits who
    must not act on what a stranger may have written.
    """

    def __init__(
        self, names: Sequence[str], tell: Callable[[bool], None], *, clock: Clock = SYSTEM_CLOCK
    ) -> None:
        """`tell` is told after each look whether they are in force."""
        self._names, self._tell, self._clock = names, tell, clock
        self._problem = "nobody has looked yet"
        self._seen, self._looked = asyncio.Event(), asyncio.Event()
        self._failing = Failing(
            _log,
            "policies are not in force; what they guard is not believed",
            "policies are in force",
            tells_each=True,
        )

    @property
    def doubt(self) -> str:
        """Why what the policies guard is not believed, in words; empty once they were in force."""
        return "" if self._seen.is_set() else self._problem

    async def doubt_within(self, seconds: float) -> str:
        """The same, after the first look or so many seconds."""
        await wait_for_hint(self._looked, seconds, self._clock)
        return self.doubt

    async def in_force(self) -> None:
        """Waits until they have been seen in force once."""
        await self._seen.wait()

    async def run(self, api: GetApi) -> None:
        """Looks again and again, until it is cancelled."""
        backoff = Backoff(first_s=FIRST_S, most_s=AGAIN_S)
        while True:
            self._note(await self._look(api))
            wait_s = backoff.wait_s if self._problem else SELDOM_S
            backoff = backoff.failed() if self._problem else backoff.worked()
            await self._clock.sleep(wait_s)

    async def _look(self, api: GetApi) -> str:
        for name in self._names:
            try:
                problem = await self._look_at(api, name)
            except KubeError as error:
                return f"cannot be told: {error}"
            if problem:
                return problem
        return ""

    async def _look_at(self, api: GetApi, name: str) -> str:
        for resource in (POLICIES, BINDINGS):
            try:
                raw = await api.get(resource, None, name)
            except NotFoundError:
                return f"there is no {resource.kind} {name}: apply deploy/policies"
            except ForbiddenError:
                return f"the right to get the {resource.kind} {name} is missing: apply deploy/ again"
        return judge_binding(raw, name)

    def _note(self, problem: str) -> None:
        self._problem = problem
        if problem:
            self._failing.failed(problem)
        else:
            self._failing.worked()
            self._seen.set()
        self._looked.set()
        self._tell(problem == "")
