"""What the task controller counts."""

from prometheus_client import CollectorRegistry, Counter, Gauge


class TaskMetrics:
    """The task controller's own series, in `registry`."""

    def __init__(self, registry: CollectorRegistry) -> None:
        def counter(name: str, text: str, *labels: str) -> Counter:
            return Counter(f"accelet_tasks_{name}", text, labels, registry=registry)

        self.tasks = Gauge("accelet_tasks", "Tasks by phase.", ("phase",), registry=registry)
        self.ended = counter("ended", "Tasks that ended.", "outcome")
        self.attempts = counter("attempts", "Jobs that were made.")
        self.writes = counter("status_writes", "Statuses that were written.")
        self.refused = counter("status_refused", "Statuses that the API server refused for good.")
        self.faults = counter("api_faults", "Requests that failed, and malformed objects.", "kind")
        self.is_leading = Gauge(
            "accelet_tasks_leading", "1 while this replica carries tasks out.", registry=registry
        )
