"""Pipes of maps."""

from rgrad.utils.data.datapipes.map.callable import MapperMapDataPipe as Mapper
from rgrad.utils.data.datapipes.map.combinatorics import ShufflerIterDataPipe as Shuffler
from rgrad.utils.data.datapipes.map.combining import ConcaterMapDataPipe as Concater
from rgrad.utils.data.datapipes.map.combining import ZipperMapDataPipe as Zipper
from rgrad.utils.data.datapipes.map.grouping import BatcherMapDataPipe as Batcher
from rgrad.utils.data.datapipes.map.utils import SequenceWrapperMapDataPipe as SequenceWrapper

__all__ = ["Batcher", "Concater", "Mapper", "SequenceWrapper", "Shuffler", "Zipper"]
