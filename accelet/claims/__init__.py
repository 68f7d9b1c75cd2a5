"""Resource claims and devices of any DRA driver, as kube-scheduler judges them. Pure."""
