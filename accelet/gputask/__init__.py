"""GPU tasks: a program as so many ranks, carried out by one Indexed Job an attempt."""
