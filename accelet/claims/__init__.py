"""Devices and resource claims of any DRA driver as slim values; bounded, whoever wrote them. No I/O.

It may import `accelet.kube` and the rows below.

cel/       Selectors of devices: the part of the Common Expression Language that classes and claims may use.
podclaims  Which claims a pod uses, in its order: the order in which kube-scheduler gives them devices.
requests   DeviceClasses and ResourceClaims as slim values: what is asked, and who holds what.
slices     ResourceSlices as slim values: the devices of any DRA driver.
"""
