"""Add generated pages to the site: one per method, the API, and the figures of results/.

Links in the pages work in a clone. On the site, links to files outside docs/ lead to the repository.
"""

import sys
from importlib import import_module
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

from eunoe.config import registry

# tools/ is not installed.
sys.path.insert(0, str(Path(__file__).parent.parent))

from method_pages import compatibility, method_page, overview
from tools.summaries import OUT, list_figures

# Packages with public names, in the order of the API page.
KINDS = ("methods", "losses", "metrics", "server", "engines", "data", "models", "flower")
PUBLIC = ("eunoe", *(f"eunoe.{kind}" for kind in KINDS))


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add a page for each method, the API, and the figures of the results."""
    pages = {f"methods/{name}.md": method_page(name) for name in registry.names("method")}
    pages["api.md"] = api_page()
    pages["compatibility.md"] = compatibility()
    for path, content in pages.items():
        files.append(File.generated(config, path, content=content))
    for figure in list_figures():
        content = (OUT / figure).read_bytes()
        files.append(File.generated(config, f"results/{figure}", content=content))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Point links that leave docs/ to the repository, and the table of methods to their pages."""
    if page.file.src_uri == "methods.md":
        return overview(lambda name: f"methods/{name}.md")
    if page.file.src_uri.startswith("papers/"):
        return markdown.replace("](../../results/figures/", "](../results/figures/")
    markdown = markdown.replace("](../results/figures/", "](results/figures/")
    return markdown.replace("](../", f"]({config.repo_url}/blob/main/")


def api_page() -> str:
    """Return the API page: the docstrings of all public names."""
    lines = ["# API"]
    for module in PUBLIC:
        package = import_module(module)
        names = getattr(package, "__all__", None) or [name for name in vars(package) if name[0].isupper()]
        lines.append(f"## {module}")
        lines += [f"::: {module}.{name}" for name in names if not name.startswith("_")]
    return "\n\n".join(lines) + "\n"
