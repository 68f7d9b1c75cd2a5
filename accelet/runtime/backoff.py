"""How long to wait before the next try."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Backoff:
    """Waits that double from `first_s` to `most_s`; immutable, each step gives the next one."""

    first_s: float
    most_s: float
    tries: int = 0

    @property
    def wait_s(self) -> float:
        exponent = min(self.tries, 32)
        return min(self.first_s * float(2**exponent), self.most_s)

    def failed(self) -> "Backoff":
        """The backoff after one more failure."""
        return Backoff(self.first_s, self.most_s, self.tries + 1)

    def worked(self) -> "Backoff":
        """The backoff after a success."""
        return Backoff(self.first_s, self.most_s)
