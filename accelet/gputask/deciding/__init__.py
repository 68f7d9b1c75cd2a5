"""What is done next for one task, and what people are told of it: pure."""
