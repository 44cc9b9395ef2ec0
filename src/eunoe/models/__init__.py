"""Networks by name, and what the author of another one imports.

A model is a class or function that takes a sample's shape and the number of classes; its options are further
keyword arguments. One that derives from `Classifier` exposes its features, which some methods need.
"""

from eunoe.models.base import Classifier as Classifier
from eunoe.models.base import channels_last as channels_last
from eunoe.models.base import image_shape as image_shape
from eunoe.models.base import pool_relu as pool_relu
