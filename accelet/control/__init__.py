"""What every controller is made of: a work queue, a lease, and what writes."""
