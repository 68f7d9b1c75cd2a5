"""MachineDeployments of Cluster API.

answers   MachineDeployments as pools, and what the API server's answers mean for a slice.
body      A pool as a MachineDeployment of Cluster API (cluster.x-k8s.io/v1beta2).
provider  Pools as MachineDeployments of Cluster API, in one namespace of this cluster.
"""
