"""What may be wrong with a node or a cluster, and how to mend it: looks, judges, and changes nothing."""
