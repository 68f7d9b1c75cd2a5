"""The provider that the settings name."""

from accelet.provisioner.process import MakeProvider
from accelet.provisioner.providers.simulated.provider import SimulatedProvider
from accelet.provisioner.settings import ProvisionerSettings
from accelet.runtime.run import FatalError


def choose_provider(settings: ProvisionerSettings) -> tuple[MakeProvider, str]:
    """How the provider is made, and the label by which its Nodes name their pool.

    Raises:
        FatalError: its requests can be planned, but not made yet.
    """
    if settings.provider != "simulated":
        raise FatalError(
            f"the provider {settings.provider} can be planned for with `accelet slices plan`, not run yet"
        )
    return (
        lambda surface, cluster: SimulatedProvider(
            surface.client, surface.writer, settings.simulated, cluster
        ),
        SimulatedProvider.pool_label,
    )
