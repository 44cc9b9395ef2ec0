"""What a client minimizes on its own labels, and what the author of another loss imports."""

from eunoe.losses.base import ClientLoss as ClientLoss
from eunoe.losses.base import Loss as Loss
from eunoe.losses.base import adjust_for_prior as adjust_for_prior
from eunoe.losses.base import client_loss as client_loss
