"""Which gangs are evicted for one of a higher priority, and how that is done."""
