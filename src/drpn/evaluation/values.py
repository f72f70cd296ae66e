"""Base of the metrics: several named values for each impression."""

from collections.abc import Sequence
from dataclasses import fields
from typing import ClassVar, TypeVar

import numpy as np
from numpy.typing import NDArray

from drpn.dataset.arrays import Array

Floats = NDArray[np.float64]
Self = TypeVar("Self", bound="ImpressionValues")


class ImpressionValues:
    """Base of dataclasses whose fields are arrays with one value per impression; NaN for impressions left out.

    With several seeds the arrays are (seeds, impressions).
    """

    NAMES: ClassVar[tuple[str, ...]]
    """The names of the fields in tables and JSON."""

    @classmethod
    def of_seeds(cls: type[Self], seeds: Sequence[Self]) -> Self:
        """Stack the values of several seeds on the same impressions."""
        return cls(*(np.stack(arrays) for arrays in zip(*(values.by_name().values() for values in seeds), strict=True)))

    @property
    def counted(self) -> NDArray[np.bool_]:
        """Return (impressions): whether the impression is not left out."""
        return np.asarray(~np.isnan(np.atleast_2d(self._arrays()[0])).any(axis=0))

    def by_name(self) -> dict[str, Floats]:
        """Return the arrays by their names."""
        return dict(zip(self.NAMES, self._arrays(), strict=True))

    def mean(self) -> dict[str, float]:
        """Return the mean of each value over the counted impressions; NaN if there are none."""
        counted = self.counted
        if not counted.any():
            return dict.fromkeys(self.NAMES, float("nan"))
        return {name: float(values[..., counted].mean()) for name, values in self.by_name().items()}

    def __getitem__(self: Self, impressions: Array) -> Self:
        return type(self)(*(values[..., impressions] for values in self._arrays()))

    def __len__(self) -> int:
        """Return the number of impressions."""
        return int(self._arrays()[0].shape[-1])

    def _arrays(self) -> list[Floats]:
        return [getattr(self, field.name) for field in fields(self)]  # type: ignore[arg-type]
