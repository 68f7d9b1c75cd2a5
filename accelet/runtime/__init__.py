"""Plumbing that every process needs: settings, logs, probes, supervision."""
