"""An address of another node is set on this one.

What you see
------------
`Cannot assign requested address (addr='tcp://172.17.0.5:...')`, `Every node should have a unique IP address`.

Why it happens
--------------
A variable that is to hold each node's own address (VLLM_HOST_IP, *_SIDE_CHANNEL_HOST) was copied to all nodes.

Fix
---
Set it on each node to that node's own address.

When it is harmless
-------------------
Never.

See also
--------
network/master-not-node0
"""

from distdoctor.check_api import Line

SEVERITY = "fail"
PREVENTS = "plan agreed"
LOG = (
    Line(
        "should have a unique IP address",
    ),
    Line(
        "Cannot assign requested address",
        r"Cannot assign requested address \(addr=|ZMQError: Cannot assign requested address",
    ),
)
