"""Selectors of devices: the part of the Common Expression Language that DeviceClasses and claims may use.

`selector` is the way in. Everything here is pure, and bounded against hostile expressions: how deep they
nest, how much work they are, how long their texts get. Of accelet it imports quantities alone.

failures   Why an expression has no answer.
functions  The functions of expressions, by name and by whether they have a target.
patterns   Regular expressions as RE2 has them, in linear time.
selector   Selectors: expressions made ready once, then asked of many devices.
syntax     Expressions as trees, and the parser that makes them.
tokens     The words of an expression.
values     Values of expressions, and when two of them are equal or in order.
work       How much work evaluating may take.
"""
