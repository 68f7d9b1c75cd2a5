"""Our own kinds of API objects: each is msgspec Structs, and its CustomResourceDefinition is made of them."""
