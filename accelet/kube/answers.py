"""The API server's answers that are errors, as errors of ours."""

from collections.abc import Mapping

import msgspec

from accelet.kube.errors import (
    ApiError,
    ConflictError,
    EndingError,
    ExistsError,
    ForbiddenError,
    GoneError,
    InvalidError,
    NotFoundError,
    ServerError,
    TooManyError,
    UnauthorizedError,
)
from accelet.kube.objects import Wire

_BY_STATUS: Mapping[int, type[ApiError]] = {
    400: InvalidError,
    401: UnauthorizedError,
    403: ForbiddenError,
    404: NotFoundError,
    409: ConflictError,
    410: GoneError,
    413: InvalidError,
    415: InvalidError,
    422: InvalidError,
    429: TooManyError,
}
_ENDING = "NamespaceTerminating"
"""The cause that the API server's own check gives (plugin/pkg/admission/namespace/lifecycle)."""

_LONGEST_MESSAGE = 2048
_TOO_LARGE = "etcdserver: request is too large"
"""What the API server's database says, with the status 500, of an object that has grown beyond its bound.

Whoever made it a byte smaller than that bound has every later change of it refused.
"""


class _Cause(Wire, frozen=True):
    reason: str | None = None
    field: str | None = None
    message: str | None = None


class _Details(Wire, frozen=True):
    causes: list[_Cause] | None = None
    retry_after_seconds: int | None = None


class _Status(Wire, frozen=True):
    code: int | None = None
    reason: str | None = None
    message: str | None = None
    details: _Details | None = None


# Used on several threads, so made before there are any: see docs/decisions/0003.
_READ_STATUS = msgspec.json.Decoder(_Status)


def api_error(request: str, code: int, body: bytes, retry_after: str | None = None) -> ApiError:
    """The error for an answer of HTTP status `code`, or for a Status in a watch where `code` is 0.

    `request` says what was asked, as in `PATCH pods ml/worker-0`. A body that is no Status (a proxy's
    page, say) gives an error without the body's text.
    """
    try:
        status = _READ_STATUS.decode(body)
    except (ValueError, RecursionError):
        status = _Status()
    details = status.details or _Details()
    code = code or status.code or 500
    reason = status.reason or ""
    kind = ExistsError if reason == "AlreadyExists" else _BY_STATUS.get(code)
    if kind is ForbiddenError and any(cause.reason == _ENDING for cause in details.causes or ()):
        kind = EndingError
    if _TOO_LARGE in (status.message or ""):
        kind = InvalidError
    if kind is None:
        kind = ServerError if code >= 500 else ApiError
    wait_s = _seconds(retry_after)
    if wait_s is None and details.retry_after_seconds:
        wait_s = float(details.retry_after_seconds)
    return kind(
        request,
        code,
        reason or "Unknown",
        (status.message or "")[:_LONGEST_MESSAGE],
        causes=tuple(f"{cause.field or 'object'}: {cause.message or ''}" for cause in details.causes or ()),
        retry_after_s=wait_s,
    )


def _seconds(header: str | None) -> float | None:
    # The API server sends whole seconds; the date form of HTTP comes from proxies only and is left alone.
    return float(header) if header and header.isascii() and header.isdecimal() else None
