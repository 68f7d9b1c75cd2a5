"""What Kueue asks before it lets a job run: whether there is a place for all of its pods."""
