"""Pools of Nodes that are simulated at the API server."""
