"""Gangs in a cluster in which everything goes wrong at once: what `make e2e-scheduler` runs."""
