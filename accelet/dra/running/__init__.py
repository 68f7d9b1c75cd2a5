"""The driver at work: its record on disk, its sockets, its slices at the API server.

changes        Changes of the record of prepared claims, made for all calls that wait at once.
claimreader    Claims and their pods, read from the API server.
claims         Prepare and Unprepare, as the kubelet calls them.
driver         One driver on one node: what it offers, its sockets, its slices and its record, kept in line.
groups         Work that is done at once for all who wait for it, so that they share what it costs.
held           Which hardware claims hold, for those who serve the same hardware in another way.
heldhardware   What claims hold of one driver's hardware, and how it is, also where no resource has it any
               more.
messages       The kubelet's DRA messages to our values and back; v1 and v1beta1 differ in the share's id
               alone.
places         Where a driver has its files and sockets.
pluginholders  Which units containers hold by the device plugin, asked of the kubelet.
publisher      Keeps a pool's ResourceSlices at the API server as they should be, whoever removes or changes
               them.
reconciler     What is prepared, compared with the claims there are and the files there must be.
records        The driver's record of prepared claims and their CDI files, on disk.
services       The gRPC services of a driver: DRA v1 and v1beta1, health v1 and v1alpha1, and its
               registration.
sockets        The driver's two sockets: served, and served anew when one of them goes.
"""
