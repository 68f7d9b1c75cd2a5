"""A fake GKE that works: node pools, operations that take time, quotas, stock-outs, lost answers."""
