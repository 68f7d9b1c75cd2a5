"""Whether a pod's name can come to be another pod's."""

import re

from accelet.kube.pods import Pod

_GENERATED_NAME = re.compile(r".+-[bcdfghjklmnpqrstvwxz2456789]{5}")
_GENERATING_KINDS = frozenset({"ReplicaSet", "ReplicationController", "DaemonSet", "Job"})


def may_recur(pod: Pod) -> bool:
    """Whether another pod may come to have this name. A name with a generated suffix does not come again."""
    return not (
        _GENERATED_NAME.fullmatch(pod.name)
        and any(owner.is_controller and owner.kind in _GENERATING_KINDS for owner in pod.owners)
    )
