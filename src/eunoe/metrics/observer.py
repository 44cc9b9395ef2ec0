"""Measures forgetting in anybody's PyTorch loop: show it the start, each local and the merged model."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor, nn

from eunoe.errors import InputError
from eunoe.metrics import forgetting
from eunoe.records.reader import RunRecords
from eunoe.records.summary import Summary, summarize
from eunoe.system.files import plain

Batches = tuple[Tensor, Tensor] | Iterable[tuple[Tensor, Tensor]]
Record = dict[str, Any]


class Forgetting:
    """Watches a federated loop and tells what is forgotten: which class, by local training or by the merge.

    `data` is the test set: a pair of tensors (x, y), or a loader of such batches. Each round, call `local`
    once per client after its training and `merged` once with the new global model; call `start` before the
    first round (and again only if the global model changes between rounds). Models are left as they were and
    no random number is drawn.
    """

    def __init__(
        self,
        data: Batches,
        classes: int,
        *,
        name: str = "run",
        class_names: Sequence[str] | None = None,
        batch_size: int = 512,
    ) -> None:
        if class_names is not None and len(class_names) != classes:
            raise InputError(f"there are {len(class_names)} class names for {classes} classes")
        self.data, self.classes, self.name, self.batch_size = data, classes, name, batch_size
        self.class_names = list(class_names) if class_names is not None else None
        self.metrics: list[Record] = []
        self.probes: list[Record] = []
        self._history: list[Any] = []
        self._begin: tuple[Any, float] | None = None
        self._clear()

    def _clear(self) -> None:
        self._clients: list[int] = []
        self._hidden: list[int] = []
        self._local: list[tuple[Any, float]] = []
        self._counts: list[Any] = []
        self._drift = forgetting.DriftSum()

    def start(self, model: nn.Module) -> None:
        """The model that the clients of the next round start from."""
        self._begin, self._weights = self._evaluate(model), _flat(model)
        self._clear()

    def local(self, client: int, model: nn.Module, label_counts: ArrayLike | None = None) -> None:
        """A client's trained model; with its train label counts [classes], also client forgetting."""
        if self._begin is None:
            raise InputError("call start(model) with the model the clients start from before local(...)")
        if client in self._clients:
            raise InputError(
                f"client {client} was shown twice in one round; call merged(model) between rounds"
            )
        self._clients.append(client)
        self._local.append(self._evaluate(model))
        self._counts.append(None if label_counts is None else np.asarray(label_counts, np.float64))
        self._drift.add(_flat(model) - self._weights)

    def hidden(self, client: int) -> None:
        """A client that took part but whose own model nobody may see, as under secure aggregation.

        A round of hidden clients has round forgetting only: local training and merge cannot be told apart.
        """
        self._hidden.append(client)

    def merged(self, model: nn.Module, round: int | None = None) -> None:
        """The new global model: ends the round; the next round starts from it.

        Rounds are counted from 1; give the number where the caller has one, so that a round without a merge
        leaves a gap.
        """
        if self._begin is None or not (self._local or self._hidden):
            raise InputError("call start(model), then local(client, model) per client, before merged(model)")
        start, end = self._begin, self._evaluate(model)
        number = round or (self.metrics[-1]["round"] + 1 if self.metrics else 1)
        lost = forgetting.round_forgetting(self._history[-1], end[0]) if self._history else None
        self._history.append(end[0])
        self.metrics.append(
            {
                "schema": 1,
                "round": number,
                "clients": self._clients + self._hidden,
                "dropped": [],
                "test": {"accuracy": self._accuracy(end[0]), "loss": end[1], "per_class": plain(end[0])},
                "forgetting": {"round": lost, "fedntd": plain(forgetting.fedntd_score(self._history))},
            }
        )
        if self._local:
            self._probe(number, start, end)
        self._begin, self._weights = end, _flat(model)
        self._clear()

    def _probe(self, number: int, start: tuple[Any, float], end: tuple[Any, float]) -> None:
        """Record what local training and the merge did in this round."""
        per_class = np.stack([accuracy for accuracy, _ in self._local])
        counted = all(counts is not None for counts in self._counts)
        common = {"schema": 1, "round": number}
        self.probes.append(
            {
                **common,
                "probe": "local_per_class",
                "clients": self._clients,
                "start": plain(start[0]),
                "local": plain(per_class),
                "merged": plain(end[0]),
                "counts": plain(np.stack(self._counts)) if counted else None,
                "loss": {"start": start[1], "local": [loss for _, loss in self._local], "merged": end[1]},
            }
        )
        if counted:
            counts = np.stack(self._counts)
            self.probes.append(
                {
                    **common,
                    "probe": "client_matrix",
                    "models": self._clients,
                    "data": self._clients,
                    "start": plain(forgetting.reweighted_accuracy(start[0], counts)),
                    "after": plain(forgetting.reweighted_accuracy(per_class, counts)),
                }
            )
        moved = self._drift.result()
        self.probes.append(
            {
                **common,
                "probe": "drift",
                "clients": self._clients,
                "from_start": plain(moved.from_start),
                "apart": plain(moved.apart),
                "cosine": plain(moved.cosine),
            }
        )

    @property
    def records(self) -> RunRecords:
        """All that was measured, in the form that the figures and the page take."""
        if not self.metrics:
            raise InputError("there is nothing to show yet: no round has ended with merged(model)")
        return RunRecords(self.name, self.metrics, self.probes, class_names=self.class_names)

    def summary(self) -> Summary:
        """The numbers so far as a dict; printed, it says them in plain words."""
        return summarize(self.records)

    def report(self, path: str | Path) -> Path:
        """Write the page with all figures of this loop, one HTML file that needs no network."""
        from eunoe.report.html import write_report

        return write_report([self.records], path)

    def _accuracy(self, per_class: Any) -> float:
        return float(forgetting.reweighted_accuracy(per_class, self._label_counts[None])[0])

    def _evaluate(self, model: nn.Module) -> tuple[Any, float]:
        """Per-class accuracy and mean cross-entropy on the test set; the model stays as it was."""
        training = [module for module in model.modules() if module.training]
        device = next((parameter.device for parameter in model.parameters()), torch.device("cpu"))
        predicted, labels, total = [], [], 0.0
        model.eval()
        try:
            # Merely iterating a DataLoader draws from the global generator.
            with torch.inference_mode(), torch.random.fork_rng(devices=[]):
                for x, y in self._batches():
                    logits = model(x.to(device)).float()
                    y = y.to(device)
                    total += float(nn.functional.cross_entropy(logits, y, reduction="sum"))
                    predicted.append(logits.argmax(dim=1).cpu())
                    labels.append(y.cpu())
        finally:
            for module in training:
                module.training = True
        if not labels:
            raise InputError("the test data are empty")
        truth = torch.cat(labels).numpy()
        self._label_counts = np.bincount(truth, minlength=self.classes)
        if len(self._label_counts) > self.classes:
            raise InputError(f"the test data have label {truth.max()}, but classes={self.classes}")
        guess = torch.cat(predicted).numpy()
        return forgetting.per_class_accuracy(guess, truth, self.classes), total / len(truth)

    def _batches(self) -> Iterable[tuple[Tensor, Tensor]]:
        if isinstance(self.data, tuple) and len(self.data) == 2 and isinstance(self.data[0], Tensor):
            x, y = self.data
            return zip(torch.split(x, self.batch_size), torch.split(y, self.batch_size), strict=True)
        return self.data


def _flat(model: nn.Module) -> Any:
    return torch.cat([p.detach().reshape(-1).double().cpu() for p in model.parameters()]).numpy()
