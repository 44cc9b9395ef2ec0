"""Pages that the site makes from the code and from results/, so that they cannot fall behind."""

import sys
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

from eunoe.config import registry

# The tools of the project, which are not installed.
sys.path.insert(0, str(Path(__file__).parent.parent))

from method_pages import method_page, overview
from tools.published import OUT, read_published


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the figures of the results, a page for each method, and the table of all methods."""
    names = registry.names("method")
    pages = {"methods.md": overview(names)}
    pages |= {f"methods/{name}.md": method_page(name) for name in names}
    for path, content in pages.items():
        files.append(File.generated(config, path, content=content))
    for shown in read_published():
        figure = OUT / shown.figure
        if figure.exists():
            files.append(File.generated(config, f"results/{shown.figure}", content=figure.read_bytes()))
    return files


def on_page_markdown(markdown: str, *, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Figures stand beside the site's page of results, and outside docs/ for a reader of the file."""
    del config, files
    return markdown.replace("](../results/", "](results/") if page.file.src_uri == "results.md" else markdown
