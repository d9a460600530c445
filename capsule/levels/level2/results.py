"""Results of an evaluation on their way from the network to loss and quality."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from ..catalog import training
from ..data import predictions
from ..frameworks.base import NativeTensor, Transfer
from .prepared import Prepared

MOST_BYTES = 1 << 28
"""Bytes of predictions and labels that wait for one copy from the device."""


class Results:
    """Results that the host reads batch by batch.

    Attributes:
        evaluation: Quality and predictions of what was added.
    """

    def __init__(self, trial: Prepared) -> None:
        """Create results of no batch."""
        self._trial = trial
        self._total = 0.0
        self.evaluation = predictions.Evaluation(trial.quality)

    def place(self, arrays: Mapping[str, Any]) -> dict[str, NativeTensor]:
        """Return the inputs of a batch as tensors on the device."""
        return self._trial.place(arrays)

    def add(
        self, output: NativeTensor, loss: NativeTensor, inputs: Mapping[str, Any], samples: int
    ) -> None:
        """Count a batch.

        Args:
            output: Output of the network by which it is judged.
            loss: Mean loss of the batch.
            inputs: Arrays that the graph was given.
            samples: Number of samples.
        """
        framework = self._trial.framework
        self._total += float(framework.to_numpy(loss)) * samples
        self.evaluation.add(framework.to_numpy(output), inputs, samples)

    def total(self) -> float:
        """Return the sum over all samples of their mean losses."""
        return self._total


class _Held(NamedTuple):
    """One batch.

    Attributes:
        loss: On the device.
        output: On the device, classes where the quality is made of these.
        scores: Number of classes; 0 where none is chosen.
        due: Labels, by the name of the input.
        samples: Number of samples.
    """

    loss: NativeTensor
    output: NativeTensor
    scores: int
    due: Mapping[str, Any]
    samples: int


class ResultsOnDevice(Results):
    """Results that a device keeps until one copy brings those of many batches.

    Classes are chosen on the device. Loss and quality are those of `Results`, bit by bit.
    """

    def __init__(self, trial: Prepared, transfer: Transfer) -> None:
        """See `Results`."""
        super().__init__(trial)
        self._transfer = transfer
        self._classifies = trial.quality in training.CLASSIFIES
        self._held: list[_Held] = []
        self._bytes = 0

    def place(self, arrays: Mapping[str, Any]) -> dict[str, NativeTensor]:
        """Copy while the device computes the batch before."""
        dtype = self._trial.dtype
        pinned = {name: self._transfer.pin(array, dtype) for name, array in arrays.items()}
        return self._transfer.receive(self._transfer.send(pinned))

    def add(
        self, output: NativeTensor, loss: NativeTensor, inputs: Mapping[str, Any], samples: int
    ) -> None:
        """See `Results`."""
        name, scores = predictions.DUE[self._trial.quality], 0
        due = {name: inputs[name]}
        if self._classifies:
            scores, output = output.shape[1], self._transfer.choose(output)
        self._held.append(_Held(loss, output, scores, due, samples))
        self._bytes += output.numel() * output.element_size() + due[name].nbytes
        if self._bytes >= MOST_BYTES:
            self._read()

    def total(self) -> float:
        """Read what the device still keeps."""
        self._read()
        return self._total

    def _read(self) -> None:
        held, self._held, self._bytes = self._held, [], 0
        if not held:
            return
        tensors = [tensor for one in held for tensor in (one.loss, one.output)]
        arrays = iter(self._transfer.read(tensors))
        for one in held:
            self._total += float(next(arrays)) * one.samples
            output = next(arrays)
            if self._classifies:
                chosen = output.astype(predictions.find_class_type(one.scores))
                self.evaluation.count(chosen, one.due, one.samples)
            else:
                self.evaluation.add(output, one.due, one.samples)


def start(trial: Prepared) -> Results:
    """Return results for the trial's framework and device."""
    transfer = trial.framework.transfer
    return Results(trial) if transfer is None else ResultsOnDevice(trial, transfer())
