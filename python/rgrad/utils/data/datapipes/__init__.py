"""Data pipes: datasets that are made of others, by methods such as `map`, `filter` and `batch`."""

from rgrad.utils.data.datapipes import iter as iter
from rgrad.utils.data.datapipes import map as map
