"""Places for gangs whose pod sets are each to be in one domain of a level of their own."""
