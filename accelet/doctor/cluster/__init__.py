"""One cluster: what of accelet runs in it, what that may do, its nodes, and the pods that wait."""
