"""The objects of a task: those that are read, as values, and those that are made, as JSON."""
