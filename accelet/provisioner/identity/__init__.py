"""Who a slice's workers are: their numbers and names, and the admission policies that give them these."""
