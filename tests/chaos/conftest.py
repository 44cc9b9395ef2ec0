"""Reports the injected faults at the end of the tests."""

from collections import Counter

import pytest

happened: Counter[str] = Counter()


@pytest.fixture
def tally() -> Counter[str]:
    """Where a test counts the faults that happened, by kind."""
    return happened


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if happened:
        kinds = ", ".join(f"{count} {kind}" for kind, count in sorted(happened.items()))
        terminalreporter.write_line(f"{happened.total()} faults survived: {kinds}")
