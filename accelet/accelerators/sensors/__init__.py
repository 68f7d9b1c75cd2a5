"""What cards do, as far as the kernel tells it without privilege and without waking a card that sleeps."""
