"""Selectors of devices: the part of the Common Expression Language that DeviceClasses and claims may use.

`selector` is the way in. Everything here is pure, and bounded against hostile expressions: how deep they
nest, how much work they are, how long their texts get. Of accelet it imports quantities alone.

amounts      Quantities and semantic versions, as Kubernetes has them.
conversions  From one type of values to another.
failures     Why an expression has no answer.
functions    The functions of expressions, by name and by whether they have a target.
lists        Functions of lists, Kubernetes' own and CEL's sets.
operators    The operators of expressions, by the names that CEL gives them.
optionals    Values that may be missing.
patterns     Regular expressions as RE2 has them, in linear time.
selector     Selectors: expressions made ready once, then asked of many devices.
signatures   What all functions of expressions have in common: their values, and when these do not fit.
syntax       Expressions as trees, and the parser that makes them.
texts        Functions of texts: CEL's strings 2, and regular expressions.
tokens       The words of an expression.
values       Values of expressions, and when two of them are equal or in order.
work         How much work evaluating may take.
"""
