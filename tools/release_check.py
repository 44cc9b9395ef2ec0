"""`make release-check`: builds the release, installs it into empty environments and uses it from there.

Each environment is made, used and removed in turn; commands run in empty folders, with a home of their own
and none of Python's variables, so that nothing of the checkout can help. It needs Python, pip and git; the
recipe needs its data set, as `eunoe reproduce` does.
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
RECIPE = "flashback-fig8"
IMPORT_SECONDS, HELP_SECONDS = 2.0, 1.0
# As many starts show how fast one is; on a busy machine more are tried.
STARTS, MOST_STARTS = 5, 40
# Slow to import, and so only where used; the command does without torch as well.
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
    """An environment that has the wheel with one extra, and an empty folder for each command."""

    def __init__(self, root: Path, extra: str) -> None:
        self.extra, self.root = extra, root / extra
        self.bin = self.root / "env" / "bin"
        self._folders = 0

    def install(self, *what: str | Path) -> str:
        """Make the environment, from nothing but pip, or add to it."""
        if not self.bin.exists():
            venv.create(self.root / "env", with_pip=True)
        constraints = ROOT / "constraints.txt"
        pip = [str(self.bin / "python"), "-m", "pip", "--disable-pip-version-check"]
        printed = run([*pip, "install", "--constraint", constraints, *what], self.folder(), _plain())
        require("does not provide the extra" not in printed, printed)
        run([*pip, "check"], self.folder(), _plain())
        return f"{len(list(self.root.glob('env/lib/python*/site-packages/*.dist-info')))} packages"

    def folder(self) -> Path:
        """A new empty folder."""
        self._folders += 1
        made = self.root / f"{self._folders}"
        made.mkdir(parents=True)
        return made

    def run(self, *command: str | Path, folder: Path | None = None) -> str:
        """What a command of this environment prints."""
        data = os.environ.get("EUNOE_DATA", Path.home() / ".cache" / "eunoe")
        # Short, because the names of Ray's sockets may not be long.
        home = self.root.parent / "h"
        home.mkdir(exist_ok=True)
        own = {"HOME": str(home), "TMPDIR": str(home), "EUNOE_DATA": str(data)}
        path = f"{self.bin}{os.pathsep}{os.environ['PATH']}"
        name, *rest = command
        return run([self.bin / name, *rest], folder or self.folder(), {**_plain(), **own, "PATH": path})

    def start(self, limit: float, *command: str) -> str:
        """The least time that a command takes in several starts: what else the machine does is not in it."""
        taken: list[float] = []
        while len(taken) < STARTS or (min(taken) >= limit and len(taken) < MOST_STARTS):
            begun = time.monotonic()
            self.run(*command)
            taken.append(time.monotonic() - begun)
        require(min(taken) < limit, f"{min(taken):.2f} s at the least, and it should be below {limit} s")
        return f"{min(taken):.2f} s (below {limit:g})"

    def loads(self, code: str, unwanted: set[str]) -> None:
        """None of the unwanted packages is imported by this code."""
        told = "import sys; print('loaded:', *{name.partition('.')[0] for name in sys.modules})"
        printed = self.run("python", "-c", f"{code}\n{told}").splitlines()[-1]
        found = sorted(unwanted & set(printed.split()))
        require(not found, f"it imports {', '.join(found)}")

    def demo(self) -> None:
        """The demo prints its table and writes its page."""
        folder = self.folder()
        printed = self.run("eunoe", "demo", folder=folder)
        require("FedAvg + WSM" in printed and (folder / "runs/demo/report.html").stat().st_size > 0, printed)

    def reproduce(self) -> None:
        """A recipe runs at its small scale and compares its numbers with the paper's."""
        printed = self.run("eunoe", "reproduce", RECIPE, "--scale", "small", "--seeds", "0")
        require("SMALL SCALE" in printed, printed)

    def papers(self) -> str:
        """Every table and figure of the papers is listed."""
        lines = self.run("eunoe", "papers").splitlines()
        require(len(lines) > 20, "\n".join(lines))
        return f"{len(lines)} lines"

    def example(self, path: Path) -> None:
        """A script is run; a config is given to `eunoe run`; a module runs by the command that it tells."""
        folder = self.folder()
        shutil.copy(path, folder)
        text = path.read_text("utf-8")
        told = re.search(r"^(eunoe run .*?)(?:  .*)?$", text, re.MULTILINE)
        if path.suffix == ".toml":
            self.run("eunoe", "run", path.name, folder=folder)
        elif "__main__" not in text and told is not None:
            self.run(*shlex.split(told[1]), folder=folder)
        else:
            require(bool(self.run("python", path.name, folder=folder).strip()), "it prints nothing")

    def federation(self) -> None:
        """The federation that `eunoe flower init` writes runs over the network of this machine."""
        folder = self.folder()
        self.run("eunoe", "flower", "init", "app", "--nodes", "2", "--port", "18443", folder=folder)
        self.run("python", "start.py", folder=folder / "app")
        require('"finished"' in (folder / "app/run/status.json").read_text("utf-8"), "the run has not ended")

    def trackers(self) -> None:
        """Every tracker takes a run's numbers and figures; one that fails would only be warned of."""
        printed = self.run("eunoe", "run", "--set", "rounds=3", "--set", f"track={TRACKERS}")
        require("warning" not in printed, printed)


def main() -> int:
    """Check what is named on the command line, or all."""
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
    """Build both distributions in an environment of their own and look into them; give the wheel."""
    builder, dist = Installed(root, "build"), root / "dist"
    python = builder.bin / "python"
    if not checks.step("build", "install hatchling", lambda: builder.install("hatchling")):
        return None
    make = partial(distributions.build, python, ROOT, dist, _plain(), "sdist", "wheel")
    if not checks.step("build", "sdist and wheel", make):
        return None
    sdist, wheel = distributions.only(dist, "*.tar.gz"), distributions.only(dist, "*.whl")
    rebuild = partial(distributions.check_rebuilt, sdist, wheel, python, root, _plain())
    checks.step("build", "sdist is what git has", lambda: distributions.check_source(sdist, ROOT))
    checks.step("build", "wheel is what src has", lambda: distributions.check_wheel(wheel, ROOT))
    checks.step("build", "metadata", lambda: distributions.check_metadata(wheel, ROOT))
    checks.step("build", "sdist builds the same wheel", rebuild)
    return wheel


def check_installed(checks: Checks, one: Installed, wheel: Path) -> None:
    """Install the wheel with an extra and use it."""
    extra = one.extra
    what = f"{wheel}[{extra}]" if extra != CORE else str(wheel)
    if not checks.step(extra, "install the wheel", lambda: one.install(what)):
        return
    imports, helps = ("python", "-c", "import eunoe"), ("eunoe", "--help")
    library, command = partial(one.loads, LOADED_BY_LIBRARY, HEAVY), partial(one.loads, LOADED_BY_COMMAND)
    checks.step(extra, "import eunoe", lambda: one.start(IMPORT_SECONDS, *imports))
    checks.step(extra, "eunoe --help", lambda: one.start(HELP_SECONDS, *helps))
    checks.step(extra, "all public names load nothing heavy", library)
    checks.step(extra, "eunoe --help loads nothing heavy", lambda: command(HEAVY | {"torch"}))
    checks.step(extra, "eunoe demo", one.demo)
    checks.step(extra, "eunoe papers", one.papers)
    checks.step(extra, f"eunoe reproduce {RECIPE} --scale small", one.reproduce)
    if extra == "flower":
        checks.step(extra, "eunoe flower init, python start.py", one.federation)
    if extra == "track":
        checks.step(extra, "eunoe run with every tracker", one.trackers)
    for path, extras in examples().items():
        if extras[0] == extra:
            if extras[1:]:
                also = partial(one.install, f"{wheel}[{','.join(extras)}]")
                checks.step(extra, f"install {', '.join(extras[1:])} too", also)
            checks.step(extra, f"examples/{path.name}", partial(one.example, path))


def examples() -> dict[Path, list[str]]:
    """The examples with the extras that each needs, as its text says it is installed."""
    found = {}
    for path in sorted((ROOT / "examples").glob("*.*")):
        told = re.search(r"pip install 'eunoe\[([\w,]+)\]'", path.read_text("utf-8"))
        found[path] = told[1].split(",") if told else [CORE]
    return found


def _plain() -> dict[str, str]:
    """The environment's variables without those that lead Python elsewhere."""
    return {k: v for k, v in os.environ.items() if not k.startswith("PYTHON") and k != "VIRTUAL_ENV"}


if __name__ == "__main__":
    sys.exit(main())
