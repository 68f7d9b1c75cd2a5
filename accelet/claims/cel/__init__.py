"""Selectors of devices: the part of the Common Expression Language that DeviceClasses and claims may use.

`selector.py` is the way in. Everything here is pure, and bounded against hostile expressions: how deep they
nest, how much work they are, how long their texts get. Of accelet it imports quantities alone.
"""
