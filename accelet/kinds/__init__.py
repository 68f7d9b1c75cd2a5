"""Our own kinds of API objects: each is msgspec Structs, and its CustomResourceDefinition is made of them.

It may import `accelet.kube` and the rows below.

definition =    What a CustomResourceDefinition says beside the schema.
gputask =       GPUTask: a program that is to run as so many ranks on so many cards, and how far it is.
move =          Move: a running task that is to go to other nodes, why that helps, and how far it is.
naming =        The API server's rules for what labels, annotations and objects are called, as sentences.
originaltask    GPUTask of falldio.com/v1: the original's kind, with its five fields and a schema.
schema          From msgspec Structs to the structural schemas that the API server takes.
slicerequest =  SliceRequest: one TPU slice that is wanted, and how far it is.
waiting =       Why a gang waits: one annotation on its first pod, which the scheduler writes for whoever owns
                the gang.
wish =          A person's wish to have a task moved: one annotation on its GPUTask, answered with a Move.
"""
