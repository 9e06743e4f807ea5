"""This build of torch has no gloo device for the platform.

## What you see
`makeDeviceForHostname(): unsupported gloo device`.

## Why it happens
The Windows wheels of torch 2.8 were built without a gloo device (pytorch#150381).

## Fix
Install another release: `pip install torch==2.7.1`, or one later than 2.8. Or run the job in WSL.

## Confirm with
`python -c "import torch; print(torch.__version__)"`.

## When it is harmless
Never.

## See also
gloo/interface-not-found
"""

from distdoctor.check_api import Line

SEVERITY = "fail"
PREVENTS = "gloo group formed"
LOG = (Line("unsupported gloo device"),)
