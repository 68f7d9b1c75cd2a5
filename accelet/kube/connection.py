"""The `kubernetes` package at work: configuration, credentials, TLS, and one blocking request at a time.

Imported only where an API server is needed: the package costs about 20 MiB.
"""

import io
import socket
import ssl
import threading
import time
from collections.abc import Callable
from typing import Any
from urllib.parse import urlencode

import urllib3
from kubernetes.client import ApiClient, Configuration
from kubernetes.config import ConfigException, load_incluster_config, load_kube_config_from_dict
from urllib3.connection import HTTPConnection
from urllib3.exceptions import HTTPError, ReadTimeoutError
from urllib3.util.ssl_ import create_urllib3_context

from accelet import __version__
from accelet.kube.answers import api_error
from accelet.kube.apiresources import ApiRequest, ClusterName
from accelet.kube.errors import ConfigurationError, UnauthorizedError, UnavailableError
from accelet.kube.kubeconfig import Kubeconfig, read_kubeconfig

LoadApi = Callable[[], Any]
"""Makes a `kubernetes.client.ApiClient` from files as they are now; may raise ConfigurationError."""

_CONNECT_S = 5.0
_RELOAD_EVERY_S = 5.0
_KEPT_CONNECTIONS = 64
_READ_BYTES = 1 << 16
_LONGEST_LINE = 1 << 24

# A peer that is gone without a word (a node switched off, a forgotten NAT entry) is noticed in a minute.
_KEEPALIVE = [
    *HTTPConnection.default_socket_options,
    (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1),
    (socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, 30),
    (socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, 10),
    (socket.IPPROTO_TCP, socket.TCP_KEEPCNT, 3),
]


def load_api(kubeconfig: Kubeconfig | None) -> Any:
    """The package's client for a kubeconfig, or for the service account of this pod where it is None.

    Raises:
        ConfigurationError: there is none, or it cannot be read. Its text quotes nothing of the file.
    """
    configuration = Configuration()
    if kubeconfig is None:
        try:
            load_incluster_config(client_configuration=configuration)
        except (ConfigException, OSError) as error:
            said = error.strerror if isinstance(error, OSError) else error
            raise ConfigurationError(f"no service account in this pod: {said}") from None
    else:
        _load_file(kubeconfig, configuration)
    configuration.socket_options = _KEEPALIVE
    configuration.connection_pool_maxsize = _KEPT_CONNECTIONS
    if not configuration.verify_ssl:
        # The kubeconfig says so (insecure-skip-tls-verify). A line of log at each request helps nobody.
        urllib3.disable_warnings(urllib3.exceptions.InsecureRequestWarning)
    api = ApiClient(configuration)
    api.rest_client.pool_manager.connection_pool_kw["ssl_context"] = _trust(configuration)
    return api


def _load_file(kubeconfig: Kubeconfig, configuration: Any) -> None:
    merged = read_kubeconfig(kubeconfig)
    try:
        load_kube_config_from_dict(
            dict(merged.document), client_configuration=configuration, persist_config=False
        )
    except ConfigException as error:
        raise ConfigurationError(f"kubeconfig {kubeconfig}, context {merged.context}: {error}") from None
    except OSError as error:
        raise ConfigurationError(
            f"kubeconfig {kubeconfig}, context {merged.context}: {error.strerror}"
        ) from None
    except (ValueError, KeyError, TypeError, AttributeError):
        # The package takes the form for granted: these are all that it says of another one.
        raise ConfigurationError(
            f"kubeconfig {kubeconfig}: context {merged.context}, its cluster or its user is not in the form "
            "that kubectl writes; 'kubectl config view --minify' shows what kubectl reads of it"
        ) from None


def name_cluster(kubeconfig: Kubeconfig | None) -> ClusterName:
    """What a client of this kubeconfig talks to; nothing is asked of the API server.

    Raises:
        ConfigurationError: as of `load_api`.
    """
    api = load_api(kubeconfig)
    server = str(api.configuration.host)
    api.close()
    if kubeconfig is None:
        return ClusterName("", "", server)
    merged = read_kubeconfig(kubeconfig)
    return ClusterName(merged.context, merged.cluster, server)


def _trust(configuration: Any) -> ssl.SSLContext:
    """What server is believed: one with a certificate for its name, by the authority that is configured.

    From Python 3.13 on, certificates are held to RFC 5280 to the letter too (VERIFY_X509_STRICT). The
    authorities of many clusters are not ("CA cert does not include key usage extension"; EKS, older GKE,
    microk8s), and kubectl, as all of Go, does not ask for it either. That alone is taken back.
    """
    context = create_urllib3_context(
        cert_reqs=ssl.CERT_REQUIRED if configuration.verify_ssl else ssl.CERT_NONE
    )
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    has_own_authority = configuration.ssl_ca_cert or configuration.ca_cert_data
    is_plain = str(configuration.host).lower().startswith("http:")  # shows no certificate
    if configuration.verify_ssl and not has_own_authority and not is_plain:  # else 20 ms for nothing
        context.load_default_certs()
    return context


_PART_BYTES = 2**16


class Connection:
    """Blocking requests with the package's credentials; safe to share between threads."""

    def __init__(self, load: LoadApi) -> None:
        self._load = load
        self._lock = threading.Lock()
        self._api = load()
        self._loaded_s = time.monotonic()

    def send(self, request: ApiRequest) -> bytes:
        """The body of a 2xx answer. On 401, credentials are read afresh and the request is made again once.

        It is read in parts: at once it would take four times its size, of which a tenant may have a say.

        Raises:
            ApiError: the API server refused. UnavailableError: it did not answer. ConfigurationError.
        """
        response = self.begin(request)
        try:
            # Grows in place, and is handed out without a copy.
            body = io.BytesIO()
            body.writelines(response.stream(_PART_BYTES))
            return body.getvalue()
        except (HTTPError, OSError) as error:
            raise _unavailable(request, error) from None
        finally:
            response.release_conn()

    def begin(self, request: ApiRequest) -> urllib3.BaseHTTPResponse:
        """As `send`, up to the answer's headers: the body is still to be read by the caller."""
        api = self._api
        try:
            return self._begin(api, request)
        except UnauthorizedError:
            if not self._reload(api):
                raise
            return self._begin(self._api, request)

    def close(self) -> None:
        self._api.close()

    def _begin(self, api: Any, request: ApiRequest) -> urllib3.BaseHTTPResponse:
        query = f"?{urlencode(request.query)}" if request.query else ""
        try:
            response: urllib3.BaseHTTPResponse = api.rest_client.pool_manager.request(
                request.method,
                f"{api.configuration.host}{request.path}{query}",
                body=request.body,
                headers=self._headers(api, request),
                timeout=urllib3.Timeout(connect=_CONNECT_S, read=request.silence_s),
                retries=False,
                redirect=False,
                preload_content=False,
            )
            if 200 <= response.status < 300:
                return response
            body = bytes(response.read())
        except (HTTPError, OSError) as error:
            raise _unavailable(request, error) from None
        response.release_conn()
        raise api_error(str(request), response.status, body, response.headers.get("Retry-After"))

    def _headers(self, api: Any, request: ApiRequest) -> dict[str, str]:
        headers = {"Accept": request.accept, "User-Agent": f"accelet/{__version__}"}
        if request.body is not None:
            headers["Content-Type"] = request.content_type
        with self._lock:  # the package reads tokens afresh in here, which is not safe for threads
            try:
                settings = api.configuration.auth_settings().values()
            except (ConfigException, OSError) as error:
                raise ConfigurationError(f"credentials cannot be read ({type(error).__name__})") from None
        return headers | {auth["key"]: auth["value"] for auth in settings if auth["value"]}

    def _reload(self, refused: Any) -> bool:
        """Whether there are other credentials than the refused ones to try."""
        with self._lock:
            if self._api is not refused:
                return True
            now_s = time.monotonic()
            if now_s - self._loaded_s < _RELOAD_EVERY_S:
                return False
            self._loaded_s = now_s
            # The refused one is not closed: other threads may be reading from it. It goes with the last.
            self._api = self._load()
            return True


class LineStream:
    """The lines of one long answer. `open` and `read` block, on one thread; `stop` is for any thread."""

    def __init__(self, connection: Connection, request: ApiRequest) -> None:
        self._connection, self._request = connection, request
        self._response: urllib3.BaseHTTPResponse | None = None
        self._rest = b""
        self._lock = threading.Lock()
        self._is_stopped = False

    def open(self) -> None:
        """Waits for the answer's headers. Raises what `Connection.send` raises."""
        response = self._connection.begin(self._request)
        with self._lock:
            self._response = response
            if self._is_stopped:
                response.close()

    def read(self) -> list[bytes]:
        """At least one whole line, or nothing at the end of the answer.

        Nothing for the request's `silence_s` is an end too. Whether the API server is still there, nobody
        knows then: to ask it again tells.

        Raises:
            UnavailableError: the connection broke.
        """
        while data := self.read_bytes():
            *lines, self._rest = (self._rest + data).split(b"\n")
            if lines:
                return lines
            if len(self._rest) > _LONGEST_LINE:
                raise UnavailableError(f"{self._request}: a line longer than {_LONGEST_LINE} bytes")
        return []

    def read_bytes(self) -> bytes:
        """At most 64 KiB of what comes, lines or not; nothing at the end, as of `read`.

        Raises:
            UnavailableError: the connection broke.
        """
        if self._response is None or self._is_stopped:
            return b""
        try:
            return bytes(self._response.read1(_READ_BYTES, decode_content=False))
        except (HTTPError, OSError, ValueError) as error:
            if self._is_stopped or isinstance(error, ReadTimeoutError):
                return b""
            raise _unavailable(self._request, error) from None

    def stop(self) -> None:
        """Ends a `read` that is under way, and all later ones."""
        with self._lock:
            self._is_stopped = True
            if self._response is not None and not self._response.closed:
                try:
                    self._response.shutdown()
                except (ValueError, RuntimeError, OSError):
                    return  # it has ended by itself in this moment

    def close(self) -> None:
        """Gives the connection back; on the reading thread, after its last `read`."""
        if self._response is not None:
            self._response.close()


def _unavailable(request: ApiRequest, error: Exception) -> UnavailableError:
    # Only the kind of the fault and the system's own words: nothing of headers or URLs.
    cause: BaseException | None = error
    while cause is not None and not isinstance(cause, OSError):
        cause = cause.__cause__ or cause.__context__
    words = cause.strerror if isinstance(cause, OSError) and cause.strerror else ""
    return UnavailableError(f"{request}: {type(error).__name__}{': ' + words if words else ''}")
