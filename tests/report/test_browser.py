"""The report in a real browser: no errors, no requests, no script from users; slider and dark mode work."""

import json
import re
import shutil
import subprocess
import threading
from html import unescape

import pytest

from eunoe.report.html import report_html
from eunoe.report.live import LiveReport, serve
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

  const lines = () => document.querySelectorAll("#chart-accuracy .mark-line path").length;
  const click = (target) => target.dispatchEvent(new MouseEvent("click", {bubbles: true}));
  const name = document.querySelector("#chart-accuracy .role-legend-label text");
  seen.lines = [lines()];
  click(name);
  await pause(500);
  seen.lines.push(lines());
  seen.dimmed = [...document.querySelectorAll("th.hidden-run")].map((each) => each.textContent);
  seen.elsewhere = document.querySelectorAll("#chart-round-forgetting .mark-line path").length;
  click(name);
  await pause(500);
  seen.lines.push(lines());

  const rows = () => [...document.querySelectorAll("#summary tbody tr")];
  const column = (at) => rows().map((row) => row.cells[at].textContent);
  const headings = document.querySelectorAll("#summary thead th");
  const values = () => column(1).map(parseFloat);
  click(headings[1]);
  seen.falling = values()[0] > values()[1] && headings[1].getAttribute("aria-sort") === "descending";
  click(headings[1]);
  seen.rising = values()[0] < values()[1] && headings[1].getAttribute("aria-sort") === "ascending";
  click(headings[0]);
  seen.named = column(0);

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
    return browse(folder, (folder / "report.html").as_uri(), width)


def browse(folder, address, width):
    flags = "--headless --no-sandbox --disable-gpu --no-first-run --disable-background-networking"
    flags += " --disable-component-update --disable-sync --enable-logging=stderr --virtual-time-budget=30000"
    flags += f" --window-size={width},900 --user-data-dir={folder / 'profile'} --dump-dom"
    done = subprocess.run(
        [CHROMIUM, *flags.split(), address], capture_output=True, text=True, timeout=PATIENCE
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
    assert (seen["lines"], seen["elsewhere"], seen["dimmed"]) == ([2, 1, 2], 1, [EVIL])
    assert (seen["falling"], seen["rising"], seen["named"]) == (True, True, sorted([EVIL, "wsm"]))
    assert seen["charts"] == 17
    assert (seen["moved"], seen["round"], seen["kept"]) == (True, "round 4", "1")
    assert (seen["theme"], seen["background"], seen["recolored"]) == ("dark", "rgb(21, 23, 27)", True)
    assert seen["printed"], "the light figure at the slider's round lies ready to be printed"
    assert not seen["wide"]


# What a visitor of the live page sees before and after a round; the page is marked, as a reload would undo.
WATCHER = """<script>
(async () => {
  const pause = (time) => new Promise((done) => setTimeout(done, time));
  const lead = () => document.querySelector(".lead").textContent;
  const seen = {};
  const ready = () => document.documentElement.dataset.drawn === "yes" && document.querySelector("#live p");
  while (!ready()) await pause(50);
  document.documentElement.dataset.mark = "kept";
  seen.leads = [lead()];
  seen.status = document.getElementById("live").textContent;
  await fetch("add-round");
  while (lead() === seen.leads[0]) await pause(50);
  await pause(500);
  seen.leads.push(lead());
  seen.charts = document.querySelectorAll(".chart svg.marks").length;
  seen.mark = document.documentElement.dataset.mark;
  await fetch("finish");
  while (!document.getElementById("live").textContent.includes("finished")) await pause(50);
  await fetch("stop");
  while (!document.getElementById("live").textContent.includes("last report")) await pause(50);
  const place = document.createElement("pre");
  place.id = "seen";
  place.textContent = JSON.stringify(seen);
  document.body.append(place);
})();
</script>"""


@pytest.mark.skipif(CHROMIUM is None, reason="chromium is not installed")
def test_the_live_page_follows_a_run_without_being_reloaded(tmp_path, monkeypatch):
    folder = tmp_path / "run"
    folder.mkdir()
    (folder / "config.toml").write_text('name = "first"\nrounds = 9\n')
    (folder / "status.json").write_text('{"state": "running"}')
    state = {"rounds": 0, "stopped": False}

    def add_round():
        state["rounds"] += 1
        measured = {"accuracy": 0.5, "loss": 1.0, "per_class": [0.5, 0.5]}
        line = {"schema": 1, "round": state["rounds"], "clients": [1], "test": measured}
        line["dropped"] = [{"client": 7, "reason": "late"}]
        with open(folder / "metrics.jsonl", "a") as file:
            file.write(json.dumps(line) + "\n")

    add_round()
    add_round()
    page = LiveReport.html
    monkeypatch.setattr(LiveReport, "html", lambda live: page(live) + WATCHER.encode())
    with serve([folder], 0) as server:
        handler = server.RequestHandlerClass
        answer = handler.do_GET

        def do_GET(request):
            commands = {
                "/add-round": add_round,
                "/finish": lambda: (folder / "status.json").write_text('{"state": "finished"}'),
                "/stop": lambda: state.update(stopped=True),
            }
            if request.path in commands:
                commands[request.path]()
            if state["stopped"] or request.path in commands:
                request.send_error(500, "stopped")
            else:
                answer(request)

        handler.do_GET = do_GET
        threading.Thread(target=server.serve_forever, daemon=True).start()
        seen, _ = browse(tmp_path, f"http://127.0.0.1:{server.server_port}/", 1280)
        server.shutdown()
    assert seen["leads"] == ["digits · 2 rounds · seeds 0", "digits · 3 rounds · seeds 0"]
    assert "1 running" in seen["status"]
    assert "2 of 9" in seen["status"]
    assert "1: clients 7" in seen["status"]
    assert seen["mark"] == "kept", "the page was reloaded"
    assert seen["charts"] > 0
