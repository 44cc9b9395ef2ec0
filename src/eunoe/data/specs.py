"""Specifications of the built-in data sets: shape, place on the hub, normalization, checksum."""

from dataclasses import dataclass

from eunoe.data.sources.hub import HubSpec

_OBJECTS = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")
_DIGITS = tuple("0123456789")
_CLOTHES = ("T-shirt", "trouser", "pullover", "dress", "coat", "sandal", "shirt", "sneaker", "bag", "boot")
_CHARACTERS = tuple("0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz")
_ACTIVITIES = (
    *("walking", "walking upstairs", "walking downstairs", "sitting", "standing", "lying"),
    *("stand to sit", "sit to stand", "sit to lie", "lie to sit", "stand to lie", "lie to stand"),
)
_FINE_OBJECTS = (
    "apple aquarium_fish baby bear beaver bed bee beetle bicycle bottle bowl boy bridge bus butterfly "
    "camel can castle caterpillar cattle chair chimpanzee clock cloud cockroach couch crab crocodile "
    "cup dinosaur dolphin elephant flatfish forest fox girl hamster house kangaroo keyboard lamp "
    "lawn_mower leopard lion lizard lobster man maple_tree motorcycle mountain mouse mushroom oak_tree "
    "orange orchid otter palm_tree pear pickup_truck pine_tree plain plate poppy porcupine possum "
    "rabbit raccoon ray road rocket rose sea seal shark shrew skunk skyscraper snail snake spider "
    "squirrel streetcar sunflower sweet_pepper table tank telephone television tiger tractor train "
    "trout tulip turtle wardrobe whale willow_tree wolf woman worm"
)


@dataclass(frozen=True)
class DataSetSpec:
    """A built-in data set.

    `rows` are those of the hub's training and test splits; `sha256` is that of the arrays x_train, y_train,
    x_test, y_test one after the other in their official order. `mean` and `std` are None if they
    are measured when the data is loaded. `about` is the docstring of its loader.
    """

    classes: int
    shape: tuple[int, ...]
    rows: tuple[int, int]
    class_names: tuple[str, ...] | None = None
    hub: HubSpec | None = None
    mean: tuple[float, ...] | None = None
    std: tuple[float, ...] | None = None
    writers: bool = False
    dtype: str = "uint8"
    sha256: str | None = None
    about: str = ""


# The mean is CIFAR-10's and the std that of the WSM paper's code, which uses both for CIFAR-100 as well.
_CIFAR_MEAN, _CIFAR_STD = (0.4914, 0.4822, 0.4465), (0.2023, 0.1994, 0.2010)

SPECS = {
    "mnist": DataSetSpec(
        about="MNIST: 28 x 28 gray handwritten digits, 60,000 for training, 10,000 for testing.",
        classes=10,
        shape=(28, 28),
        rows=(60_000, 10_000),
        class_names=_DIGITS,
        hub=HubSpec("ylecun/mnist", mode="L"),
        mean=(0.1307,),
        std=(0.3081,),
        sha256="1e35582d42a90940c55b956deb61875c020b567ed20e3c5b174f52bf7809ed9b",
    ),
    "fashion_mnist": DataSetSpec(
        about="Fashion-MNIST: 28 x 28 gray pieces of clothing, 60,000 for training, 10,000 for testing.",
        classes=10,
        shape=(28, 28),
        rows=(60_000, 10_000),
        class_names=_CLOTHES,
        hub=HubSpec("zalando-datasets/fashion_mnist", mode="L"),
        mean=(0.2860,),
        std=(0.3530,),
        sha256="ece172613115fb18b120bec8f6c02271af90b8b8f0a5af5c51cbd5ceed68e619",
    ),
    "cifar10": DataSetSpec(
        about="CIFAR-10: 32 x 32 color photographs in 10 classes, 50,000 for training, 10,000 for testing.",
        classes=10,
        shape=(32, 32, 3),
        rows=(50_000, 10_000),
        class_names=_OBJECTS,
        hub=HubSpec("uoft-cs/cifar10", image="img", mode="RGB"),
        mean=_CIFAR_MEAN,
        std=_CIFAR_STD,
        sha256="6b3883dca6c867f1e58def548c063d1865569b8575fcbce06b3e468a89f9895a",
    ),
    "cifar100": DataSetSpec(
        about="CIFAR-100: 32 x 32 color photographs in 100 classes, 50,000 for training, 10,000 for testing.",
        classes=100,
        shape=(32, 32, 3),
        rows=(50_000, 10_000),
        class_names=tuple(_FINE_OBJECTS.split()),
        hub=HubSpec("uoft-cs/cifar100", image="img", label="fine_label", mode="RGB"),
        mean=_CIFAR_MEAN,
        std=_CIFAR_STD,
        sha256="ce046832bab115ddc5dec09ddaeb8339c7a9fc00cb9d3f6aebdfd619f125d129",
    ),
    "cinic10": DataSetSpec(
        about="CINIC-10: CIFAR-10's classes, 180,000 for training (with validation), 90,000 for testing.",
        classes=10,
        shape=(32, 32, 3),
        rows=(180_000, 90_000),
        class_names=_OBJECTS,
        hub=HubSpec("flwrlabs/cinic10", train=("train", "validation"), mode="RGB"),
        mean=(0.4789, 0.4723, 0.4305),
        std=(0.2421, 0.2383, 0.2587),
    ),
    "femnist": DataSetSpec(
        about="FEMNIST: 28 x 28 digits and letters by 3,597 writers, 62 classes, 814,277 samples.\n\n"
        "The hub has no test part, so a fixed random 15% of each writer's samples, rounded down, are the "
        "test part. A writer with at least 50 samples in all has at least 43 in the training part.",
        classes=62,
        shape=(28, 28),
        rows=(814_277, 0),
        class_names=_CHARACTERS,
        hub=HubSpec(
            "flwrlabs/femnist", test=(), label="character", client="writer_id", held_out=15, mode="L"
        ),
        writers=True,
    ),
    "har": DataSetSpec(
        classes=12,
        shape=(128, 6),
        rows=(5_360, 5_001),
        class_names=_ACTIVITIES,
        writers=True,
        dtype="float16",
        sha256="9a8f367920c00484613349f7b3a3e8e2bee2e638dcf4fd213dbac979127aeb6a",
    ),
    "omniglot": DataSetSpec(
        classes=242,
        shape=(28, 28),
        rows=(3_872, 968),
        writers=True,
        sha256="2d3f242c522b00a41d7de11fbd9fbd3e665d1980867028b0bffe1f422bb6d0bd",
    ),
}

# Data sets that are stored as a CSV file: their columns and the number of classes.
TABLES = {
    "heart_disease": ("hospital, 13 features and num", 2),
    "banking77": ("part, intent and text", 77),
    "clinc150": ("part, domain, intent and text", 150),
    "shakespeare": ("part, client and text", 67),
}
