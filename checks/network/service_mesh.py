"""A service mesh takes the job's connections.

What you see
------------
Workers lose the store at once (`failed to recv, got 0 bytes`) although a connection to its port succeeds.

Why it happens
--------------
An Envoy sidecar accepts every connection in the place of the other pod, and closes it when nobody is there.

Fix
---
Annotation sidecar.istio.io/inject: "false" on the job's pods.

When it is harmless
-------------------
Never.

See also
--------
network/foreign-service
"""

from distdoctor.check_api import Line

SEVERITY = "fail"
PREVENTS = "store reached"
NEXT = (
    "whether the pods have a sidecar",
    "kubectl get pod POD -o jsonpath='{.spec.containers[*].name}'",
)
LOG = (
    Line(
        "got 0 bytes",
        "failed to recv, got 0 bytes|recvValue failed.{0,200}got 0 bytes",
        shows="symptom",
        why="without a sidecar it is the death of the store's host",
    ),
)
