"""Kubernetes Events."""
