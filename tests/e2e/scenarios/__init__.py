"""Scenarios that a real and a fake kubelet are put through alike, and what to compare afterwards."""
