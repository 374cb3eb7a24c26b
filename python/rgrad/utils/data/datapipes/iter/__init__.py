"""Pipes of streams."""

from rgrad.utils.data.datapipes.iter.callable import CollatorIterDataPipe as Collator
from rgrad.utils.data.datapipes.iter.callable import MapperIterDataPipe as Mapper
from rgrad.utils.data.datapipes.iter.combinatorics import SamplerIterDataPipe as Sampler
from rgrad.utils.data.datapipes.iter.combinatorics import ShufflerIterDataPipe as Shuffler
from rgrad.utils.data.datapipes.iter.combining import ConcaterIterDataPipe as Concater
from rgrad.utils.data.datapipes.iter.combining import DemultiplexerIterDataPipe as Demultiplexer
from rgrad.utils.data.datapipes.iter.combining import ForkerIterDataPipe as Forker
from rgrad.utils.data.datapipes.iter.combining import MultiplexerIterDataPipe as Multiplexer
from rgrad.utils.data.datapipes.iter.combining import ZipperIterDataPipe as Zipper
from rgrad.utils.data.datapipes.iter.files import FileListerIterDataPipe as FileLister
from rgrad.utils.data.datapipes.iter.files import FileOpenerIterDataPipe as FileOpener
from rgrad.utils.data.datapipes.iter.files import StreamReaderIterDataPipe as StreamReader
from rgrad.utils.data.datapipes.iter.grouping import BatcherIterDataPipe as Batcher
from rgrad.utils.data.datapipes.iter.grouping import GrouperIterDataPipe as Grouper
from rgrad.utils.data.datapipes.iter.grouping import UnBatcherIterDataPipe as UnBatcher
from rgrad.utils.data.datapipes.iter.selecting import FilterIterDataPipe as Filter
from rgrad.utils.data.datapipes.iter.sharding import ShardingFilterIterDataPipe as ShardingFilter
from rgrad.utils.data.datapipes.iter.utils import IterableWrapperIterDataPipe as IterableWrapper

__all__ = [
    "Batcher",
    "Collator",
    "Concater",
    "Demultiplexer",
    "FileLister",
    "FileOpener",
    "Filter",
    "Forker",
    "Grouper",
    "IterableWrapper",
    "Mapper",
    "Multiplexer",
    "Sampler",
    "ShardingFilter",
    "Shuffler",
    "StreamReader",
    "UnBatcher",
    "Zipper",
]
