"""Node pools of Google Kubernetes Engine."""
