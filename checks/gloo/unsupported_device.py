"""gloo has no device on this platform.

What you see
------------
`makeDeviceForHostname(): unsupported gloo device`.

Why it happens
--------------
The Windows wheels of torch 2.8 came without a device for gloo (pytorch#150381).

Fix
---
torch 2.7.1, or a later one; or WSL.

When it is harmless
-------------------
Never.

See also
--------
gloo/interface-not-found
"""

from distdoctor.check_api import Line

SEVERITY = "fail"
PREVENTS = "gloo group formed"
LOG = (Line("unsupported gloo device"),)
