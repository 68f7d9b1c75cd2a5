"""Node pools of Google Kubernetes Engine.

answers    GKE's answers as values: node pools, and what its errors mean for a slice.
body       A pool as GKE's nodePools.create takes it.
provider   Node pools of one GKE cluster.
transport  Requests to Google's REST interfaces: urllib3, with credentials of google-auth.
"""
