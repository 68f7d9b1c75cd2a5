"""Pools of Nodes that are simulated at the API server.

body      A simulated pool as the ConfigMap that stands for it, and as the Nodes that it becomes.
provider  Pools without machines: ConfigMaps at the API server that become Nodes after a while.
"""
