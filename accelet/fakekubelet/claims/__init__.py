"""Dynamic Resource Allocation as a kubelet does it: drivers, the claims it knows, Prepare and Unprepare."""
