"""A module's parameters, gradients and buffers as flat vectors.

The module's tensors become views into these vectors, so every federated method is arithmetic on whole
vectors. There are three: trainable parameters, float buffers (normalization statistics) and integer buffers
(counters). Frozen parameters are in none of them: they are neither trained nor sent.
"""

from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn
from torch.func import functional_call

from eunoe.core.fields import Arguments, Input, arguments, logits_of, takes_whole
from eunoe.errors import InputError, first_line
from eunoe.system.files import check_regular

_NO_CAST = nullcontext()

# Named vectors: the state of a server or a client, or a message between them.
Vectors = dict[str, Tensor]


@dataclass(frozen=True)
class Weights:
    """The trainable state of a model: parameters, float buffers and integer buffers, one vector each."""

    parameters: Tensor
    float_buffers: Tensor
    int_buffers: Tensor

    @classmethod
    def from_vectors(cls, vectors: Mapping[str, Tensor]) -> "Weights":
        """Make weights from their three vectors by name; others are ignored."""
        return cls(vectors["parameters"], vectors["float_buffers"], vectors["int_buffers"])

    def vectors(self) -> Vectors:
        """Return the three vectors by name, as in files, messages and shared memory."""
        return {name: getattr(self, name) for name in ("parameters", "float_buffers", "int_buffers")}

    def copy(self) -> "Weights":
        return Weights(self.parameters.clone(), self.float_buffers.clone(), self.int_buffers.clone())

    def to(self, device: torch.device | str) -> "Weights":
        """Move to a device, without a copy if they are there already."""
        return Weights(self.parameters.to(device), self.float_buffers.to(device), self.int_buffers.to(device))


class FlatModel:
    """A module whose trainable parameters, gradients and buffers are views into flat vectors."""

    def __init__(
        self,
        module: nn.Module,
        dtype: torch.dtype = torch.float32,
        device: str = "cpu",
        precision: torch.dtype | None = None,
    ) -> None:
        """Flatten a module; autocast trains in `precision`, and weights stay in `dtype`."""
        self.module = module.to(device=device, dtype=dtype)
        self.dtype, self.device, self.precision = dtype, torch.device(device), precision
        trainable = [(name, p) for name, p in module.named_parameters() if p.requires_grad]
        if not trainable:
            raise InputError("the model has no trainable parameter")
        self.names = [name for name, _ in trainable]
        self.shapes = [p.shape for _, p in trainable]
        self.parameters = torch.cat([p.detach().reshape(-1) for _, p in trainable])
        self.gradient = torch.zeros_like(self.parameters)
        parts = zip(trainable, self.views(self.parameters), self.views(self.gradient), strict=True)
        for (_, parameter), value, gradient in parts:
            parameter.data = value
            parameter.grad = gradient
        self.float_names, self.float_buffers = self._flatten_buffers(floating=True)
        self.integer_names, self.int_buffers = self._flatten_buffers(floating=False)
        self.has_features = hasattr(module, "features") and hasattr(module, "classifier")
        self._both = _FeaturesAndLogits(module) if self.has_features else None
        # Whether the module takes all fields of a batch as one argument; known after the first call.
        self._takes_whole: bool | None = None

    def __reduce__(self) -> tuple[type["FlatModel"], tuple[nn.Module, torch.dtype, str, torch.dtype | None]]:
        # A copy flattens its module again, since pickled views would lose their vectors.
        return FlatModel, (self.module, self.dtype, str(self.device), self.precision)

    def views(self, vector: Tensor) -> list[Tensor]:
        """Return a differentiable view per trainable parameter into a vector of the same layout."""
        return _split(vector, self.shapes)

    @property
    def has_batch_norm(self) -> bool:
        return any(isinstance(m, nn.modules.batchnorm._BatchNorm) for m in self.module.modules())

    def trains_on(self, x: Input) -> bool:
        """Return whether a batch can be trained on; batch norm rejects a single value per channel."""
        if not self.has_batch_norm:
            return True
        before = self.weights.copy()
        with torch.random.fork_rng(devices=[]), torch.no_grad():
            self.module.train()
            try:
                self.forward(x.to(self.device))
            except ValueError:
                return False
            finally:
                self.load(before)
        return True

    @property
    def weights(self) -> Weights:
        """Return the vectors that the module uses, not a copy."""
        return Weights(self.parameters, self.float_buffers, self.int_buffers)

    @cached_property
    def variances(self) -> Tensor:
        """A mask of the float buffers that are variances, as of batch normalization."""
        sizes = {name: self.module.get_buffer(name).numel() for name in self.float_names}
        masks = [torch.full((size,), name.endswith("running_var")) for name, size in sizes.items()]
        return torch.cat([torch.zeros(0, dtype=torch.bool), *masks])

    def load(self, weights: Weights) -> None:
        """Copy these weights into the module."""
        self.parameters.copy_(weights.parameters)
        self.float_buffers.copy_(weights.float_buffers)
        self.int_buffers.copy_(weights.int_buffers)

    def forward(self, x: Input) -> Tensor:
        """Return the logits at the module's own weights."""
        return self._to_dtype(logits_of(self._call(self.module, x)))

    def forward_at(
        self,
        parameters: Tensor,
        x: Input,
        float_buffers: Tensor | None = None,
        int_buffers: Tensor | None = None,
    ) -> Tensor:
        """Return the logits at any parameters; buffers that are passed are updated in training mode."""
        named = self._named(parameters, float_buffers, int_buffers)
        logits = logits_of(self._call(self.module, x, named))
        self._update(float_buffers, named)
        return self._to_dtype(logits)

    def features_at(
        self,
        parameters: Tensor | None,
        x: Input,
        float_buffers: Tensor | None = None,
        int_buffers: Tensor | None = None,
    ) -> tuple[Tensor, Tensor]:
        """Return features and logits, by default at the module's own parameters."""
        if self._both is None:
            raise InputError("this model has no features: it must compute `classifier(features(x))`")
        if parameters is None:
            features, logits = self._call(self._both, x)
        else:
            named = self._named(parameters, float_buffers, int_buffers)
            inner = {f"model.{name}": value for name, value in named.items()}
            features, logits = self._call(self._both, x, inner)
            self._update(float_buffers, named)
        return self._to_dtype(features), self._to_dtype(logits)

    def _call(self, module: nn.Module, x: Input, tensors: dict[str, Tensor] | None = None) -> Any:
        """Call a module on a batch, with these parameters and buffers in place of its own."""
        args, named = self.arguments_of(x)
        with self._autocast():
            return (
                module(*args, **named) if tensors is None else functional_call(module, tensors, args, named)
            )

    @contextmanager
    def evaluating(self) -> Iterator[None]:
        """Switch to evaluation mode in a `with` block."""
        training = self.module.training
        self.module.eval()
        try:
            yield
        finally:
            self.module.train(training)

    def _to_dtype(self, outputs: Tensor) -> Tensor:
        """Convert outputs to the type of the weights."""
        return outputs if self.precision is None else outputs.to(self.dtype)

    def _autocast(self) -> AbstractContextManager[Any]:
        if self.precision is None or not self.module.training:
            return _NO_CAST
        # A cached cast of a weight would outlive the step that changes the weight.
        return torch.autocast(self.device.type, self.precision, cache_enabled=False)

    def arguments_of(self, x: Input) -> Arguments:
        """Return the arguments of the module for a batch."""
        if isinstance(x, Tensor):
            return (x,), {}
        if self._takes_whole is None:
            self._takes_whole = takes_whole(self.module.forward, x)
        return arguments(x, self._takes_whole)

    def _named(
        self, parameters: Tensor, float_buffers: Tensor | None, int_buffers: Tensor | None
    ) -> dict[str, Tensor]:
        named = dict(zip(self.names, self.views(parameters), strict=True))
        for names, vector in ((self.float_names, float_buffers), (self.integer_names, int_buffers)):
            if vector is not None:
                parts = _split(vector, [self.module.get_buffer(name).shape for name in names])
                # Under vmap, batch normalization cannot update views of the vector in place.
                parts = [part.clone() for part in parts] if vector is float_buffers else parts
                named.update(zip(names, parts, strict=True))
        return named

    def _update(self, float_buffers: Tensor | None, named: dict[str, Tensor]) -> None:
        if float_buffers is not None and self.float_names and self.module.training:
            float_buffers.copy_(torch.cat([named[name].reshape(-1) for name in self.float_names]))

    def _flatten_buffers(self, floating: bool) -> tuple[list[str], Tensor]:
        persistent = set(self.module.state_dict())
        buffers = [
            (name, buffer)
            for name, buffer in self.module.named_buffers()
            if name in persistent
            and buffer.dtype is not torch.bool
            and buffer.is_floating_point() == floating
        ]
        dtype = self.dtype if floating else torch.int64
        empty = torch.empty(0, dtype=dtype, device=self.device)
        vector = torch.cat([empty, *(buffer.reshape(-1).to(dtype) for _, buffer in buffers)])
        views = _split(vector, [buffer.shape for _, buffer in buffers])
        for (name, _), view in zip(buffers, views, strict=True):
            owner, _, attribute = name.rpartition(".")
            setattr(self.module.get_submodule(owner), attribute, view)
        return [name for name, _ in buffers], vector


class _FeaturesAndLogits(nn.Module):
    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, *args: Any, **named: Any) -> tuple[Tensor, Tensor]:
        features = self.model.features(*args, **named)  # type: ignore[operator]
        return features, self.model.classifier(features)  # type: ignore[operator]


def _split(vector: Tensor, shapes: list[torch.Size]) -> list[Tensor]:
    """Return a view of each shape into a vector, one after the other."""
    parts = torch.split(vector, [shape.numel() for shape in shapes]) if shapes else ()
    return [part.view(shape) for part, shape in zip(parts, shapes, strict=True)]


def save_state(state: dict[str, Tensor], path: Path, metadata: dict[str, str] | None = None) -> None:
    """Write a state_dict as safetensors."""
    # Copies, since tied weights share a tensor and a file must not hold a tensor twice.
    copies = {name: value.clone(memory_format=torch.contiguous_format) for name, value in state.items()}
    save_file(copies, path, metadata)


def load_state(module: nn.Module, path: Path, partial: bool = False) -> list[str]:
    """Load a state_dict file (.safetensors, or written by torch.save) into a module.

    Returns the names that the file lacks. Missing or unexpected names and other shapes raise InputError
    unless `partial` is set, which loads the tensors that match, such as those of a backbone.
    """
    try:
        check_regular(path)
        state: Any = (
            load_file(path)
            if path.suffix == ".safetensors"
            else torch.load(path, map_location="cpu", weights_only=True)
        )
    except FileNotFoundError:
        raise InputError(f"model file {path} not found") from None
    except InputError:
        raise
    except Exception as error:  # Both loaders raise errors of many types.
        raise InputError(f"cannot read {path} as a state_dict file: {first_line(error)}") from None
    if not isinstance(state, dict):
        raise InputError(f"{path} is not a state_dict file: it holds a {type(state).__name__}")
    expected = module.state_dict()
    fits = {
        name: value
        for name, value in state.items()
        if name in expected and isinstance(value, Tensor) and value.shape == expected[name].shape
        # Tensors that are sparse, quantized or without data cannot be copied.
        if value.layout == torch.strided and not value.is_quantized and not value.is_meta
    }
    missing = sorted(set(expected) - set(fits))
    unexpected = sorted(set(state) - set(fits), key=str)
    if not fits:
        raise InputError(f"no tensor of {path} matches the model")
    if (mismatched := unexpected or missing) and not partial:
        raise InputError(
            f"{path} does not match the model (first at {mismatched[0]!r}): set model.partial = true"
        )
    module.load_state_dict(fits, strict=False)
    return missing
