"""What the kubelet speaks: its sockets and the plugins at their other ends.

handlers      What the kubelet does with plugins it finds in plugins_registry/, by their type.
plugin        The kubelet's connection to one plugin: dials it, watches it, asks it.
podresources  The podresources API v1: what the kubelet tells others about who holds what.
registration  The Registration service at kubelet.sock, and what becomes of a plugin that has registered.
sockets       The sockets a kubelet opens, appearing and staying behind as the real ones do.
watcher       The other way in: sockets that plugins put into plugins_registry/, found and asked by the
              kubelet.
"""
