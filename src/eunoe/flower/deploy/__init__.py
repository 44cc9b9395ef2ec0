"""Deploying a federation: `eunoe flower init`, keys and certificates, `eunoe flower sign`.

`templates` holds the files that `init` writes, with `@name@` in place of values; nginx.conf is the proxy in
front of the server. What runs in a deployment is not here: see server, client and loopback in eunoe.flower.
"""
