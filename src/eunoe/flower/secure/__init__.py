"""Secure aggregation in a federation: the server learns the sum of its clients' vectors and nothing else.

`protocol` is the protocol without a network, on the cryptography of `primitives`; `Participant` is the type
to know. `engine` plays the server's part and `client` a client's, with `messages` between them; `history`
keeps a client from using secrets or vectors twice. How an update becomes a vector of integers is not here:
see server/secure_sum.py. What is promised against which server is in docs/privacy.md.
"""
