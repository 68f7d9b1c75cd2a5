"""The files with which a client finds the API server and proves who it is."""

import json
from dataclasses import dataclass
from pathlib import Path

from tests.e2e.cluster.certificates import KeyPair


@dataclass(frozen=True, slots=True)
class Token:
    """A bearer token."""

    text: str


def write_kubeconfig(path: Path, *, server: str, ca: Path, credentials: Token | KeyPair) -> Path:
    """Writes a kubeconfig with one cluster and one user; it is JSON, which every YAML reader takes."""
    user = (
        {"token": credentials.text}
        if isinstance(credentials, Token)
        else {"client-certificate": str(credentials.certificate), "client-key": str(credentials.key)}
    )
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "e2e", "cluster": {"server": server, "certificate-authority": str(ca)}}],
        "users": [{"name": "e2e", "user": user}],
        "contexts": [{"name": "e2e", "context": {"cluster": "e2e", "user": "e2e"}}],
        "current-context": "e2e",
    }
    path.touch(mode=0o600)
    path.write_text(json.dumps(document, indent=2))
    return path
