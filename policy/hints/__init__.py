"""Where devices and volumes are, and what that means for a container."""
