"""Who wants to go where."""
