"""Names of data pipes, which packages import for `isinstance` and decorators; there are datasets instead."""

from __future__ import annotations

from rgrad._absent import absent_class, absent_function

_HERE = "torch.utils.data"
_WHY = "data pipes are no longer developed; Dataset and IterableDataset are here"

IterDataPipe = absent_class(f"{_HERE}.IterDataPipe", _WHY)
MapDataPipe = absent_class(f"{_HERE}.MapDataPipe", _WHY)
DFIterDataPipe = absent_class(f"{_HERE}.DFIterDataPipe", _WHY)
DataChunk = absent_class(f"{_HERE}.DataChunk", _WHY)
functional_datapipe = absent_class(f"{_HERE}.functional_datapipe", _WHY)
guaranteed_datapipes_determinism = absent_class(f"{_HERE}.guaranteed_datapipes_determinism", _WHY)
non_deterministic = absent_class(f"{_HERE}.non_deterministic", _WHY)
runtime_validation_disabled = absent_class(f"{_HERE}.runtime_validation_disabled", _WHY)
argument_validation = absent_function(f"{_HERE}.argument_validation", _WHY)
runtime_validation = absent_function(f"{_HERE}.runtime_validation", _WHY)
