"""Secure aggregation in a federation: the server learns the sum of its clients' vectors and nothing else.

`protocol` is the protocol without a network, on the cryptography of `primitives`; `Participant` is the type
to know. `engine` plays the server's part and `client` a client's, with `messages` between them; `history`
keeps a client from unmasking two sums that differ by one client's vector. How an update becomes a vector of
integers is not here: see engines/secure_sum.py and server/fixed_point.py.
"""
