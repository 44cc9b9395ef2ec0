"""`make release-check`: build the release, install it into empty environments and use it from there.

Each environment is made, used and removed in turn. Commands run in empty folders, with their own home and
without Python's environment variables, so that nothing comes from the checkout. It needs Python, pip and git;
the experiment of a paper needs its data set, as `eunoe reproduce` does.
"""

import os
import re
import shlex
import shutil
import signal
import sys
import tempfile
import time
import venv
from functools import partial
from pathlib import Path

from tools import distributions
from tools.checks import Checks, require, run

ROOT = Path(__file__).resolve().parents[1]
CORE = "core"
EXHIBIT = "flashback-fig8"
IMPORT_SECONDS, HELP_SECONDS = 2.0, 1.0
# Starts that are timed; more on a busy machine.
STARTS, MOST_STARTS = 5, 40
# Slow to import, and so imported only where used; `eunoe --help` does not import torch either.
HEAVY = {"ray", "flwr", "sklearn", "altair", "pyarrow", "pandas", "wandb", "mlflow", "tensorboard"}

LOADED_BY_LIBRARY = "import eunoe; [getattr(eunoe, name) for name in eunoe.__all__]"
LOADED_BY_COMMAND = """
import contextlib, io, sys
sys.argv = ["eunoe", "--help"]
from eunoe.cli.app import main
with contextlib.suppress(SystemExit), contextlib.redirect_stdout(io.StringIO()):
    main()
"""
TRACKERS = '[{name="tensorboard"}, {name="mlflow", uri="sqlite:///mlflow.db"}, {name="wandb", offline=true}]'


class Installed:
    """An environment with the wheel and one extra, and an empty folder for each command."""

    def __init__(self, root: Path, extra: str) -> None:
        self.extra, self.root = extra, root / extra
        self.bin = self.root / "env" / "bin"
        self._folders = 0

    def install(self, *what: str | Path) -> str:
        """Install packages into the environment, which is made if necessary."""
        if not self.bin.exists():
            venv.create(self.root / "env", with_pip=True)
        constraints = ROOT / "constraints.txt"
        pip = [str(self.bin / "python"), "-m", "pip", "--disable-pip-version-check"]
        printed = run([*pip, "install", "--constraint", constraints, *what], self.folder(), _plain())
        require("does not provide the extra" not in printed, printed)
        run([*pip, "check"], self.folder(), _plain())
        return f"{len(list(self.root.glob('env/lib/python*/site-packages/*.dist-info')))} packages"

    def folder(self) -> Path:
        """Make a new empty folder."""
        self._folders += 1
        folder = self.root / f"{self._folders}"
        folder.mkdir(parents=True)
        return folder

    def run(self, *command: str | Path, folder: Path | None = None) -> str:
        """Run a command of this environment and return its output."""
        data = os.environ.get("EUNOE_DATA", Path.home() / ".cache" / "eunoe")
        # Short, since the paths of Ray's sockets have a length limit.
        home = self.root.parent / "h"
        home.mkdir(exist_ok=True)
        own = {"HOME": str(home), "TMPDIR": str(home), "EUNOE_DATA": str(data)}
        path = f"{self.bin}{os.pathsep}{os.environ['PATH']}"
        name, *rest = command
        return run([self.bin / name, *rest], folder or self.folder(), {**_plain(), **own, "PATH": path})

    def start(self, limit: float, *command: str) -> str:
        """Check the shortest time that a command takes in several starts."""
        taken: list[float] = []
        while len(taken) < STARTS or (min(taken) >= limit and len(taken) < MOST_STARTS):
            start = time.monotonic()
            self.run(*command)
            taken.append(time.monotonic() - start)
        require(min(taken) < limit, f"it takes {min(taken):.2f} s, which should be below {limit} s")
        return f"{min(taken):.2f} s (below {limit:g})"

    def loads(self, code: str, unwanted: set[str]) -> None:
        """Check that code imports none of the unwanted packages."""
        report = "import sys; print('loaded:', *{name.partition('.')[0] for name in sys.modules})"
        loaded = self.run("python", "-c", f"{code}\n{report}").splitlines()[-1].split()
        heavy = sorted(unwanted & set(loaded))
        require(not heavy, f"it imports {', '.join(heavy)}")

    def demo(self) -> None:
        """Check that the demo prints its table and writes its report."""
        folder = self.folder()
        printed = self.run("eunoe", "demo", folder=folder)
        require("FedAvg + WSM" in printed and (folder / "runs/demo/report.html").stat().st_size > 0, printed)

    def reproduce(self) -> None:
        """Check that an experiment runs at its small scale."""
        printed = self.run("eunoe", "reproduce", EXHIBIT, "--scale", "small", "--seeds", "0")
        require("SMALL SCALE" in printed, printed)

    def commands(self) -> None:
        """Check the way from a table to predictions: init, run, cure, report and predict."""
        folder = self.folder()
        rows = [f"{number % 7},{number % 11},{'yes' if number % 7 > 3 else 'no'}" for number in range(400)]
        (folder / "rows.csv").write_text("\n".join(["dose,age,ill", *rows]), "utf-8")
        for command in (
            "init rows.csv --label ill --clients 4",
            "run config.toml --set rounds=10 --out run",
            "cure run --budget 5m --trials 1",
            "report run run-cure --out report.html",
        ):
            self.run("eunoe", *command.split(), folder=folder)
        printed = self.run("eunoe", "predict", "run", "rows.csv", folder=folder)
        require(len(printed.splitlines()) == 401 and "P(yes)" in printed, printed[:200])

    def papers(self) -> str:
        """Check that the experiments are listed."""
        lines = self.run("eunoe", "papers").splitlines()
        require(len(lines) > 20, "\n".join(lines))
        return f"{len(lines)} lines"

    def example(self, path: Path) -> None:
        """Run an example: a script, a config by `eunoe run`, or a module by the command in its docstring."""
        folder = self.folder()
        shutil.copy(path, folder)
        text = path.read_text("utf-8")
        command = re.search(r"^(eunoe run .*?)(?:  .*)?$", text, re.MULTILINE)
        if path.suffix == ".toml":
            self.run("eunoe", "run", path.name, folder=folder)
        elif "__main__" not in text and command is not None:
            self.run(*shlex.split(command[1]), folder=folder)
        else:
            require(bool(self.run("python", path.name, folder=folder).strip()), "it prints nothing")

    def federation(self) -> None:
        """Check that the federation of `eunoe flower init` runs over the network of this machine."""
        folder = self.folder()
        self.run("eunoe", "flower", "init", "app", "--nodes", "2", "--port", "18443", folder=folder)
        self.run("python", "start.py", folder=folder / "app")
        require('"finished"' in (folder / "app/run/status.json").read_text("utf-8"), "the run did not finish")

    def speed(self) -> None:
        """Check that no engine got slower by more than 5% against a bare loop; the machine should be idle."""
        command: list[str | Path] = [
            self.bin / "python",
            "-m",
            "benchmarks.engines",
            "serial",
            "process",
            "vectorized",
        ]
        printed = run(command, ROOT, _plain())
        require("SLOWER" not in printed, printed)

    def trackers(self) -> None:
        """Check that every tracker accepts a run; one that fails causes only a warning."""
        printed = self.run("eunoe", "run", "--set", "rounds=3", "--set", f"track={TRACKERS}")
        require("warning" not in printed, printed)


def main() -> int:
    """Check the environments named on the command line, or all."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    known = [CORE, *distributions.EXTRAS]
    chosen = sys.argv[1:] or known
    if not set(chosen) <= set(known):
        sys.exit(f"the environments are {', '.join(known)}")
    checks = Checks()
    with tempfile.TemporaryDirectory(prefix="eunoe-") as name:
        wheel = check_distributions(checks, Path(name))
        for extra in chosen:
            if wheel is not None:
                check_installed(checks, Installed(Path(name), extra), wheel)
                shutil.rmtree(Path(name) / extra)
    print("; ".join(["failed", *checks.failed]) if checks.failed else "the release is good")
    return 1 if checks.failed else 0


def check_distributions(checks: Checks, root: Path) -> Path | None:
    """Build both distributions in their own environment and check them; return the wheel."""
    builder, dist = Installed(root, "build"), root / "dist"
    python = builder.bin / "python"
    if not checks.step("build", "install hatchling", lambda: builder.install("hatchling")):
        return None
    make = partial(distributions.build, python, ROOT, dist, _plain(), "sdist", "wheel")
    if not checks.step("build", "sdist and wheel", make):
        return None
    sdist, wheel = distributions.only(dist, "*.tar.gz"), distributions.only(dist, "*.whl")
    rebuild = partial(distributions.check_rebuilt, sdist, wheel, python, root, _plain())
    checks.step("build", "sdist has the files in git", lambda: distributions.check_source(sdist, ROOT))
    checks.step("build", "wheel has the files in src", lambda: distributions.check_wheel(wheel, ROOT))
    checks.step("build", "metadata", lambda: distributions.check_metadata(wheel, ROOT))
    checks.step("build", "sdist builds the same wheel", rebuild)
    return wheel


def check_installed(checks: Checks, installed: Installed, wheel: Path) -> None:
    """Install the wheel with an extra and use it."""
    extra = installed.extra
    what = f"{wheel}[{extra}]" if extra != CORE else str(wheel)
    if not checks.step(extra, "install the wheel", lambda: installed.install(what)):
        return
    imports, helps = ("python", "-c", "import eunoe"), ("eunoe", "--help")
    library, command = (
        partial(installed.loads, LOADED_BY_LIBRARY, HEAVY),
        partial(installed.loads, LOADED_BY_COMMAND),
    )
    checks.step(extra, "import eunoe", lambda: installed.start(IMPORT_SECONDS, *imports))
    checks.step(extra, "eunoe --help", lambda: installed.start(HELP_SECONDS, *helps))
    checks.step(extra, "all public names load nothing heavy", library)
    checks.step(extra, "eunoe --help loads nothing heavy", lambda: command(HEAVY | {"torch"}))
    checks.step(extra, "eunoe demo", installed.demo)
    checks.step(extra, "eunoe init, run, cure, report, predict", installed.commands)
    checks.step(extra, "eunoe papers", installed.papers)
    checks.step(extra, f"eunoe reproduce {EXHIBIT} --scale small", installed.reproduce)
    if extra == CORE:
        checks.step(extra, "engines are as fast as stored", installed.speed)
    if extra == "flower":
        checks.step(extra, "eunoe flower init, python start.py", installed.federation)
    if extra == "track":
        checks.step(extra, "eunoe run with every tracker", installed.trackers)
    for path, extras in examples().items():
        if extras[0] == extra:
            if extras[1:]:
                also = partial(installed.install, f"{wheel}[{','.join(extras)}]")
                checks.step(extra, f"install {', '.join(extras[1:])} too", also)
            checks.step(extra, f"examples/{path.name}", partial(installed.example, path))


def examples() -> dict[Path, list[str]]:
    """Return the examples with the extras that each needs, from the pip command in its text."""
    extras = {}
    for path in sorted((ROOT / "examples").glob("*.*")):
        command = re.search(r"pip install .*'\.\[([\w,]+)\]'", path.read_text("utf-8"))
        extras[path] = command[1].split(",") if command else [CORE]
    return extras


def _plain() -> dict[str, str]:
    """Return the environment variables without those that change where Python imports from."""
    return {k: v for k, v in os.environ.items() if not k.startswith("PYTHON") and k != "VIRTUAL_ENV"}


if __name__ == "__main__":
    sys.exit(main())
