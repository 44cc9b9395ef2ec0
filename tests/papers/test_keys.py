"""Keys of an exhibit's runs."""

from eunoe.papers.keys import key


def test_a_label_has_names_as_they_are_and_numbers_with_their_option() -> None:
    made = key(data="cifar10", alpha=0.1, method="fedavg", measure="")
    assert made.label == "cifar10 alpha=0.1 fedavg"
    assert made.get("measure") == ""


def test_parts_are_replaced_removed_and_added() -> None:
    made = key(data="mnist", method="fedavg")
    assert made.but(method="wsm") == key(data="mnist", method="wsm")
    assert made.but(method="") == key(data="mnist")
    assert made.but(norm="group").label == "mnist fedavg group"
    assert made.has(data="mnist", norm="")
    assert not made.has(method="wsm")
