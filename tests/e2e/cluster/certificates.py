"""The cluster's own certificate authority, made with the openssl command."""

import subprocess
from dataclasses import dataclass
from pathlib import Path

DAYS_VALID = "30"


@dataclass(frozen=True, slots=True)
class KeyPair:
    """Two PEM files: a private key, and the certificate (or the bare public key) that belongs to it."""

    key: Path
    certificate: Path


@dataclass(frozen=True, slots=True)
class Authority:
    """Signs certificates with a key that lives in this run's folder only."""

    folder: Path
    keys: KeyPair

    @classmethod
    def create(cls, folder: Path) -> "Authority":
        folder.mkdir(parents=True)
        keys = KeyPair(folder / "ca.key", folder / "ca.crt")
        _openssl(
            *_new_key(keys.key),
            *("-x509", "-days", DAYS_VALID, "-subj", "/CN=accelet-e2e-ca", "-out", keys.certificate),
        )
        return cls(folder, keys)

    def issue(
        self, name: str, *, common_name: str, organization: str = "", addresses: tuple[str, ...] = ()
    ) -> KeyPair:
        """A certificate good for both ends of a connection: Kubernetes reads CN as user and O as group.

        `addresses` are subjectAltName entries, "IP:127.0.0.1" or "DNS:localhost".
        """
        keys = KeyPair(self.folder / f"{name}.key", self.folder / f"{name}.crt")
        subject = (f"/O={organization}" if organization else "") + f"/CN={common_name}"
        names = ("-addext", f"subjectAltName={','.join(addresses)}") if addresses else ()
        _openssl(
            *_new_key(keys.key),
            *("-x509", "-CA", self.keys.certificate, "-CAkey", self.keys.key),
            *("-days", DAYS_VALID, "-subj", subject, *names, "-out", keys.certificate),
            *("-addext", "basicConstraints=critical,CA:FALSE"),
            *("-addext", "extendedKeyUsage=serverAuth,clientAuth"),
        )
        return keys


def signing_keys(folder: Path, name: str) -> KeyPair:
    """A bare key pair, for signing service account tokens."""
    keys = KeyPair(folder / f"{name}.key", folder / f"{name}.pub")
    _openssl("ecparam", "-name", "prime256v1", "-genkey", "-noout", "-out", keys.key)
    _openssl("ec", "-in", keys.key, "-pubout", "-out", keys.certificate)
    return keys


def _new_key(path: Path) -> tuple[str | Path, ...]:
    return ("req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-keyout", path)


def _openssl(*arguments: str | Path) -> None:
    subprocess.run(["openssl", *arguments], check=True, capture_output=True)
