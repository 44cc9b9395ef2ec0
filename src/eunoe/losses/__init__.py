"""What a client minimizes on its own labels, and what the author of another loss imports."""

from eunoe.losses.base import Loss as Loss
from eunoe.losses.base import client_loss as client_loss
