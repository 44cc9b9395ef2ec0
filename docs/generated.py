"""Pages that the site makes from the code and from results/, so that they cannot fall behind."""

from method_pages import method_page, overview
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from published import OUT, read_published, results_page

from eunoe.config import registry


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the results with their figures, a page for each method, and the table of all methods."""
    names = registry.names("method")
    pages = {"methods.md": overview(names), "results.md": results_page()}
    pages |= {f"methods/{name}.md": method_page(name) for name in names}
    for path, content in pages.items():
        files.append(File.generated(config, path, content=content))
    for shown in read_published():
        figure = OUT / shown.figure
        if figure.exists():
            path = f"results/{shown.recipe}-{shown.scale}.svg"
            files.append(File.generated(config, path, content=figure.read_bytes()))
    return files
