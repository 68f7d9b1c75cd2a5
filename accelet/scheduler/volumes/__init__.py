"""Volumes of pods, as far as the scheduler keeps up with them."""
