"""What the scheduler counts."""

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram


class SchedulerMetrics:
    """The scheduler's own series, in `registry`."""

    def __init__(self, registry: CollectorRegistry) -> None:
        def counter(name: str, text: str, *labels: str) -> Counter:
            return Counter(f"accelet_scheduler_{name}", text, labels, registry=registry)

        def gauge(name: str, text: str) -> Gauge:
            return Gauge(f"accelet_scheduler_{name}", text, registry=registry)

        def histogram(name: str, text: str, buckets: tuple[float, ...]) -> Histogram:
            return Histogram(f"accelet_scheduler_{name}", text, buckets=buckets, registry=registry)

        far = tuple(float(10**power) for power in range(9))
        self.plan_seconds = histogram(
            "plan_seconds", "How long a round of planning took.", (0.001, 0.005, 0.02, 0.1, 0.5, 2, 10)
        )
        self.blocked = histogram(
            "loop_blocked_seconds",
            "By how much the event loop was late, looked at 50 times a second.",
            (0.01, 0.05, 0.1, 0.5, 1, 5),
        )
        self.distance = histogram("gang_distance", "Distance along the ranks of each gang placed.", far)
        self.gap = histogram(
            "gang_gap", "Distance of each gang placed beyond what is proven to be the least.", (0.0, *far)
        )
        self.waiting = gauge("waiting_gangs", "Complete gangs that have no place now.")
        self.reserved = gauge("reserved_nodes", "Nodes kept free for a gang that has waited long.")
        self.reservations = counter("reservations", "Times that nodes began to be kept free for a gang.")
        self.plans = gauge("open_plans", "Plans of which not every pod is bound yet.")
        self.placed = counter("placed_gangs", "Gangs that got a plan.")
        self.released = counter("released_pods", "Pods whose gate was lifted.")
        self.repairs = counter("repairs", "Pods of a plan that had to be placed anew.", "reason")
        self.preempted = counter("preempted_pods", "Pods evicted for gangs of a higher priority.")
        self.moves = counter("proposed_moves", "Moves of running tasks that were proposed.", "gain")
        self.faults = counter("api_faults", "Requests that failed, and malformed objects.", "kind")
        self.planning_faults = counter("planning_faults", "Gangs not planned by a fault of the scheduler.")
        self.policies_missing = gauge(
            "policies_missing", "1 while a policy is not in force that the settings require."
        )
        self.kueue_unread = gauge(
            "kueue_unread", "1 while this replica leads and cannot read what Kueue has."
        )
        self.is_leading = gauge("leading", "1 while this replica places gangs.")
