"""What every service on a node counts, whatever it serves its devices by."""

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram


class NodeMetrics:
    """The metrics of scans, of faults, and of what is said and read at the API server."""

    def __init__(self, registry: CollectorRegistry) -> None:
        resource = ["resource"]
        self.skipped = Gauge(
            "accelet_skipped_candidates",
            "Hardware seen that cannot be served; not what is left to other resources.",
            resource,
            registry=registry,
        )
        self.warnings = Gauge(
            "accelet_discovery_warnings",
            "Contradictions in what the last scan found.",
            resource,
            registry=registry,
        )
        self.unanswered = Gauge(
            "accelet_hardware_unanswered",
            "Cards, chips and paths of which a read has not ended; scans go on without them.",
            resource,
            registry=registry,
        )
        self.scan_seconds = Histogram(
            "accelet_discovery_duration_seconds",
            "Time of one scan.",
            resource,
            buckets=(0.001, 0.005, 0.025, 0.1, 0.5, 2.0, 10.0),
            registry=registry,
        )
        self.scan_failures = Counter(
            "accelet_discovery_failures_total",
            "Scans that failed as a whole.",
            resource,
            registry=registry,
        )
        self.faults = Counter(
            "accelet_faults_total",
            "Calls that failed by a fault of the agent.",
            resource,
            registry=registry,
        )
        self.watch_failures = Counter(
            "accelet_pod_watch_failures_total",
            "Failures to watch this node's pods at the API server.",
            registry=registry,
        )
        self.node_failures = Counter(
            "accelet_node_read_failures_total",
            "Failures to read this Node's labels at the API server.",
            registry=registry,
        )
        self.policies_missing = Gauge(
            "accelet_policies_missing",
            "1 while a policy is not in force that the configuration requires.",
            registry=registry,
        )
        self.node_writes = Counter(
            "accelet_node_writes_total",
            "Changes made to this Node to publish its cards.",
            ["what"],
            registry=registry,
        )
        self.node_write_failures = Counter(
            "accelet_node_write_failures_total",
            "Failures to publish the cards on this Node.",
            registry=registry,
        )
        self.feature_file_failures = Counter(
            "accelet_feature_file_failures_total",
            "Failures to keep the feature file for Node Feature Discovery.",
            registry=registry,
        )

    def of(self, resource: str) -> "ServiceMetrics":
        return ServiceMetrics(self, resource)


class ServiceMetrics:
    """The metrics of one resource."""

    def __init__(self, metrics: NodeMetrics, resource: str) -> None:
        self._all = metrics
        self._resource = resource

    def count_fault(self) -> None:
        self._all.faults.labels(self._resource).inc()

    def set_found(self, *, skipped: int, warnings: int, unanswered: int) -> None:
        self._all.unanswered.labels(self._resource).set(unanswered)
        self._all.skipped.labels(self._resource).set(skipped)
        self._all.warnings.labels(self._resource).set(warnings)

    def observe_scan(self, seconds: float) -> None:
        self._all.scan_seconds.labels(self._resource).observe(seconds)

    def count_scan_failure(self) -> None:
        self._all.scan_failures.labels(self._resource).inc()

    def forget(self) -> None:
        """The resource is configured no more: its gauges must not stand still for ever."""
        self._all.skipped.remove(self._resource)
        self._all.warnings.remove(self._resource)
        self._all.unanswered.remove(self._resource)
