"""The report: complete, self-contained, and safe against strings from users."""

import dataclasses
import json
import re
from html.parser import HTMLParser

import pytest

from eunoe.report.figures.series import group_by_label
from eunoe.report.html import report_html, write_report
from eunoe.report.summary import comparison, rounds_table
from tests.report.made_up import made_up_run

EVIL = "</script><script>alert(1)</script><img src=x onerror=alert(2)>\"'&"


class Elements(HTMLParser):
    """Collects what is on a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self._in = ""
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        self._in = tag

    def handle_endtag(self, tag):
        self._in = ""

    def handle_data(self, data):
        if self._in not in ("script", "style"):
            self.text += data


@pytest.fixture(scope="module")
def plain_report():
    return report_html([made_up_run("fedavg", 0), made_up_run("fedavg", 1), made_up_run("wsm", 2)])


def data_of(text):
    found = re.search(r'<script type="application/json" id="eunoe-data">(.*?)</script>', text, re.DOTALL)
    return json.loads(found.group(1))


def test_the_report_makes_no_network_requests(plain_report):
    elements = Elements(plain_report)
    for _, attributes in elements.tags:
        assert not {"src", "srcset"} & set(attributes)
        assert (attributes.get("href") or "#").startswith("#")
    policy = next(a["content"] for _, a in elements.tags if a.get("http-equiv") == "Content-Security-Policy")
    assert policy.startswith("default-src 'none'")
    assert "http" not in policy


def test_every_figure_has_a_place_a_title_and_a_text(plain_report):
    elements = Elements(plain_report)
    places = {a["id"]: a for _, a in elements.tags if a.get("class") == "chart"}
    for figure in data_of(plain_report)["figures"]:
        assert len(places[f"chart-{figure['name']}"]["aria-label"]) > 30
    assert elements.text.count("Round forgetting: accuracy lost") == 1


def test_sliders_are_labeled_inputs(plain_report):
    elements = Elements(plain_report)
    sliders = [a for tag, a in elements.tags if tag == "input"]
    labels = {a["for"] for tag, a in elements.tags if tag == "label"}
    assert {a["id"] for a in sliders} == labels == {"slider-client-matrices", "slider-local-models"}
    assert all((a["value"], a["aria-valuetext"]) == ("0", "round 2") for a in sliders)


def test_names_from_users_stay_text():
    run = made_up_run(EVIL, class_names=["a", EVIL, "c"])
    run = dataclasses.replace(run, config={EVIL: {"x": EVIL}}, environment={"cpu": EVIL})
    text = report_html([run, made_up_run(EVIL + "2", seed=1)])
    elements = Elements(text)
    assert [tag for tag, _ in elements.tags].count("script") == 3
    assert not any(tag == "img" or "onerror" in attributes for tag, attributes in elements.tags)
    assert EVIL in elements.text
    assert EVIL in json.dumps(data_of(text), ensure_ascii=False).replace('\\"', '"')


def test_a_name_like_a_placeholder_of_the_template_stays_text():
    elements = Elements(report_html([made_up_run("@settings@")]))
    assert "What was forgotten: @settings@" in elements.text


def test_settings_that_differ_come_first():
    runs = [made_up_run("a"), made_up_run("b")]
    runs[1] = dataclasses.replace(runs[1], config={"seed": 0, "method": {"name": "b"}, "data": "digits"})
    text = report_html(runs)
    assert text.index(">method.name<") < text.index(">seed<")
    assert text.count('class="marked"') == 2


def test_the_comparison_names_the_best():
    quiet, loud = made_up_run("quiet", 0), made_up_run("loud", 0)
    for record in quiet.metrics:
        record["forgetting"] = {"round": 0.01, "fedntd": 0.0}
        record["test"]["accuracy"] = 0.99
    text = re.sub("<.*?>", "", comparison(group_by_label([loud, quiet])))
    assert text.startswith("quiet forgets least per round: 1.0 points (loud ")
    assert "ends most accurate: 99.0 %" in text
    assert comparison(group_by_label([quiet])) == ""
    # Both have lost the same on other clients' data, which is no merit of either.
    assert "other clients' data" not in text
    assert comparison(group_by_label([quiet, dataclasses.replace(quiet, label="as quiet")])) == ""
    other = dataclasses.replace(loud, config={**loud.config, "data": {"name": "mnist"}})
    assert "The runs have different data and cannot be compared." in comparison(
        group_by_label([other, quiet])
    )
    assert rounds_table(group_by_label([other, quiet])) == ""


def test_rounds_to_accuracy_by_hand():
    run = made_up_run("a", rounds=3)
    for record, accuracy in zip(run.metrics, (0.2, 0.6, 0.8), strict=True):
        record["test"]["accuracy"] = accuracy
    cells = re.findall(r"<td[^>]*>(.*?)</td>", rounds_table(group_by_label([run])))
    assert cells == ["2", "2", "3", "55.0%"]


def test_write_report_makes_the_folder(tmp_path):
    target = write_report([made_up_run()], tmp_path / "new" / "report.html")
    assert target.read_text().startswith("<!doctype html>")
