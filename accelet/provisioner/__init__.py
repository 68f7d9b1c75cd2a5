"""Slices on demand: what jobs ask for, the pools of machines that it takes, and who makes them."""
