"""What tests have instead of a cluster: clocks, raw pods and nodes, Pod and Node values; one builder of each.

Elsewhere are the worlds of the folders below tests/integration, which each run other processes (a kubelet, a
kube-scheduler, a controller), the simulations and strategies that draw at random, the fake kubelet's own
pods, the half-written objects of the tests of a parser or of a patch, which are what is tested, and whatever
tests/e2e gives to a real API server.
"""
