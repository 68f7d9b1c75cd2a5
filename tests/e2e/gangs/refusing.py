"""A webhook that lets nobody lift the gates of some pods, at random and anew each time."""

import json
import ssl
import threading
from base64 import b64encode
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from random import Random
from typing import Any, Final

from tests.e2e.cluster.control_plane import ControlPlane
from tests.free_ports import LOOPBACK

PATH: Final = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"
LABEL: Final = "example.com/refusing"
"""Of the namespaces for which it is asked."""

_LIFTED = "size(oldObject.spec.?schedulingGates.orValue([])) > size(object.spec.?schedulingGates.orValue([]))"


class Webhook:
    """Refuses a `rate` of what it is asked about."""

    def __init__(self, chance: Random, rate: float) -> None:
        self._chance, self._rate = chance, rate
        self.asked = self.refused = 0

    def judge(self, request: dict[str, Any]) -> dict[str, Any]:
        self.asked += 1
        is_allowed = self._chance.random() >= self._rate
        self.refused += not is_allowed
        answer: dict[str, Any] = {"uid": request["request"]["uid"], "allowed": is_allowed}
        if not is_allowed:
            answer["status"] = {"message": "not now", "code": 403}
        return {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": answer}

    @contextmanager
    def serve(self, cluster: ControlPlane) -> Iterator[None]:
        """The API server asks it meanwhile."""
        judge = self.judge

        class _Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                body = json.dumps(judge(asked)).encode()
                self.send_response(200)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                """Nobody reads a line for each pod."""

        server = ThreadingHTTPServer((LOOPBACK, 0), _Handler)
        keys = cluster.authority.issue("refusing", common_name="refusing", addresses=(f"IP:{LOOPBACK}",))
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(keys.certificate, keys.key)
        server.socket = context.wrap_socket(server.socket, server_side=True)
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            cluster.client.send("POST", PATH, _configuration(cluster, server.server_address[1]))
            yield
        finally:
            server.shutdown()
            thread.join()
            server.server_close()


def _configuration(cluster: ControlPlane, port: int) -> dict[str, Any]:
    ca = b64encode(cluster.authority.keys.certificate.read_bytes()).decode()
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["UPDATE"], "resources": ["pods"]}
    webhook = {
        "name": "refusing.example.com",
        "clientConfig": {"url": f"https://{LOOPBACK}:{port}/", "caBundle": ca},
        "rules": [rule],
        "namespaceSelector": {"matchLabels": {LABEL: "true"}},
        "matchConditions": [{"name": "lifted", "expression": _LIFTED}],
        "failurePolicy": "Fail",
        "sideEffects": "None",
        "timeoutSeconds": 10,
        "admissionReviewVersions": ["v1"],
    }
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingWebhookConfiguration",
        "metadata": {"name": "refusing"},
        "webhooks": [webhook],
    }
