"""What of a node's hardware is published, and how the ResourceSlices come to say so.

attributes =  Attributes that every kind of device has alike, under the names Kubernetes gives them.
build =       From what the scans found to the pool that is published, within what Kubernetes takes.
difference =  What must be written so that the API server has exactly a pool's slices.
features =    What of a slice an API server keeps, and what is published where it drops a field without a
              word.
files =       Plain files as devices, held by as many claims at a time as the settings allow.
gpus =        GPUs as devices: each tile of cards with several, each card, and a monitor for each card.
holders =     Whose devices in the kubelet's checkpoint are still held, by what podresources has shown since.
keeping =     Hardware that claims hold and no resource has by now, and hardware that pods hold by the device
              plugin.
pcieroots     Which PCIe root complex each device hangs on, as sysfs shows it.
published =   The GPUs of nodes as their ResourceSlices tell of them: what was published, read back.
served =      The resources that one driver publishes together, as their last scans found them.
serverform    The form in which an API server keeps a slice: amounts written otherwise, and what admission
              changed.
slices =      A pool as the API's ResourceSlices: counters first, then devices, in the order of the pool.
taints =      Which units claims are kept off, and why.
tpus =        A TPU host's chips as boxes: every set of chips that one process can use together.
"""
