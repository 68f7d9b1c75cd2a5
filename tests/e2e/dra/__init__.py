"""Dynamic Resource Allocation on real clusters: storms of claims, kills, changes of nodes, and a judge."""
