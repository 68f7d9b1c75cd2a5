"""Which resource names a kubelet takes."""

import re

_DOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_NAME = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")
_MAX_DOMAIN = 253 - len("requests.")


def explain_bad_resource_name(name: str) -> str | None:
    """Why a kubelet would refuse to register `name`; None if it would take it.

    The rule is that of extended resources (Kubernetes 1.36, pkg/apis/core/v1/helper,
    IsExtendedResourceName): a domain of ours, and a name that also stands behind `requests.` in a quota.
    """
    domain, slash, rest = name.partition("/")
    if not slash:
        return "must have a domain in front, like example.com/gpu"
    if "kubernetes.io/" in name:
        return "must not be in the domain kubernetes.io, which is Kubernetes's own"
    if domain.startswith("requests."):
        return "must not begin with 'requests.', which is what quotas put in front"
    if not _DOMAIN.fullmatch(domain) or len(domain) > _MAX_DOMAIN:
        return f"has the domain {domain!r}, which is not a lower-case DNS name up to {_MAX_DOMAIN} characters"
    if not _NAME.fullmatch(rest):
        return (
            f"has the name {rest!r}, which is not 1 to 63 letters, digits, '-', '_' and '.' "
            "that begin and end with a letter or digit"
        )
    return None
