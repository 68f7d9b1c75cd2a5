"""What the agent counts, in a registry of its own."""

from prometheus_client import Counter, Gauge

import accelet
from accelet.agent.cardmetrics import CardMetrics
from accelet.dra.metrics import DraMetrics
from accelet.node.metrics import NodeMetrics
from accelet.runtime.probes import make_registry
from deviceplugin.metrics import PluginMetrics


class AgentMetrics:
    """All metrics of one agent process."""

    def __init__(self) -> None:
        self.registry = registry = make_registry()
        self.node = NodeMetrics(registry)
        self.plugins = PluginMetrics(registry, self.node)
        self.dra = DraMetrics(registry)
        self.cards = CardMetrics(registry)
        self.kubelet_restarts = Counter(
            "accelet_kubelet_restarts_total", "Times kubelet.sock was replaced.", registry=registry
        )
        self.config_is_good = Gauge(
            "accelet_config_last_reload_successful",
            "Whether the configuration file, as it stands, is the one in force.",
            registry=registry,
        )
        self.config_loaded_at = Gauge(
            "accelet_config_last_reload_success_timestamp_seconds",
            "When the configuration in force was loaded.",
            registry=registry,
        )
        Gauge("accelet_build_info", "The version that runs.", ["version"], registry=registry).labels(
            accelet.__version__
        ).set(1)
