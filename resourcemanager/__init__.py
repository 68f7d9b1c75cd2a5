"""Decides who gets which devices; no I/O, no clock, no await."""
