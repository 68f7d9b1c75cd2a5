"""What planning costs, and what the sliding-window rule makes of the same input."""
