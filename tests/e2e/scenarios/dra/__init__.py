"""Scenarios of DRA drivers: the same on the fake kubelet and on a real one, line by line."""
