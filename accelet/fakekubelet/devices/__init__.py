"""What the kubelet remembers of devices and who holds them; no sockets.

checkpointfile  The kubelet's device checkpoint on disk.
checksum =      The checksum in the kubelet's device checkpoint: FNV-1a over how Go prints the data.
devicemanager   The kubelet's device manager without its wire: which devices there are, who holds them, what
                is free.
holdings =      Which container holds which devices, as the kubelet remembers it and writes it to its
                checkpoint.
options =       What a container is given, merged from the answers of its plugins.
"""
