"""Build the source distribution and the wheel, and check what they contain."""

import re
import subprocess
import tarfile
import zipfile
from collections.abc import Mapping
from email.message import Message
from email.parser import Parser
from pathlib import Path

from tools.checks import require, run

# Files whose absence no import would notice.
NEEDED = {
    "eunoe/py.typed",
    "eunoe/flower/deploy/templates/nginx.conf.tpl",
    "eunoe_papers/experiments/wsm.toml",
    "eunoe/report/page.html",
    "eunoe/report/report.css",
    "eunoe/report/report.js",
    "eunoe/report/vega.json",
}
FIELDS = ("Summary", "Keywords", "Classifier", "License-Expression", "License-File", "Requires-Python")
EXTRAS = ("ray", "flower", "track")


def build(python: Path, source: Path, out: Path, environment: Mapping[str, str], *targets: str) -> None:
    """Build the distributions of a source tree; a warning is an error."""
    kinds = [word for target in targets for word in ("-t", target)]
    run([python, "-W", "error", "-m", "hatchling", "build", "-d", out, *kinds], source, environment)


def only(folder: Path, pattern: str) -> Path:
    """Return the only file of a folder that matches a pattern."""
    paths = list(folder.glob(pattern))
    require(len(paths) == 1, f"{pattern} should be one file, not {[path.name for path in paths]}")
    return paths[0]


def check_source(sdist: Path, checkout: Path) -> str:
    """Check that the source distribution has exactly the files in git."""
    listed = subprocess.run(["git", "ls-files"], cwd=checkout, capture_output=True, text=True, check=True)
    with tarfile.open(sdist) as archive:
        names = {member.name.partition("/")[2] for member in archive.getmembers() if member.isfile()}
    differ = set(listed.stdout.splitlines()) ^ (names - {"PKG-INFO"})
    require(not differ, f"in git or in the source distribution, but not in both: {sorted(differ)}")
    return f"{len(names)} files, {sdist.stat().st_size / 1e6:.1f} MB"


def check_wheel(wheel: Path, checkout: Path) -> str:
    """Check that the wheel has the whole package, its license and nothing else."""
    names = set(_contents(wheel))
    package = {name for name in names if ".dist-info/" not in name}
    files = [path for path in (checkout / "src").rglob("*") if path.is_file()]
    source = {
        path.relative_to(checkout / "src").as_posix() for path in files if "__pycache__" not in path.parts
    }
    require(package == source, f"in src or in the wheel, but not in both: {sorted(package ^ source)}")
    require(package >= NEEDED, f"not in the wheel: {sorted(NEEDED - package)}")
    require(any(name.endswith("/licenses/LICENSE") for name in names), "the wheel has no license")
    return f"{len(names)} files, {wheel.stat().st_size / 1e6:.1f} MB"


def check_metadata(wheel: Path, checkout: Path) -> str:
    """Check that the metadata are complete and that the version is the same everywhere."""
    metadata = _read_metadata(wheel)
    missing = [field for field in FIELDS if not metadata.get_all(field)]
    require(not missing, f"the metadata lack {missing}")
    extras = metadata.get_all("Provides-Extra") or []
    require(set(extras) >= set(EXTRAS), f"the extras are {extras}")
    require(metadata["Description-Content-Type"] == "text/markdown", "the README is not in the metadata")
    version = metadata["Version"]
    for file, pattern in (("CHANGELOG.md", r"^## (\S+)"), ("CITATION.cff", r"^version: (\S+)")):
        match = re.search(pattern, (checkout / file).read_text("utf-8"), re.MULTILINE)
        require(match is not None and match[1] == version, f"{file} does not name version {version}")
    return f"version {version}"


def check_rebuilt(sdist: Path, wheel: Path, python: Path, root: Path, environment: Mapping[str, str]) -> None:
    """Check that the source distribution alone builds the same wheel."""
    with tarfile.open(sdist) as archive:
        archive.extractall(root / "unpacked", filter="data")
    build(python, only(root / "unpacked", "*"), root / "rebuilt", environment, "wheel")
    first, second = _contents(wheel), _contents(only(root / "rebuilt", "*.whl"))
    differ = sorted(name for name in first.keys() | second.keys() if first.get(name) != second.get(name))
    require(not differ, f"built from the source distribution, these differ: {differ}")


def _contents(wheel: Path) -> dict[str, int]:
    with zipfile.ZipFile(wheel) as archive:
        return {info.filename: info.CRC for info in archive.infolist()}


def _read_metadata(wheel: Path) -> Message:
    with zipfile.ZipFile(wheel) as archive:
        name = next(name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
        return Parser().parsestr(archive.read(name).decode())
