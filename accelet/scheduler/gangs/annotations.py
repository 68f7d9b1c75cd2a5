"""What the pods of a gang say of it in their annotations."""

import re
from collections.abc import Sequence

from accelet.kube.pods import Pod
from accelet.runtime.excerpts import excerpt

_NUMBER = re.compile(r"0{0,9}[1-9][0-9]{0,5}")


class Said:
    """Reads annotations that all pods of a gang, or of a pod set of it, must agree on.

    `whose` names them for people. Keeps the first objection.
    """

    def __init__(self, pods: Sequence[Pod], whose: str = "the gang") -> None:
        self._pods = pods
        self.whose = whose
        self.objection: str | None = None

    def object_to(self, objection: str) -> None:
        self.objection = self.objection or objection

    def one(self, name: str) -> str | None:
        values = {pod.annotations[name]: pod for pod in self._pods if name in pod.annotations}
        if len(values) > 1:
            (one, first), (two, second), *_ = values.items()
            self.object_to(
                f"{name} is {excerpt(one)} on pod {first.name} and {excerpt(two)} on pod {second.name}: "
                f"the pods of {'a gang' if self.whose == 'the gang' else self.whose} must agree"
            )
        return next(iter(values), None)

    def number(self, name: str) -> int | None:
        text = self.one(name)
        if text is None:
            return None
        if not _NUMBER.fullmatch(text):
            self.object_to(f"{name} is {excerpt(text)}, not a number of pods")
            return None
        return int(text)

    def truth(self, name: str) -> bool:
        text = self.one(name)
        if text not in (None, "true", "false"):
            self.object_to(f'{name} is {excerpt(text)}, neither "true" nor "false"')
        return text == "true"
