"""Volumes of pods, as far as the scheduler keeps up with them.

watching  Keeps up with volumes, their claims and classes, where the scheduler may read them.
"""
