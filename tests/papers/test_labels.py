"""Labels of arms."""

from eunoe_papers.labels import label


def test_a_label_has_text_as_it_is_and_numbers_with_their_option() -> None:
    made = label(data="cifar10", alpha=0.1, method="fedavg", measure="")
    assert str(made) == "cifar10 alpha=0.1 fedavg"
    assert made.get("measure") == ""
    assert (
        str(label(data="cifar10", lr=0.1, norm="", method="fedavg+wsm batch"))
        == "cifar10 lr=0.1 fedavg+wsm batch"
    )


def test_parts_are_replaced_removed_and_added() -> None:
    made = label(data="mnist", method="fedavg")
    assert made.replace(method="wsm") == label(data="mnist", method="wsm")
    assert made.replace(method="") == label(data="mnist")
    assert str(made.replace(norm="group")) == "mnist fedavg group"


def test_a_selector_has_one_value_or_several_for_a_part() -> None:
    made = label(data="mnist", method="fedavg")
    assert made.matches({"data": "mnist", "norm": ""})
    assert made.matches({"method": ["wsm", "fedavg"]})
    assert not made.matches({"method": "wsm"})
