"""What is done next for one slice: pure, from what is written down and what is there."""
