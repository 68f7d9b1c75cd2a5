"""The pool of machines that a slice is: how many, of which type, where, and by which name."""
