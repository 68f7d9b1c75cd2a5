"""Moves of running tasks: what they would be good for, and the places that are held for them: pure."""
