"""The provider that the settings name."""

from accelet.control.process import Surface
from accelet.provisioner.process import MakeProvider
from accelet.provisioner.providers.clusterapi.provider import ClusterApiProvider
from accelet.provisioner.providers.gke.provider import GkeProvider
from accelet.provisioner.providers.gke.transport import GoogleTokens, Transport
from accelet.provisioner.providers.protocol import Provider
from accelet.provisioner.providers.simulated.provider import SimulatedProvider
from accelet.provisioner.settings import ProvisionerSettings
from accelet.runtime.run import FatalError


def choose_provider(settings: ProvisionerSettings) -> tuple[MakeProvider, str]:
    """How the provider is made, and the label by which its Nodes name their pool.

    Raises:
        FatalError: the settings lack something.
    """
    if lacks := settings.lacks():
        raise FatalError(f"the settings of the provider {settings.provider}: {'; '.join(lacks)}")

    def simulated(surface: Surface, cluster: str) -> Provider:
        return SimulatedProvider(surface.client, surface.writer, settings.simulated, cluster)

    def gke(surface: Surface, cluster: str) -> Provider:
        transport = Transport(settings.gke.endpoint, GoogleTokens())
        return GkeProvider(transport, settings, cluster, surface.writer.may_write)

    def cluster_api(surface: Surface, cluster: str) -> Provider:
        return ClusterApiProvider(surface.client, surface.writer, settings.cluster_api, cluster)

    match settings.provider:
        case "simulated":
            return simulated, SimulatedProvider.pool_label
        case "gke":
            return gke, GkeProvider.pool_label
        case "cluster-api":
            return cluster_api, ClusterApiProvider.pool_label
