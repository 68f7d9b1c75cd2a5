"""Rules between the devices of one claim: they share an attribute, or differ in it (constraint.go)."""

from abc import ABC, abstractmethod
from collections.abc import Sequence

from accelet.claims.requests import Constraint, DeviceRequest, Exactly
from accelet.claims.slices import Attribute, ListedDevice


def concerns(constraint: Constraint, request: DeviceRequest, choice: Exactly) -> bool:
    """Whether the constraint is about devices of this request; its name stands for all its alternatives."""
    names = {request.name, f"{request.name}/{choice.name}"} if request.is_list else {request.name}
    return not constraint.requests or bool(constraint.requests & names)


class Rule(ABC):
    """One constraint, while devices are added to a claim and taken away again, the last first."""

    def __init__(self, constraint: Constraint) -> None:
        self.constraint = constraint
        self._count = 0

    def add(self, request: DeviceRequest, choice: Exactly, device: ListedDevice) -> bool:
        """Whether the device may be added; then it is."""
        if not concerns(self.constraint, request, choice):
            return True
        found = device.attribute(self.constraint.attribute or "")
        if found is None or (self._count and not self._agrees(found)):
            return False
        self._count += 1
        self._keep(request, found)
        return True

    def remove(self, request: DeviceRequest, choice: Exactly) -> None:
        if concerns(self.constraint, request, choice):
            self._count -= 1
            self._forget(request)

    @abstractmethod
    def _agrees(self, attribute: Attribute) -> bool: ...

    @abstractmethod
    def _keep(self, request: DeviceRequest, attribute: Attribute) -> None: ...

    @abstractmethod
    def _forget(self, request: DeviceRequest) -> None: ...


class _Alike(Rule):
    def __init__(self, constraint: Constraint) -> None:
        super().__init__(constraint)
        self._value: Attribute | None = None

    def _agrees(self, attribute: Attribute) -> bool:
        return attribute.kind != "unknown" and attribute == self._value

    def _keep(self, request: DeviceRequest, attribute: Attribute) -> None:
        if self._count == 1:
            self._value = attribute

    def _forget(self, request: DeviceRequest) -> None:
        pass


class _Distinct(Rule):
    """kube-scheduler 1.36 remembers one device a request, the last: of three, the first two may be alike."""

    def __init__(self, constraint: Constraint) -> None:
        super().__init__(constraint)
        self._values: dict[str, Attribute] = {}

    def _agrees(self, attribute: Attribute) -> bool:
        if attribute.kind == "unknown":
            return not self._values
        return attribute not in self._values.values()

    def _keep(self, request: DeviceRequest, attribute: Attribute) -> None:
        self._values[request.name] = attribute

    def _forget(self, request: DeviceRequest) -> None:
        self._values.pop(request.name, None)


def rules_of(constraints: Sequence[Constraint]) -> list[Rule]:
    return [_Distinct(one) if one.is_distinct else _Alike(one) for one in constraints]
