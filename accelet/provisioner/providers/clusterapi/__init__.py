"""MachineDeployments of Cluster API."""
