"""Dynamic Resource Allocation: a node's accelerators as ResourceSlices, and claims prepared on it."""
