"""A process has no token for its Ray cluster.

## What you see
`ray start --address=...` or ray.init() repeats

    Failed to get cluster ID from GCS server: Unauthenticated: RPC error: InvalidAuthToken: Authentication token is
    missing or incorrect

and ends after 20 seconds. Or it says at once that token authentication is enabled and no token was found.

## Why it happens
The cluster was started with token authentication. From Ray 2.59 on a head switches it on by itself if
~/.ray/auth_token exists. Any earlier ray.init() on that machine created the file. The other nodes have no such file, or
one with a token of their own. A process that names the cluster's address uses its token only with RAY_AUTH_MODE=token.

## Fix
Copy ~/.ray/auth_token from the head to every node, and `export RAY_AUTH_MODE=token` wherever a process joins or
connects. Or start the head and all others with RAY_AUTH_MODE=disabled, in a private network.

## Confirm with
`sha256sum ~/.ray/auth_token; env | grep RAY_AUTH` prints the same on every node.

## When it is harmless
The head itself has just started, and its own first calls are repeated.

## See also
store/nodes-missing, environment/version-mismatch
"""

from distdoctor.check_api import Line

SEVERITY = "fail"
PREVENTS = "plan agreed"
FIX = (
    "Copy ~/.ray/auth_token from the head to this node, or set RAY_AUTH_TOKEN to what it holds, and set "
    "RAY_AUTH_MODE=token. Or start all nodes with RAY_AUTH_MODE=disabled."
)
LOG = (
    Line("InvalidAuthToken: ", r"AuthenticationError: (?:RPC error: )?InvalidAuthToken: Authentication token", fix=FIX),
    Line(
        "Failed to get cluster ID from GCS server: Unauthenticated",
        shows="symptom",
        why="Ray repeats the call for 20 s, and a later one may have succeeded",
    ),
    Line("oken authentication is enabled but ", r"enabled but (?:no|the) authentication token", fix=FIX),
)
