"""`eunoe list`, `eunoe options` and the command's own help."""

import subprocess
import sys

import pytest

from eunoe import __version__
from eunoe.config import registry
from tests.cli.command import eunoe


@pytest.mark.parametrize(
    ("what", "kind"),
    [
        ("methods", "method"),
        ("losses", "loss"),
        ("server_optimizers", "server_optimizer"),
        ("models", "model"),
        ("data", "data_set"),
        ("partitions", "partition"),
        ("trackers", "tracker"),
    ],
)
def test_every_name_is_listed(what: str, kind: str) -> None:
    outcome = eunoe("list", what)
    assert outcome.code == 0
    # A row that goes on in the next line has an empty cell there.
    cells = [line.split("│")[1].strip() for line in outcome.out.splitlines() if line.startswith("│")]
    assert [cell for cell in cells if cell] == registry.names(kind)
    if kind == "method":
        assert "client state" in outcome.out


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ((), "participation"),
        (("training",), "Learning rate in round 1."),
        (("shift",), "strength"),
        (("method",), "eunoe options method:"),
        (("track",), "names: mlflow, tensorboard"),
        (("loss:fedlc",), "tau"),
        (("model:mlp",), "a list of integers"),
        (("data:npz",), "a path"),
        (("data:table",), "`client` is the column of client ids"),
        (("data_set:hub",), "text or a list of texts"),
        (("partition:dirichlet",), "Concentration"),
        (("augment",), "true or false"),
        (("averaging",), "decay"),
        (("engine",), "names: process, ray, serial"),
        (("training",), "one of sgd, adam, adamw"),
        (("server_optimizer:adam",), "lr"),
        (("method:examples.bounded_updates:BoundedUpdates",), "bound"),
    ],
)
def test_options_are_explained(name: tuple[str, ...], says: str) -> None:
    outcome = eunoe("options", *name)
    assert outcome.code == 0
    assert says in outcome.out
    for word in ("None", "True", "False", "typing", "pydantic", "Annotated", "<class", "('"):
        assert word not in outcome.out


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("trainin", "did you mean 'training'?"),
        ("seed", "seed is a single value"),
        ("lss:ce", "did you mean 'loss'?"),
        ("loss:wms", "did you mean 'wsm'?"),
    ],
)
def test_options_of_nothing(name: str, says: str) -> None:
    outcome = eunoe("options", name)
    assert outcome.code == 2
    assert says in outcome.error


def test_a_word_that_is_no_command_or_kind() -> None:
    assert eunoe("lst").code == 2
    listed = eunoe("list", "loses")
    assert listed.code == 2
    assert "unknown kind 'loses'; did you mean 'losses'?" in listed.error
    assert eunoe("run", "--fast").code == 2


@pytest.mark.parametrize(
    "command", ["run", "sweep", "compare", "export", "list", "options", "demo", "report", "papers", "data"]
)
def test_help_everywhere(command: str) -> None:
    outcome = eunoe(command, "--help")
    assert outcome.code == 0
    assert "--help" in outcome.out


def test_the_command_imports_nothing_heavy_before_it_must() -> None:
    heavy = ("torch", "sklearn", "pyarrow", "altair", "ray", "flwr", "huggingface_hub", "PIL", "pandas")
    code = (
        "import sys; sys.argv = ['eunoe', '--help']\n"
        "from eunoe.cli.app import main\n"
        "try: main()\n"
        "except SystemExit as end: assert not end.code\n"
        f"print('heavy:', [name for name in {heavy!r} if name in sys.modules])"
    )
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert shown.stdout.splitlines()[-1] == "heavy: []"


def test_the_version_is_printed() -> None:
    assert eunoe("--version").out == f"eunoe {__version__}\n"
