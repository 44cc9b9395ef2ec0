"""FedAvg and FedSGD (McMahan et al., 2017, "Communication-Efficient Learning of Deep Networks from
Decentralized Data").
https://arxiv.org/abs/1602.05629

    y_k = w after local training on client k          w <- w + sum_k p_k (y_k - w)
    p_k = n_k / sum of n over the round's clients     (weighting = "uniform": 1 / number of clients)

FedSGD is the setting epochs = 1 and batch_size = 0 (all of a client's data in one batch).
"""

from eunoe.methods import Method, Neutral


class FedAvg(Method):
    """Federated averaging: the mean of the models that the clients trained."""

    neutral = Neutral()
