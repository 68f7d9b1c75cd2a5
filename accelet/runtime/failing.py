"""What fails again and again is said once, and said once more when it ends."""

from accelet.runtime.logs import Level, Log


class Failing:
    """One thing that may fail: `fails` is logged when it begins to, `works` when it works again.

    With `tells_each`, a failure is logged again when its reason is another one.
    """

    def __init__(
        self,
        log: Log,
        fails: str,
        works: str | None = None,
        *,
        level: Level = "warning",
        tells_each: bool = False,
        named: str = "error",
    ) -> None:
        """`named` is the name under which the reason stands in the line of the log."""
        self._log, self._fails, self._works = log, fails, works
        self._level, self._tells_each, self._named = level, tells_each, named
        self._reason: str | None = None

    @property
    def is_failing(self) -> bool:
        return self._reason is not None

    def failed(self, reason: object, **values: object) -> None:
        text = str(reason)
        is_news = self._reason is None or (self._tells_each and text != self._reason)
        self._reason = text
        if is_news:
            self._log.write(self._level, self._fails, **{self._named: text}, **values)

    def worked(self) -> None:
        if self._reason is not None and self._works is not None:
            self._log.info(self._works)
        self._reason = None
