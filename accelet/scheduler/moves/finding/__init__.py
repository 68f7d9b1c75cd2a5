"""Which moves would help, proven by the planner: pure."""
