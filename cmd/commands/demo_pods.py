"""The pods of the demonstration; the same manifests are in configs/pods for use in a cluster."""

from typing import Final

PETER_SHEEP_WOLF: Final = """\
# The container peter wants to be close to the container sheep and far away from the container wolf.
# It starts last: rules count for what runs already.
apiVersion: v1
kind: Pod
metadata:
  name: peter-sheep-wolf
  annotations:
    resource-policy.nri.io/affinity: |
      peter:
        - match:
            key: name
            operator: Equals
            values:
              - sheep
          weight: 5
    resource-policy.nri.io/anti-affinity: |
      peter:
        - match:
            key: name
            operator: Equals
            values:
              - wolf
          weight: 5
spec:
  containers:
    - name: sheep
      image: registry.k8s.io/pause:3.9
      resources: &small
        requests: {cpu: 100m, memory: 16Mi}
        limits: {cpu: 500m, memory: 32Mi}
    - name: wolf
      image: registry.k8s.io/pause:3.9
      resources: *small
    - name: peter
      image: registry.k8s.io/pause:3.9
      resources: *small
"""

SHORTHAND: Final = """\
# The short way for containers of one pod: container3 goes near container1 and away from container2,
# container4 away from container2 and container3.
apiVersion: v1
kind: Pod
metadata:
  name: shorthand
  annotations:
    resource-policy.nri.io/affinity: |
      container3: [container1]
    resource-policy.nri.io/anti-affinity: |
      container3: [container2]
      container4: [container2, container3]
spec:
  containers:
    - name: container1
      image: registry.k8s.io/pause:3.9
      resources: &small
        requests: {cpu: 100m, memory: 16Mi}
        limits: {cpu: 500m, memory: 32Mi}
    - name: container2
      image: registry.k8s.io/pause:3.9
      resources: *small
    - name: container3
      image: registry.k8s.io/pause:3.9
      resources: *small
    - name: container4
      image: registry.k8s.io/pause:3.9
      resources: *small
"""

DEMO_PODS: Final = (
    ("peter-sheep-wolf.yaml", PETER_SHEEP_WOLF),
    ("shorthand.yaml", SHORTHAND),
)
"""File names below configs/pods and their texts."""
