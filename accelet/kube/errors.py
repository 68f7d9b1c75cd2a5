"""What can go wrong between us and the API server.

KubeError                   base of all
├── QuantityError           a text is no quantity
├── MalformedObjectError    one object, or a whole answer, is not what the API promises
├── ConfigurationError      no usable kubeconfig or service account
├── UnavailableError        no answer: refused, reset, timed out, TLS; sent again later it may work
└── ApiError                the API server answered, and said no
    ├── UnauthorizedError   401: the credentials are not accepted, even when read afresh
    ├── ForbiddenError      403: RBAC or an admission policy does not allow it
    │   └── EndingError     403: its namespace is being deleted, and nothing more is made in it
    ├── NotFoundError       404
    ├── ConflictError       409: changed by somebody else
    │   └── ExistsError     409: an object of this name is already there
    ├── GoneError           410: this resource version or continue token is too old
    ├── InvalidError        400, 413, 415 or 422: refused for what it says; sent again it fails again. And 500
    │                       where an object is too large for the API server's database
    ├── TooManyError        429: asked to come back later
    └── ServerError         5xx: the API server's own trouble
"""


class KubeError(Exception):
    """Base of this package's errors. The text is a sentence without credentials in it."""


class QuantityError(KubeError):
    """A text is no Kubernetes quantity."""


class MalformedObjectError(KubeError):
    """An object is not what the API promises; other objects are unaffected.

    `field` is a path such as `spec.containers[0].name`, empty where the whole object is unreadable.
    """

    def __init__(self, kind: str, namespace: str, name: str, field: str, problem: str) -> None:
        self.kind, self.namespace, self.name = kind, namespace, name
        self.field, self.problem = field, problem
        where = "/".join(part for part in (namespace, name) if part) or "without a name"
        super().__init__(f"{kind} {where}: {field + ': ' if field else ''}{problem}")


class ObjectFaultError(KubeError):
    """One object could not be taken over, by a fault of ours; other objects are unaffected."""


class ConfigurationError(KubeError):
    """There is no usable way to the API server: no kubeconfig, no service account, an unreadable one."""


class UnavailableError(KubeError):
    """The API server gave no whole answer; whether a write was done is not known."""


class ApiError(KubeError):
    """The API server answered with an error.

    `status` is the HTTP code, `reason` the API's word for it (`AlreadyExists`), `causes` the fields it
    names, each as `field: message`. `retry_after_s` is set where the server asks for patience.
    """

    def __init__(
        self,
        request: str,
        status: int,
        reason: str,
        message: str,
        *,
        causes: tuple[str, ...] = (),
        retry_after_s: float | None = None,
    ) -> None:
        self.status, self.reason, self.message = status, reason, message
        self.causes, self.retry_after_s = causes, retry_after_s
        super().__init__(
            f"{request}: {status} {reason}: {message}" if message else f"{request}: {status} {reason}"
        )


class UnauthorizedError(ApiError): ...


class ForbiddenError(ApiError): ...


class EndingError(ForbiddenError): ...


class NotFoundError(ApiError): ...


class ConflictError(ApiError): ...


class ExistsError(ConflictError): ...


class GoneError(ApiError): ...


class InvalidError(ApiError): ...


class TooManyError(ApiError): ...


class ServerError(ApiError): ...


def is_refusal(error: Exception | None) -> bool:
    """Whether the same request will get the same answer until somebody changes something."""
    return isinstance(error, ApiError) and not isinstance(
        error, GoneError | TooManyError | ServerError | ConflictError
    )
