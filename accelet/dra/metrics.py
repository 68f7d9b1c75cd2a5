"""What drivers count."""

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram


class DraMetrics:
    """The metrics of all drivers of one process."""

    def __init__(self, registry: CollectorRegistry) -> None:
        driver = ["driver_name"]
        self.prepare_seconds = Histogram(
            "accelet_dra_prepare_duration_seconds",
            "Time of one NodePrepareResources call.",
            driver,
            buckets=(0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0, 30.0),
            registry=registry,
        )
        self.refused = Counter(
            "accelet_dra_refused_claims_total",
            "Claims that could not be prepared.",
            driver,
            registry=registry,
        )
        self.prepared = Gauge(
            "accelet_dra_prepared_claims", "Claims that are prepared on this node.", driver, registry=registry
        )
        self.unpublished = Gauge(
            "accelet_dra_unpublished_devices",
            "Devices that are left out of slices.",
            driver,
            registry=registry,
        )
