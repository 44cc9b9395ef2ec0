"""What it cost a run that its data changed with time, from the phases that it recorded."""

from dataclasses import dataclass

import numpy as np

from eunoe.metrics.phases import recovery
from eunoe.store.run_records import RunRecords


@dataclass(frozen=True)
class DataChanges:
    """The rounds in which data changed, what was lost by it, and how long it took to recover.

    Where classes come in phases, `lost` is what was lost of each earlier phase's best, and nothing is to
    recover, since other classes are asked for. Elsewhere it is how far a phase is below the last third of
    the one before, on average, and `recovered` has a number of rounds for each change, None where the
    accuracy did not come back.
    """

    rounds: tuple[int, ...]
    lost: float
    recovered: tuple[int | None, ...]
    # What it is that was lost.
    metric: str = "accuracy"

    @property
    def sentence(self) -> str:
        """The numbers in words."""
        when = ", ".join(map(str, self.rounds[:5])) + ", ..." * (len(self.rounds) > 5)
        word = "rounds" if len(self.rounds) > 1 else "round"
        cost = f"The data changed in {word} {when}, which cost {100 * self.lost:.1f} points"
        if not self.recovered:
            return f"{cost} on classes of earlier phases."
        back = [rounds for rounds in self.recovered if rounds is not None]
        took = f", after {np.mean(back):.0f} rounds on average" if back else ""
        return f"{cost}; the {self.metric} came back {len(back)} of {len(self.recovered)} times{took}."


def phase_starts(run: RunRecords) -> list[int]:
    """The first rounds of the phases of a stream, but for the first phase; empty without a stream."""
    found: dict[int, int] = {}
    began = dict(zip(*run.series("phases.began"), strict=True))
    for round, phase in zip(*run.series("phases.phase"), strict=True):
        found.setdefault(int(phase), int(began.get(round, round)))
    return [first for phase, first in sorted(found.items()) if phase > 1]


def data_changes(run: RunRecords) -> DataChanges | None:
    """What changes of the data cost; None if they did not change or nothing was measured before or after."""
    starts, curve, at = phase_starts(run), run.curve(run.task.metric), np.array(run.rounds)
    phases = np.searchsorted(starts, at, side="right")
    if len(set(phases.tolist())) < 2:
        return None
    forgotten = run.latest("phases.forgetting")
    if not np.isnan(forgotten):
        return DataChanges(tuple(starts), forgotten, ())
    lost = []
    for number in range(1, len(starts) + 1):
        before, after = curve[phases == number - 1], curve[phases == number]
        if len(before) and len(after):
            last_third = before[-max(1, len(before) // 3) :]
            lost.append(max(0.0, float(last_third.mean() - after.mean())))
    back = tuple(recovery(curve, run.rounds, [1, *starts]))
    return DataChanges(tuple(starts), float(np.mean(lost)), back, run.task.title)
