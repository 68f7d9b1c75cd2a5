"""The node agent: its process and its configuration.

It may import the processes that it wires; these do not know it.

apiaccess       What the agent reads and says at the API server.
cardholders     Which containers have which cards, told to whoever may know it.
cardmetrics     What cards do and who holds them, as Prometheus reads it.
cardsensors     Looks at what the node's cards do, every so often.
config =        The agent's configuration: what is served under which names.
configfile      The configuration file, and when it is another one.
configschema =  The JSON schema of the configuration file, made from the types that read it.
discarding      Removes, beside everything else, what containers left in folders that were set aside for good.
dradrivers      The drivers of Dynamic Resource Allocation in this process, and the resources they serve.
metrics         What the agent counts, in a registry of its own.
metricsaccess   Who may read /metrics where it names tenants' pods: whoever the API server lets read it.
nvidiaconfig =  The configuration file of NVIDIA's device plugin, read in the place of our own.
process         The whole agent process: configuration, resources, probes, and what they watch together.
resource        One resource served by a device plugin: its scans and its registration, side by side.
service         What the agent's process needs of a resource, whatever it is served by, and what it gives to
                each.
services        The resources that are served now: started, stopped and hinted as configuration and node
                change.
"""
