"""Dynamic Resource Allocation as a kubelet does it: drivers, the claims it knows, Prepare and Unprepare.

cache =       The claims a kubelet knows: who uses them, and what drivers answered to Prepare.
cdi           What a container runtime makes of CDI devices: files in folders, and their edits in a container.
cdirules =    What makes a CDI file unusable. A runtime leaves out a file with one fault as a whole.
claimapi      What a kubelet asks of the API server about claims and ResourceSlices.
claimmanager  Prepares and unprepares the claims of pods, as the kubelet's DRA manager does.
driverclient  The kubelet's connection to one DRA driver: kept up for as long as the driver is registered.
drivers       The DRA drivers of one kubelet's life: registered, connected, watched, and cleaned up after.
health =      What drivers say of their devices' health, as long as they go on saying it.
kubeclaims    Claims and ResourceSlices of an API server, real or in this process.
service       What a kubelet with DRA has more than one without.
statefile     `dra_manager_state`: what a kubelet writes down of the claims it knows.
view          What a test sees of one DRA driver, always as it is now.
"""
