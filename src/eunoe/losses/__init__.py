"""Losses that clients minimize on their own labels. `Loss` is the base class for your own."""

from eunoe.losses.base import ClientLoss as ClientLoss
from eunoe.losses.base import Loss as Loss
from eunoe.losses.base import adjust_for_prior as adjust_for_prior
from eunoe.losses.base import client_loss as client_loss
