"""Judges finished plans by the facts of pods and nodes, by nothing that was used to make them."""
