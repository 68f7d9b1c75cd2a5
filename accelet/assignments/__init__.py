"""The language between scheduler and agent: cards and tiles on pods and nodes, as values. No I/O."""
