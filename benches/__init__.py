"""Measurements that print tables; nothing here is installed."""
