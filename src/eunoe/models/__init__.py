"""Networks by name, and the base class for your own.

A model is a class or function that takes the shape of a sample and the number of classes; further keyword
arguments are its options. A model that derives from `Classifier` exposes its features, which some methods
need. Preprocessing is in eunoe.data.
"""

from eunoe.models.base import Classifier as Classifier
from eunoe.models.base import channels_last as channels_last
from eunoe.models.base import image_shape as image_shape
from eunoe.models.base import pool_relu as pool_relu
