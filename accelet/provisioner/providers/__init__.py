"""Who makes pools: one small protocol, and one package for each provider.

clusterapi/  MachineDeployments of Cluster API.
gke/         Node pools of Google Kubernetes Engine.
simulated/   Pools of Nodes that are simulated at the API server.
bodies =     What is sent to a provider for a pool, by the provider's name.
protocol     What a provider is asked: list, create, delete; nothing is ever changed or resized.
"""
