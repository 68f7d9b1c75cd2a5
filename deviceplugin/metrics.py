"""What the agent counts, in a registry of its own."""

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

import accelet


class Metrics:
    """All metrics of one agent process."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        resource = ["resource"]
        self.devices = Gauge(
            "accelet_devices", "Devices listed to the kubelet.", [*resource, "health"], registry=self.registry
        )
        self.skipped = Gauge(
            "accelet_skipped_candidates", "Hardware seen and not served.", resource, registry=self.registry
        )
        self.warnings = Gauge(
            "accelet_discovery_warnings",
            "Contradictions in what the last scan found.",
            resource,
            registry=self.registry,
        )
        self.registered = Gauge(
            "accelet_registered",
            "Whether the kubelet holds our ListAndWatch stream.",
            resource,
            registry=self.registry,
        )
        self.registrations = Counter(
            "accelet_registrations_total", "Register calls.", [*resource, "outcome"], registry=self.registry
        )
        self.endings = Counter(
            "accelet_registration_ends_total",
            "Registrations that ended, by cause.",
            [*resource, "cause"],
            registry=self.registry,
        )
        self.allocations = Counter(
            "accelet_allocations_total",
            "Allocate calls, by outcome (given, or why refused).",
            [*resource, "outcome"],
            registry=self.registry,
        )
        self.allocate_seconds = Histogram(
            "accelet_allocate_duration_seconds",
            "Time to answer Allocate.",
            resource,
            buckets=(0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.5, 2.0),
            registry=self.registry,
        )
        self.repeated = Counter(
            "accelet_repeated_allocations_total",
            "Devices given while the kubelet's records gave them to some container already.",
            resource,
            registry=self.registry,
        )
        self.matches = Counter(
            "accelet_matches_total",
            "Allocate calls of resources with assignments, by how their container was found.",
            [*resource, "proof"],
            registry=self.registry,
        )
        self.match_seconds = Histogram(
            "accelet_match_duration_seconds",
            "Time to find out which container a call is for.",
            resource,
            buckets=(0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.5, 2.0),
            registry=self.registry,
        )
        self.settled = Counter(
            "accelet_answers_settled_total",
            "Answers, by what the kubelet's records said of them afterwards.",
            [*resource, "outcome"],
            registry=self.registry,
        )
        self.deviations = Counter(
            "accelet_assignment_deviations_total",
            "Containers whose assignment could not simply be followed, by kind.",
            [*resource, "kind"],
            registry=self.registry,
        )
        self.watch_failures = Counter(
            "accelet_pod_watch_failures_total",
            "Failures to watch this node's pods at the API server.",
            registry=self.registry,
        )
        self.node_failures = Counter(
            "accelet_node_read_failures_total",
            "Failures to read this Node's labels at the API server.",
            registry=self.registry,
        )
        self.node_writes = Counter(
            "accelet_node_writes_total",
            "Changes made to this Node to publish its cards.",
            ["what"],
            registry=self.registry,
        )
        self.node_write_failures = Counter(
            "accelet_node_write_failures_total",
            "Failures to publish the cards on this Node.",
            registry=self.registry,
        )
        self.feature_file_failures = Counter(
            "accelet_feature_file_failures_total",
            "Failures to keep the feature file for Node Feature Discovery.",
            registry=self.registry,
        )
        self.faults = Counter(
            "accelet_faults_total",
            "Calls that failed by a fault of the agent.",
            resource,
            registry=self.registry,
        )
        self.health_changes = Counter(
            "accelet_health_transitions_total",
            "Devices that changed health.",
            [*resource, "to"],
            registry=self.registry,
        )
        self.scan_seconds = Histogram(
            "accelet_discovery_duration_seconds",
            "Time of one scan.",
            resource,
            buckets=(0.001, 0.005, 0.025, 0.1, 0.5, 2.0, 10.0),
            registry=self.registry,
        )
        self.scan_failures = Counter(
            "accelet_discovery_failures_total",
            "Scans that failed as a whole.",
            resource,
            registry=self.registry,
        )
        self.kubelet_restarts = Counter(
            "accelet_kubelet_restarts_total", "Times kubelet.sock was replaced.", registry=self.registry
        )
        self.config_is_good = Gauge(
            "accelet_config_last_reload_successful",
            "Whether the configuration file, as it stands, is the one in force.",
            registry=self.registry,
        )
        self.config_loaded_at = Gauge(
            "accelet_config_last_reload_success_timestamp_seconds",
            "When the configuration in force was loaded.",
            registry=self.registry,
        )
        Gauge("accelet_build_info", "The version that runs.", ["version"], registry=self.registry).labels(
            accelet.__version__
        ).set(1)

    def of(self, resource: str) -> "ResourceMetrics":
        return ResourceMetrics(self, resource)


class ResourceMetrics:
    """The metrics of one resource."""

    def __init__(self, metrics: Metrics, resource: str) -> None:
        self._all = metrics
        self._resource = resource

    def count_fault(self) -> None:
        self._all.faults.labels(self._resource).inc()

    def observe_allocate(self, outcome: str, seconds: float) -> None:
        self._all.allocations.labels(self._resource, outcome).inc()
        self._all.allocate_seconds.labels(self._resource).observe(seconds)

    def count_repeated(self, devices: int) -> None:
        self._all.repeated.labels(self._resource).inc(devices)

    def count_match(self, proof: str) -> None:
        self._all.matches.labels(self._resource, proof).inc()

    def observe_match(self, seconds: float) -> None:
        self._all.match_seconds.labels(self._resource).observe(seconds)

    def count_settled(self, outcome: str) -> None:
        self._all.settled.labels(self._resource, outcome).inc()

    def count_deviation(self, kind: str) -> None:
        self._all.deviations.labels(self._resource, kind).inc()

    def set_devices(self, healthy: int, unhealthy: int, skipped: int) -> None:
        self._all.devices.labels(self._resource, "Healthy").set(healthy)
        self._all.devices.labels(self._resource, "Unhealthy").set(unhealthy)
        self._all.skipped.labels(self._resource).set(skipped)

    def set_warnings(self, count: int) -> None:
        self._all.warnings.labels(self._resource).set(count)

    def count_health_change(self, to: str) -> None:
        self._all.health_changes.labels(self._resource, to).inc()

    def observe_scan(self, seconds: float) -> None:
        self._all.scan_seconds.labels(self._resource).observe(seconds)

    def count_scan_failure(self) -> None:
        self._all.scan_failures.labels(self._resource).inc()

    def set_registered(self, *, is_registered: bool) -> None:
        self._all.registered.labels(self._resource).set(is_registered)

    def count_registration(self, outcome: str) -> None:
        self._all.registrations.labels(self._resource, outcome).inc()

    def count_ending(self, cause: str) -> None:
        self._all.endings.labels(self._resource, cause).inc()

    def forget(self) -> None:
        """The resource is configured no more: its gauges must not stand still for ever."""
        for health in ("Healthy", "Unhealthy"):
            self._all.devices.remove(self._resource, health)
        self._all.skipped.remove(self._resource)
        self._all.warnings.remove(self._resource)
        self._all.registered.remove(self._resource)
