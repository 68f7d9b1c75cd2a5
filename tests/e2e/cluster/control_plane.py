"""etcd, API server, controller manager and scheduler on 127.0.0.1, each a process of its own."""

import json
import secrets
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Self

from tests.e2e.cluster.binaries import Binaries
from tests.e2e.cluster.certificates import Authority, signing_keys
from tests.e2e.cluster.https_client import Client
from tests.e2e.cluster.kubeconfig import Token, write_kubeconfig
from tests.e2e.cluster.processes import Process
from tests.e2e.cluster.waiting import wait_until
from tests.e2e.cluster.workloads import Workloads
from tests.e2e.cluster.workspace import Workspace
from tests.free_ports import LOOPBACK, free_port, free_ports

START_TIMEOUT_S = 120
SERVICE_CIDR = "10.96.0.0/24"


class ControlPlane:
    """A control plane without nodes.

    `etcd`, `api_server`, `controller_manager` and `scheduler` can be killed and started again
    by a test; every one comes back on the port it had.
    """

    def __init__(
        self,
        workspace: Workspace,
        binaries: Binaries,
        *,
        feature_gates: Mapping[str, bool] | None = None,
        api_server_flags: Sequence[str] = (),
        controller_manager_flags: Sequence[str] = (),
    ) -> None:
        self.workspace = workspace
        self.folder = workspace.folder / "control-plane"
        self.authority = Authority.create(self.folder / "certificates")
        self.admin_token = Token(secrets.token_hex(16))
        self.port, etcd_port, etcd_peer_port = free_ports(3)
        self.url = f"https://{LOOPBACK}:{self.port}"
        self.client = Client(self.url, self.admin_token, self.authority.keys.certificate)
        self.workloads = Workloads(self.client)
        self.kubeconfig = write_kubeconfig(
            self.folder / "admin.kubeconfig",
            server=self.url,
            ca=self.authority.keys.certificate,
            credentials=self.admin_token,
        )
        gates = _feature_gate_flags(feature_gates or {})
        etcd_url = f"http://{LOOPBACK}:{etcd_port}"
        self.etcd = self._process(
            binaries.path("etcd"),
            f"--data-dir={self.folder / 'etcd'}",
            f"--client-url={etcd_url}",
            f"--peer-url=http://{LOOPBACK}:{etcd_peer_port}",
        )
        self.api_server = self._process(
            binaries.path("kube-apiserver"),
            *self._api_server_flags(etcd_url),
            *gates,
            *api_server_flags,
        )
        self.controller_manager = self._process(
            binaries.path("kube-controller-manager"),
            *self._client_flags(),
            f"--service-account-private-key-file={self.folder / 'service-account.key'}",
            f"--root-ca-file={self.authority.keys.certificate}",
            "--use-service-account-credentials",
            # Its default is a folder of the machine, which it would make.
            f"--flex-volume-plugin-dir={self.folder / 'volume-plugins'}",
            *gates,
            *controller_manager_flags,
        )
        self.scheduler = self._process(binaries.path("kube-scheduler"), *self._client_flags(), *gates)

    @property
    def processes(self) -> list[Process]:
        return [self.etcd, self.api_server, self.controller_manager, self.scheduler]

    def start(self) -> None:
        """Starts all four and returns when pods can be created."""
        self.etcd.start()
        self.start_api_server()
        self.controller_manager.start()
        self.scheduler.start()
        wait_until(
            "the default service account exists",
            lambda: self.client.try_get("/api/v1/namespaces/default/serviceaccounts/default"),
            timeout_s=START_TIMEOUT_S,
            depends_on=self.processes,
        )

    def start_api_server(self) -> None:
        """Starts the API server, on the port it had before, and returns when it is ready."""
        self.api_server.start()
        wait_until(
            "the API server is ready",
            lambda: self.client.try_get("/readyz"),
            timeout_s=START_TIMEOUT_S,
            depends_on=[self.etcd, self.api_server],
        )

    def stop(self) -> None:
        """Kills all four: nothing in them is worth an orderly end."""
        for process in reversed(self.processes):
            process.kill()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _process(self, binary: Path, *flags: str) -> Process:
        log = self.folder / f"{binary.name}.log"
        return Process(self.workspace, binary.name, [binary, *flags], log=log)

    def _client_flags(self) -> list[str]:
        port = free_port()
        return [
            f"--kubeconfig={self.kubeconfig}",
            f"--authentication-kubeconfig={self.kubeconfig}",
            f"--authorization-kubeconfig={self.kubeconfig}",
            f"--bind-address={LOOPBACK}",
            f"--secure-port={port}",
            f"--cert-dir={self.folder / 'serving'}",
            "--leader-elect=false",
        ]

    def _api_server_flags(self, etcd_url: str) -> list[str]:
        tokens = self.folder / "tokens.csv"
        tokens.touch(mode=0o600)
        tokens.write_text(f'{self.admin_token.text},admin,admin,"system:masters"\n')
        serving = self.authority.issue(
            "api-server",
            common_name="kube-apiserver",
            addresses=(f"IP:{LOOPBACK}", "IP:10.96.0.1", "DNS:localhost", "DNS:kubernetes.default.svc"),
        )
        to_kubelets = self.authority.issue(
            "api-server-to-kubelets", common_name="kube-apiserver", organization="system:masters"
        )
        service_accounts = signing_keys(self.folder, "service-account")
        return [
            f"--etcd-servers={etcd_url}",
            f"--bind-address={LOOPBACK}",
            f"--secure-port={self.port}",
            # 127.0.0.1 is refused as an endpoint of the service "kubernetes", and no proxy would use it.
            "--endpoint-reconciler-type=none",
            f"--tls-cert-file={serving.certificate}",
            f"--tls-private-key-file={serving.key}",
            f"--client-ca-file={self.authority.keys.certificate}",
            f"--token-auth-file={tokens}",
            "--authorization-mode=Node,RBAC",
            "--enable-admission-plugins=NodeRestriction",
            "--allow-privileged",
            f"--service-cluster-ip-range={SERVICE_CIDR}",
            "--service-account-issuer=https://kubernetes.default.svc",
            f"--service-account-key-file={service_accounts.certificate}",
            f"--service-account-signing-key-file={service_accounts.key}",
            f"--kubelet-client-certificate={to_kubelets.certificate}",
            f"--kubelet-client-key={to_kubelets.key}",
            f"--kubelet-certificate-authority={self.authority.keys.certificate}",
            # A node's host name means nothing to anybody here.
            "--kubelet-preferred-address-types=InternalIP",
        ]


def _feature_gate_flags(gates: Mapping[str, bool]) -> list[str]:
    if not gates:
        return []
    return ["--feature-gates=" + ",".join(f"{name}={json.dumps(on)}" for name, on in sorted(gates.items()))]
