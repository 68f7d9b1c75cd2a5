"""What is counted of device plugins."""

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from accelet.node.metrics import NodeMetrics


class PluginMetrics:
    """The metrics of lists, registrations and answers to the kubelet; those of its node beside them."""

    def __init__(self, registry: CollectorRegistry, node: NodeMetrics) -> None:
        self.node = node
        resource = ["resource"]
        self.devices = Gauge(
            "accelet_devices", "Devices listed to the kubelet.", [*resource, "health"], registry=registry
        )
        self.held = Gauge(
            "accelet_devices_held",
            "Devices that containers hold, by the kubelet's records and our answers.",
            resource,
            registry=registry,
        )
        self.registered = Gauge(
            "accelet_registered",
            "Whether the kubelet holds our ListAndWatch stream.",
            resource,
            registry=registry,
        )
        self.registrations = Counter(
            "accelet_registrations_total", "Register calls.", [*resource, "outcome"], registry=registry
        )
        self.endings = Counter(
            "accelet_registration_ends_total",
            "Registrations that ended, by cause.",
            [*resource, "cause"],
            registry=registry,
        )
        self.allocations = Counter(
            "accelet_allocations_total",
            "Allocate calls, by outcome (given, or why refused).",
            [*resource, "outcome"],
            registry=registry,
        )
        self.allocate_seconds = Histogram(
            "accelet_allocate_duration_seconds",
            "Time to answer Allocate.",
            resource,
            buckets=(0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.5, 2.0),
            registry=registry,
        )
        self.repeated = Counter(
            "accelet_repeated_allocations_total",
            "Devices given while the kubelet's records gave them to some container already.",
            resource,
            registry=registry,
        )
        self.matches = Counter(
            "accelet_matches_total",
            "Allocate calls of resources with assignments, by how their container was found.",
            [*resource, "proof"],
            registry=registry,
        )
        self.match_seconds = Histogram(
            "accelet_match_duration_seconds",
            "Time to find out which container a call is for.",
            resource,
            buckets=(0.001, 0.0025, 0.005, 0.01, 0.015, 0.025, 0.04, 0.06, 0.1, 0.25, 0.5, 2.0),
            registry=registry,
        )
        self.questions = Counter(
            "accelet_match_questions_total",
            "What was asked to find out which container a call is for, by kind.",
            [*resource, "question"],
            registry=registry,
        )
        self.settled = Counter(
            "accelet_answers_settled_total",
            "Answers, by what the kubelet's records said of them afterwards.",
            [*resource, "outcome"],
            registry=registry,
        )
        self.deviations = Counter(
            "accelet_assignment_deviations_total",
            "Containers whose assignment could not simply be followed, by kind.",
            [*resource, "kind"],
            registry=registry,
        )
        self.health_changes = Counter(
            "accelet_health_transitions_total",
            "Devices that changed health.",
            [*resource, "to"],
            registry=registry,
        )

    def of(self, resource: str) -> "ResourceMetrics":
        return ResourceMetrics(self, resource)


class ResourceMetrics:
    """The metrics of one resource."""

    def __init__(self, metrics: PluginMetrics, resource: str) -> None:
        self._all = metrics
        self._resource = resource
        self.count_fault = metrics.node.of(resource).count_fault

    def observe_allocate(self, outcome: str, seconds: float) -> None:
        self._all.allocations.labels(self._resource, outcome).inc()
        self._all.allocate_seconds.labels(self._resource).observe(seconds)

    def count_repeated(self, devices: int) -> None:
        self._all.repeated.labels(self._resource).inc(devices)

    def count_match(self, proof: str) -> None:
        self._all.matches.labels(self._resource, proof).inc()

    def observe_match(self, seconds: float) -> None:
        self._all.match_seconds.labels(self._resource).observe(seconds)

    def count_question(self, question: str) -> None:
        self._all.questions.labels(self._resource, question).inc()

    def count_settled(self, outcome: str) -> None:
        self._all.settled.labels(self._resource, outcome).inc()

    def count_deviation(self, kind: str) -> None:
        self._all.deviations.labels(self._resource, kind).inc()

    def set_devices(self, healthy: int, unhealthy: int) -> None:
        self._all.devices.labels(self._resource, "Healthy").set(healthy)
        self._all.devices.labels(self._resource, "Unhealthy").set(unhealthy)

    def set_held(self, count: int) -> None:
        self._all.held.labels(self._resource).set(count)

    def count_health_change(self, to: str) -> None:
        self._all.health_changes.labels(self._resource, to).inc()

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
        self._all.registered.remove(self._resource)
        self._all.held.remove(self._resource)
