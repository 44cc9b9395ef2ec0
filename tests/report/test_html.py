"""The report: complete, self-contained, and safe against strings from users."""

import dataclasses
import json
import re
from html.parser import HTMLParser

import pytest

from eunoe.report.html import report_html, write_report
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
    above = plain_report[: plain_report.index("<h2>Over the rounds")]
    assert re.findall('<figure id="(.*?)"', above) == ["accuracy", "round-forgetting"]


def test_sliders_are_labeled_inputs(plain_report):
    elements = Elements(plain_report)
    sliders = [a for tag, a in elements.tags if tag == "input"]
    labels = {a["for"] for tag, a in elements.tags if tag == "label"}
    assert {a["id"] for a in sliders} == labels == {"slider-client-matrices", "slider-local-models"}
    assert all((a["value"], a["aria-valuetext"]) == ("0", "round 2") for a in sliders)


def test_names_from_users_stay_text():
    run = made_up_run(EVIL, class_names=["a", EVIL, "c"])
    run = dataclasses.replace(run, config={"name": EVIL}, environment={"cpu": EVIL})
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
    configs = {name: {"seed": 0, "rounds": 77, "method": {"name": name}} for name in ("a", "b")}
    text = report_html([dataclasses.replace(made_up_run(name), config=own) for name, own in configs.items()])
    assert text.index(">method.name<") < text.index(">seed<")
    assert text.count('class="marked"') == 1
    # What all runs have is there once.
    assert text.count(">77<") == 1


def test_write_report_makes_the_folder(tmp_path):
    target = write_report([made_up_run()], tmp_path / "new" / "report.html")
    assert target.read_text().startswith("<!doctype html>")
