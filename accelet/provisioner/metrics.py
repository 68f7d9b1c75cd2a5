"""What the provisioner counts."""

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram


class ProvisionerMetrics:
    """The provisioner's own series, in `registry`."""

    def __init__(self, registry: CollectorRegistry) -> None:
        def counter(name: str, text: str, *labels: str) -> Counter:
            return Counter(f"accelet_provisioner_{name}", text, labels, registry=registry)

        def gauge(name: str, text: str, *labels: str) -> Gauge:
            return Gauge(f"accelet_provisioner_{name}", text, labels, registry=registry)

        seconds = (1, 5, 15, 60, 180, 600, 1800, 3600)
        self.slices = gauge("slices", "Slice requests by phase.", "phase")
        self.problems = gauge(
            "slices_with_condition", "Slice requests of which something is found, by condition.", "condition"
        )
        self.attempts = counter("attempts", "Attempts that ended.", "outcome")
        self.ready_seconds = Histogram(
            "accelet_provisioner_ready_seconds",
            "From an attempt's begin until its slice was ready.",
            buckets=seconds,
            registry=registry,
        )
        self.in_flight = gauge("operations_in_flight", "Pools that are being made or deleted.")
        self.calls = counter("provider_calls", "Requests to the provider.", "call", "outcome")
        self.foreign = gauge("foreign_pools", "Pools that are not ours.")
        self.faults = counter("api_faults", "Requests that failed, and malformed objects.", "kind")
        self.is_leading = gauge("leading", "1 while this replica provisions.")
