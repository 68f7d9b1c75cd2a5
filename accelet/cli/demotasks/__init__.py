"""What `accelet demo tasks` runs: a cluster of cards without a cluster, and a story in it."""
