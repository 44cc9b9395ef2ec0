"""The report in a real browser: no errors, no requests, no script from users; slider and dark mode work."""

import json
import re
import shutil
import subprocess
from html import unescape

import pytest

from eunoe.report.html import report_html
from tests.report.made_up import made_up_run
from tests.waiting import PATIENCE

CHROMIUM = shutil.which("chromium")
EVIL = "</script><script>alert(1)</script><img src=x onerror=alert(2)>"
LISTENER = """<script>
const seen = {alerts: 0, violations: [], errors: []};
window.alert = () => { seen.alerts += 1; };
window.addEventListener("error", (event) => seen.errors.push(event.message));
window.addEventListener("unhandledrejection", (event) => seen.errors.push(String(event.reason)));
document.addEventListener("securitypolicyviolation", (event) => seen.violations.push(event.blockedURI));
</script>"""
VISITOR = """<script>
(async () => {
  const root = document.documentElement;
  const pause = (time) => new Promise((done) => setTimeout(done, time));
  const drawn = async () => { while (root.dataset.drawn !== "yes") await pause(50); };
  const chart = () => document.querySelector("#chart-client-matrices svg.marks").innerHTML;
  await drawn();
  seen.charts = document.querySelectorAll(".chart svg.marks").length;

  const last = chart();
  const slider = document.getElementById("slider-client-matrices");
  slider.value = "1";
  slider.dispatchEvent(new Event("input"));
  await pause(500);
  seen.moved = chart() !== last;
  seen.round = document.getElementById("round-client-matrices").textContent;
  const first = chart();
  root.dataset.drawn = "no";
  document.getElementById("theme").click();
  await drawn();
  seen.theme = root.dataset.theme;
  seen.background = getComputedStyle(document.body).backgroundColor;
  seen.recolored = chart() !== first;
  const papers = () => document.querySelectorAll(".paper svg.marks");
  while (papers().length < seen.charts) await pause(50);
  // What is defined and used by number has other numbers in another figure.
  const plain = (text) => text.replace(/(gradient|clip)_?\\d+/g, "$1");
  seen.printed = plain(document.querySelector("#paper-client-matrices svg.marks").innerHTML) === plain(first);
  seen.kept = document.getElementById("slider-client-matrices").value;
  seen.wide = root.scrollWidth > root.clientWidth;
  seen.requests = performance.getEntriesByType("resource").map((entry) => entry.name);
  const place = document.createElement("pre");
  place.id = "seen";
  place.textContent = JSON.stringify(seen);
  document.body.append(place);
})();
</script>"""


def visit(folder, width):
    runs = [made_up_run(EVIL, 0, class_names=["a", EVIL, "c"]), made_up_run("wsm", 1)]
    text = report_html(runs).replace("<head>", f"<head>{LISTENER}", 1)
    # Appended, since the scripts on the page have an end of body in a string.
    text += VISITOR
    (folder / "report.html").write_text(text)
    flags = "--headless --no-sandbox --disable-gpu --no-first-run --disable-background-networking"
    flags += " --disable-component-update --disable-sync --enable-logging=stderr --virtual-time-budget=30000"
    flags += f" --window-size={width},900 --user-data-dir={folder / 'profile'} --dump-dom"
    done = subprocess.run(
        [CHROMIUM, *flags.split(), (folder / "report.html").as_uri()],
        capture_output=True,
        text=True,
        timeout=PATIENCE,
    )
    console = [line for line in done.stderr.splitlines() if "CONSOLE" in line]
    return json.loads(unescape(re.search(r'<pre id="seen">(.*?)</pre>', done.stdout)[1])), console


@pytest.mark.skipif(
    CHROMIUM is None, reason="chromium is not installed; install it with: apt-get install chromium"
)
@pytest.mark.parametrize("width", [1280, 500])
def test_the_report_in_a_browser(tmp_path, width):
    seen, console = visit(tmp_path, width)
    assert console == []
    assert (seen["errors"], seen["violations"], seen["requests"]) == ([], [], [])
    assert seen["alerts"] == 0
    assert seen["charts"] == 16
    assert (seen["moved"], seen["round"], seen["kept"]) == (True, "round 4", "1")
    assert (seen["theme"], seen["background"], seen["recolored"]) == ("dark", "rgb(21, 23, 27)", True)
    assert seen["printed"], "the light figure at the slider's round lies ready to be printed"
    assert not seen["wide"]
