"""Datasets, samplers, collating, and the loader with and without workers."""

import gc
import itertools
import os
import signal
import subprocess
import sys
import time
from collections import namedtuple

import numpy as np
import pytest

import rgrad as torch
from rgrad.utils.data import (
    BatchSampler,
    ConcatDataset,
    DataLoader,
    Dataset,
    DistributedSampler,
    IterableDataset,
    RandomSampler,
    SequentialSampler,
    StackDataset,
    Subset,
    SubsetRandomSampler,
    TensorDataset,
    WeightedRandomSampler,
    _collate,
    _workers,
    dataloader,
    default_collate,
    get_worker_info,
    random_split,
)

# A machine may have fewer cores than a test has workers.
pytestmark = pytest.mark.filterwarnings("ignore:This DataLoader will create")


class Squares(Dataset):
    def __init__(self, length=11):
        self.length = length

    def __len__(self):
        return self.length

    def __getitem__(self, index):
        if not 0 <= index < self.length:
            raise IndexError(index)
        return index * index


class Failing(Squares):
    def __getitem__(self, index):
        if index == 3:
            raise KeyError("no such picture")
        return index


class Dying(Squares):
    def __getitem__(self, index):
        os._exit(1)


class Slow(Squares):
    def __getitem__(self, index):
        time.sleep(60)


class Stream(IterableDataset):
    def __init__(self, length=10):
        self.length = length

    def __iter__(self):
        info = get_worker_info()
        first, step = (0, 1) if info is None else (info.id, info.num_workers)
        return iter(range(first, self.length, step))


class Workers(Squares):
    def __getitem__(self, index):
        info = get_worker_info()
        return -1 if info is None else info.id


def lists(loader):
    return [batch.tolist() for batch in loader]


# Datasets and samplers


def test_a_tensor_dataset_gives_rows():
    dataset = TensorDataset(torch.arange(6).view(3, 2), torch.arange(3))
    assert len(dataset) == 3
    assert [part.tolist() for part in dataset[1]] == [[2, 3], 1]
    with pytest.raises(AssertionError, match="Size mismatch between tensors"):
        TensorDataset(torch.zeros(2), torch.zeros(3))


def test_concatenation_and_subsets_find_their_samples():
    joined = Squares(3) + Squares(2)
    assert isinstance(joined, ConcatDataset)
    assert [joined[i] for i in range(5)] == [0, 1, 4, 0, 1]
    assert joined[-1] == 1
    assert [Subset(joined, [4, 2])[i] for i in range(2)] == [1, 4]


def test_random_split_takes_lengths_and_fractions():
    dataset = Squares(10)
    parts = random_split(dataset, [7, 3], generator=torch.Generator().manual_seed(1))
    assert sorted(parts[0].indices + parts[1].indices) == list(range(10))
    assert [len(part) for part in random_split(dataset, [0.35, 0.35, 0.3])] == [4, 3, 3]
    with pytest.raises(ValueError, match="Sum of input lengths does not equal the length of the input dataset!"):
        random_split(dataset, [1, 2])


def test_a_generator_makes_random_order_repeatable():
    def order(seed):
        return list(RandomSampler(range(20), generator=torch.Generator().manual_seed(seed)))

    assert order(3) == order(3) != order(4)
    assert sorted(order(3)) == list(range(20))


def test_random_sampling_counts():
    assert len(list(RandomSampler(range(5), num_samples=12))) == 12
    drawn = list(RandomSampler(range(3), replacement=True, num_samples=50))
    assert len(drawn) == 50 and set(drawn) <= {0, 1, 2}
    assert sorted(SubsetRandomSampler([5, 7, 9])) == [5, 7, 9]


def test_weights_decide_what_is_drawn():
    generator = torch.Generator().manual_seed(0)
    drawn = list(WeightedRandomSampler([0.0, 1.0, 3.0], 4000, generator=generator))
    assert drawn.count(0) == 0
    assert drawn.count(2) / drawn.count(1) == pytest.approx(3.0, rel=0.15)
    assert sorted(WeightedRandomSampler([1.0, 0.0, 5.0], 2, replacement=False)) == [0, 2]
    with pytest.raises(RuntimeError, match="invalid multinomial distribution"):
        list(WeightedRandomSampler([1.0, 0.0], 2, replacement=False))


def test_batches_of_indices():
    assert list(BatchSampler(SequentialSampler(range(5)), 2, False)) == [[0, 1], [2, 3], [4]]
    assert list(BatchSampler(SequentialSampler(range(5)), 2, True)) == [[0, 1], [2, 3]]
    with pytest.raises(ValueError, match="batch_size should be a positive integer value"):
        BatchSampler(SequentialSampler(range(5)), 0, False)


# Collating


def test_collating_goes_into_structures():
    Point = namedtuple("Point", ["x", "y"])
    batch = default_collate([{"p": Point(1, 2.0), "l": [True, "a"]}, {"p": Point(3, 4.0), "l": [False, "b"]}])
    assert isinstance(batch["p"], Point)
    assert batch["p"].x.tolist() == [1, 3] and batch["p"].x.dtype == torch.int64
    assert batch["p"].y.dtype == torch.float64
    assert batch["l"][0].tolist() == [True, False] and batch["l"][1] == ("a", "b")


def test_collating_numpy_keeps_dtypes():
    assert default_collate([np.ones(2, np.float32)] * 3).shape == (3, 2)
    assert default_collate([np.ones(2, np.float32)] * 3).dtype == torch.float32
    assert default_collate([np.float32(1)] * 3).dtype == torch.float32
    assert default_collate([np.int16(1)] * 3).dtype == torch.int16


def test_what_cannot_be_collated_says_so():
    with pytest.raises(TypeError, match="default_collate: batch must contain tensors, numpy arrays, numbers, dicts"):
        default_collate([object()])
    with pytest.raises(RuntimeError, match="each element in list of batch should be of equal size"):
        default_collate([[1, 2], [1]])


# The loader without workers


def test_batches_come_in_order_with_a_short_last_one():
    assert lists(DataLoader(Squares(5), batch_size=2)) == [[0, 1], [4, 9], [16]]
    assert lists(DataLoader(Squares(5), batch_size=2, drop_last=True)) == [[0, 1], [4, 9]]
    assert len(DataLoader(Squares(5), batch_size=2)) == 3


def test_without_a_batch_size_single_samples_come():
    assert list(DataLoader(Squares(3), batch_size=None)) == [0, 1, 4]


def test_shuffling_gives_every_sample_once_and_another_order_each_time():
    loader = DataLoader(TensorDataset(torch.arange(50)), batch_size=50, shuffle=True)
    first, second = (next(iter(loader))[0].tolist() for _ in range(2))
    assert sorted(first) == sorted(second) == list(range(50))
    assert first != second


def test_whole_batches_of_a_tensor_dataset_equal_collated_samples():
    dataset = TensorDataset(torch.randn(9, 2, 3), torch.arange(9))
    order = [3, 1, 8, 0, 4]
    fast = list(DataLoader(dataset, batch_size=2, sampler=order))
    slow = list(DataLoader(dataset, batch_size=2, sampler=order, collate_fn=lambda samples: default_collate(samples)))
    for got, expected in zip(fast, slow, strict=True):
        assert type(got) is type(expected) is list
        assert all(torch.equal(a, b) for a, b in zip(got, expected, strict=True))
    part = next(iter(DataLoader(Subset(dataset, [8, 2, 5]), batch_size=3)))
    assert part[1].tolist() == [8, 2, 5]
    with pytest.raises(IndexError):
        list(DataLoader(dataset, sampler=[9]))


def test_a_subclass_of_a_tensor_dataset_keeps_its_own_samples():
    class Doubled(TensorDataset):
        def __getitem__(self, index):
            return tuple(tensor * 2 for tensor in super().__getitem__(index))

    assert next(iter(DataLoader(Doubled(torch.arange(3)), batch_size=3)))[0].tolist() == [0, 2, 4]


def test_streams_end_by_themselves():
    assert lists(DataLoader(Stream(5), batch_size=2)) == [[0, 1], [2, 3], [4]]
    assert lists(DataLoader(Stream(5), batch_size=2, drop_last=True)) == [[0, 1], [2, 3]]


# Workers


def test_workers_that_were_ended_are_replaced_in_the_next_pass():
    loader = DataLoader(Squares(), batch_size=2, num_workers=2, persistent_workers=True)
    wanted = [batch.tolist() for batch in loader]
    iterator = iter(loader)
    iterator._shutdown_workers()
    iterator._shutdown_workers()
    again = iter(loader)
    assert again is not iterator
    assert [batch.tolist() for batch in again] == wanted
    again._shutdown_workers()


@pytest.mark.parametrize("kind", ["process", "thread"])
@pytest.mark.parametrize("persistent", [False, True])
def test_workers_keep_the_order_over_several_passes(kind, persistent):
    loader = DataLoader(
        Squares(),
        batch_size=2,
        num_workers=3,
        worker_type=kind,
        persistent_workers=persistent,
        prefetch_factor=1,
    )
    expected = lists(DataLoader(Squares(), batch_size=2))
    assert lists(loader) == expected
    next(iter(loader))  # an abandoned pass leaves nothing behind
    assert lists(loader) == expected


class Waiting(Squares):
    def __getitem__(self, index):
        time.sleep(0.4 if index == 0 else 0.0)
        return index


@pytest.mark.parametrize("kind", ["process", "thread"])
def test_a_slow_sample_holds_up_no_other_worker_if_the_order_does_not_matter(kind):
    loader = DataLoader(
        Waiting(9), batch_size=None, num_workers=2, worker_type=kind, in_order=False, prefetch_factor=1
    )
    for _ in range(2):
        assert list(loader) == [1, 2, 3, 4, 5, 6, 7, 8, 0]
    next(iter(loader))
    stream = DataLoader(Stream(9), batch_size=2, num_workers=2, worker_type=kind, in_order=False)
    found = lists(stream)
    assert sorted(itertools.chain.from_iterable(found)) == sorted(
        itertools.chain.from_iterable(lists(DataLoader(Stream(9), batch_size=2, num_workers=2, worker_type=kind)))
    )
    with pytest.raises(KeyError, match="no such picture"):
        list(DataLoader(Failing(8), num_workers=2, worker_type=kind, in_order=False))
    slow = DataLoader(Waiting(2), num_workers=2, worker_type=kind, in_order=False, timeout=0.1)
    with pytest.raises(RuntimeError, match="timed out after 0.1 seconds"):
        list(slow)


def test_what_describes_a_worker_cannot_be_changed():
    info = _workers.WorkerInfo(0, 2, 7, None)
    for name in ("id", "other"):
        with pytest.raises(RuntimeError, match="Cannot assign attributes to WorkerInfo objects"):
            setattr(info, name, 1)
    assert "id=0, num_workers=2, seed=7, dataset=None" in repr(info)


def test_spawned_workers_work_too():
    loader = DataLoader(Squares(4), batch_size=2, num_workers=1, multiprocessing_context="spawn")
    assert lists(loader) == [[0, 1], [4, 9]]


@pytest.mark.parametrize("kind", ["process", "thread"])
def test_workers_share_a_stream_by_their_numbers(kind):
    loader = DataLoader(Stream(9), batch_size=2, num_workers=2, worker_type=kind)
    assert lists(loader) == [[0, 2], [1, 3], [4, 6], [5, 7], [8]]


def test_a_worker_knows_its_number():
    assert get_worker_info() is None
    assert lists(DataLoader(Workers(4), batch_size=1, num_workers=2)) == [[0], [1], [0], [1]]


class Methods(Squares):
    def __getitem__(self, index):
        info = get_worker_info()
        return info is not None and (info.worker_method, info.rng)


def test_a_worker_knows_whether_it_is_a_process_or_a_thread():
    for kind, method in (("process", "multiprocessing"), ("thread", "thread")):
        loader = DataLoader(Methods(1), batch_size=None, num_workers=1, worker_type=kind)
        assert [tuple(row) for row in loader] == [(method, None)]


@pytest.mark.parametrize("kind", ["process", "thread"])
def test_a_workers_error_comes_with_its_traceback_and_the_loader_goes_on(kind):
    iterator = iter(DataLoader(Failing(8), batch_size=2, num_workers=2, worker_type=kind))
    assert next(iterator).tolist() == [0, 1]
    with pytest.raises(KeyError) as caught:
        next(iterator)
    message = str(caught.value)
    assert f"Caught KeyError in DataLoader worker {kind} 1." in message
    assert "Original Traceback (most recent call last):" in message and "no such picture" in message
    assert next(iterator).tolist() == [4, 5]


def test_an_error_in_the_init_function_arrives():
    def init(number):
        raise ValueError(f"worker {number} can't start")

    with pytest.raises(ValueError, match="worker 0 can't start"):
        list(DataLoader(Squares(), num_workers=1, worker_init_fn=init))


def test_a_dead_worker_is_noticed():
    with pytest.raises(RuntimeError, match=r"DataLoader worker \(pid\(s\) \d+\) exited unexpectedly"):
        list(DataLoader(Dying(), num_workers=1))


@pytest.mark.skipif(sys.platform == "win32", reason="no fork server")
def test_workers_of_a_fork_server_serve():
    loader = DataLoader(Squares(), batch_size=2, num_workers=2, multiprocessing_context="forkserver")
    assert [x.tolist() for x in loader] == [x.tolist() for x in DataLoader(Squares(), batch_size=2)]


class Killed(Dataset):
    def __len__(self):
        return 2

    def __getitem__(self, index):
        os.kill(os.getpid(), signal.SIGKILL)


@pytest.mark.skipif(sys.platform == "win32", reason="no signals")
def test_the_signal_that_killed_a_worker_is_named():
    with pytest.raises(RuntimeError, match="exited unexpectedly") as caught:
        list(DataLoader(Killed(), num_workers=1))
    assert "is killed by signal: Killed" in str(caught.value.__cause__)


def test_a_timeout_ends_slow_workers():
    start = time.monotonic()
    iterator = iter(DataLoader(Slow(), num_workers=1, timeout=0.1))
    (worker,) = iterator._workers
    with pytest.raises(RuntimeError, match="DataLoader timed out after 0.1 seconds"):
        next(iterator)
    assert not worker.process.is_alive()
    assert time.monotonic() - start < 10


def test_leaving_a_loop_early_ends_the_workers():
    iterator = iter(DataLoader(Squares(100_000), num_workers=2))
    next(iterator)
    processes = [worker.process for worker in iterator._workers]
    del iterator
    assert not any(process.is_alive() for process in processes)


def test_batches_larger_than_a_pipe_holds_do_not_block():
    class Wide(Squares):
        def __getitem__(self, index):
            return torch.full((1000,), float(index))

    loader = DataLoader(Wide(4000), batch_size=1000, num_workers=1, prefetch_factor=4)
    assert [batch.shape for batch in loader] == [(1000, 1000)] * 4


def test_a_program_that_ends_in_the_middle_of_a_pass_does_not_hang():
    program = (
        "import sys\n"
        "from rgrad.utils.data import DataLoader\n"
        "iterator = iter(DataLoader(range(100000), num_workers=2, batch_size=2))\n"
        "print(next(iterator).tolist())\n"
        "sys.exit(3)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=30, check=False)
    assert done.stdout == "[0, 1]\n" and done.returncode == 3, done.stderr


def test_worker_seeds_differ_and_follow_the_generator():
    class Seeds(Squares):
        def __getitem__(self, index):
            return get_worker_info().seed % 2**31

    def seeds():
        loader = DataLoader(Seeds(2), num_workers=2, generator=torch.Generator().manual_seed(5))
        return lists(loader)

    assert seeds() == seeds()
    assert seeds()[0] != seeds()[1]


# Errors


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"num_workers": -1}, "num_workers option should be non-negative"),
        ({"timeout": -1}, "timeout option should be non-negative"),
        ({"prefetch_factor": 2}, "prefetch_factor option could only be specified in multiprocessing"),
        ({"persistent_workers": True}, "persistent_workers option needs num_workers > 0"),
        ({"shuffle": True, "sampler": [0]}, "sampler option is mutually exclusive with shuffle"),
        ({"batch_sampler": [[0]], "batch_size": 2}, "batch_sampler option is mutually exclusive"),
        ({"batch_size": None, "drop_last": True}, "batch_size=None option disables auto-batching"),
        ({"batch_size": 0}, "batch_size should be a positive integer value, but got batch_size=0"),
        ({"multiprocessing_context": "fork"}, "can only be used with multi-process loading"),
        ({"num_workers": 1, "worker_type": "fiber"}, "worker_type option should be 'process' or 'thread'"),
    ],
)
def test_options_that_do_not_go_together_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        DataLoader(Squares(), **options)


def test_streams_can_not_be_shuffled_and_fixed_options_stay_fixed():
    with pytest.raises(ValueError, match="expected unspecified shuffle option, but got shuffle=True"):
        DataLoader(Stream(), shuffle=True)
    with pytest.raises(ValueError, match="batch_size attribute should not be set after DataLoader is initialized"):
        DataLoader(Squares()).batch_size = 3


def test_datasets_are_stacked_into_tuples_or_dicts():
    plain, named = StackDataset(Squares(3), range(3)), StackDataset(a=Squares(3), b=range(3))
    assert plain[2] == (4, 2) and named[2] == {"a": 4, "b": 2} and len(plain) == 3
    assert [[part.tolist() for part in batch] for batch in DataLoader(plain, batch_size=2)] == [
        [[0, 1], [0, 1]],
        [[4], [2]],
    ]
    with pytest.raises(ValueError, match="Size mismatch between datasets"):
        StackDataset(Squares(3), range(2))
    with pytest.raises(ValueError, match="At least one dataset should be passed"):
        StackDataset()


@pytest.mark.parametrize("drop_last", [False, True])
def test_processes_share_the_indices_of_an_epoch(drop_last):
    def shares(epoch):
        samplers = [DistributedSampler(range(10), 4, rank, drop_last=drop_last) for rank in range(4)]
        for sampler in samplers:
            sampler.set_epoch(epoch)
        return [list(sampler) for sampler in samplers]

    parts = shares(0)
    assert {len(part) for part in parts} == {2 if drop_last else 3}
    seen = [index for part in parts for index in part]
    assert len(set(seen)) == (8 if drop_last else 10)
    assert parts == shares(0) and parts != shares(1)
    with pytest.raises(ValueError, match=r"Invalid rank 4, rank should be in the interval \[0, 3\]"):
        DistributedSampler(range(10), 4, 4)


@pytest.mark.filterwarnings("error:This DataLoader will create")
def test_more_workers_than_cores_are_warned_of(monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {0, 1}, raising=False)
    with pytest.warns(UserWarning, match="will create 3 worker processes in total. .* 2 cores"):
        DataLoader(Squares(), num_workers=3)
    DataLoader(Squares(), num_workers=2)


def test_a_length_asked_for_as_a_hint_is_no_promise():
    class Longer(Stream):
        def __len__(self):
            return 2

    assert len(list(DataLoader(Longer(5)))) == 5
    loader = DataLoader(Longer(5))
    assert len(loader) == 2
    with pytest.warns(UserWarning, match="was reported to be 2"):
        list(loader)


def test_indices_with_replacement_are_drawn_in_blocks():
    sampler = torch.utils.data.RandomSampler(range(5), replacement=True, num_samples=10**10)
    assert all(0 <= i < 5 for i in itertools.islice(sampler, 100)) and len(sampler) == 10**10
    generator = torch.Generator()
    generator.manual_seed(3)
    drawn = list(torch.utils.data.RandomSampler(range(50), True, 70, generator))
    generator.manual_seed(3)
    assert drawn == [i for n in (32, 32, 6) for i in torch.randint(0, 50, (n,), generator=generator).tolist()]


@pytest.mark.parametrize("workers", [0, 2])
def test_iterators_take_loaders_of_other_packages(workers):
    class Loader:
        _dataset_kind = dataloader._DatasetKind.Iterable
        _auto_collation, _IterableDataset_len_called, _index_sampler = False, None, range(3)
        drop_last, timeout, persistent_workers, generator, prefetch_factor = False, 0, False, None, 2
        worker_init_fn = multiprocessing_context = None
        num_workers = workers

        @property
        def dataset(self):
            return self

        def collate_fn(self, batch):
            return batch

        def __iter__(self):
            info = get_worker_info()
            return iter([torch.ones(1)] if info is None or info.id == 0 else [])

    kind = dataloader._MultiProcessingDataLoaderIter if workers else dataloader._SingleProcessDataLoaderIter
    iterator = kind(Loader())
    assert isinstance(iterator, dataloader._BaseDataLoaderIter)
    assert [batch.tolist() for batch in iterator] == [[1.0]]
    assert type(iter(DataLoader(range(3), num_workers=workers))) is kind


def test_workers_are_processes_that_can_be_waited_for():
    iterator = iter(DataLoader(Squares(), batch_size=2, num_workers=2))
    workers = iterator._workers
    next(iterator)
    assert all(worker.is_alive() and worker.pid != os.getpid() and worker.exitcode is None for worker in workers)
    workers[0].terminate()
    workers[0].join(10)
    assert workers[0].exitcode == -signal.SIGTERM
    del iterator
    for worker in workers:
        worker.join(10)
        assert not worker.is_alive()


def test_kept_workers_end_with_their_loader_and_beside_those_of_another():
    def loader():
        return DataLoader(Squares(), batch_size=2, num_workers=2, persistent_workers=True)

    gc.disable()
    try:
        first, second = loader(), loader()
        workers = iter(first)._workers
        # The second loader's workers are forked while the first one's pipes are open, and inherit them.
        assert lists(first) == lists(second) == lists(first)
        del first
        for worker in workers:
            worker.join(10)
            assert worker.exitcode == 0
        assert all(worker.is_alive() for worker in iter(second)._workers)
    finally:
        gc.enable()


def test_what_a_loader_says_of_many_workers_and_of_too_long_datasets():
    with pytest.warns(UserWarning, match="excessive worker creation might get DataLoader running slow or even freeze"):
        DataLoader(Squares(), num_workers=1000)
    with pytest.raises(ValueError, match=r"multi-process loading \(num_workers > 0\), but got num_workers=0"):
        DataLoader(Squares(), multiprocessing_context="fork")


def test_numpy_of_each_worker_is_seeded_from_all_bits_of_the_seed():
    base = 0x1234567890ABCDEF
    states = {_workers._generate_state(base + change, worker) for change in (0, 1, 1 << 40) for worker in range(3)}
    expected = np.random.SeedSequence([2, base & 0xFFFFFFFF, base >> 32, 0]).generate_state(4)
    assert len(states) == 9 and _workers._generate_state(base, 2) == tuple(expected.tolist())


def test_a_loader_knows_whether_it_makes_batches():
    assert DataLoader(Squares())._auto_collation and not DataLoader(Squares(), batch_size=None)._auto_collation
    loader = DataLoader(Squares(), batch_size=None)
    assert loader._index_sampler is loader.sampler


def test_exceptions_of_other_threads_are_raised_again_with_their_traceback():
    class Own(Exception):
        def __init__(self, one, two):
            super().__init__(one, two)

    for error, kind in ((KeyError("a"), KeyError), (ValueError("b"), ValueError), (Own(1, 2), RuntimeError)):
        try:
            raise error
        except Exception:
            kept = torch._utils.ExceptionWrapper(where="in a thread")
        with pytest.raises(kind) as caught:
            kept.reraise()
        assert f"Caught {type(error).__name__} in a thread.\nOriginal Traceback" in str(caught.value)


# Functions that collate


class Span:
    """A value of a type that no loader knows."""

    def __init__(self, begin, end):
        self.begin, self.end = begin, end


def joined(batch, *, collate_fn_map=None):
    return Span(min(s.begin for s in batch), max(s.end for s in batch))


def test_a_type_added_to_the_functions_that_collate_is_collated_in_any_nesting(monkeypatch):
    monkeypatch.setitem(_collate.default_collate_fn_map, Span, joined)
    batch = next(iter(DataLoader([{"span": (Span(i, i + 2), float(i))} for i in range(4)], batch_size=4)))
    span, numbers = batch["span"]
    assert (span.begin, span.end) == (0, 5)
    assert torch.equal(numbers, torch.arange(4, dtype=torch.float64))


def test_without_a_function_only_containers_are_collated():
    with pytest.raises(TypeError, match="batch must contain"):
        _collate.collate([Span(0, 1)], collate_fn_map={int: joined})
    with pytest.raises(TypeError, match="batch must contain"):
        _collate.collate([torch.ones(1)])
    with pytest.raises(TypeError, match="batch must contain"):
        _collate.collate(["a"])


def test_the_very_type_has_precedence_over_its_bases(monkeypatch):
    class Kept(torch.Tensor):
        pass

    functions = {**_collate.default_collate_fn_map, Kept: lambda batch, *, collate_fn_map: batch}
    kept = [torch.ones(1).as_subclass(Kept)]
    assert _collate.collate(kept, collate_fn_map=functions) is kept
    assert _collate.collate([torch.ones(1)], collate_fn_map=functions).shape == (1, 1)
    numbers = _collate.collate([(1, 2.5), (3, 0.5)], collate_fn_map={(int, float): lambda b, *, collate_fn_map: max(b)})
    assert numbers == [3, 2.5]


def test_arrays_are_collated_by_a_table_made_from_the_default_one_or_by_its_own_entry():
    numpy = pytest.importorskip("numpy")
    arrays = [numpy.ones(2, numpy.float32), numpy.zeros(2, numpy.float32)]
    functions = dict(_collate.default_collate_fn_map)
    assert _collate.collate(arrays, collate_fn_map=functions).tolist() == [[1, 1], [0, 0]]
    assert _collate.collate([numpy.float32(1)], collate_fn_map=functions).dtype is torch.float32
    functions[numpy.ndarray] = lambda batch, *, collate_fn_map: len(batch)
    assert _collate.collate(arrays, collate_fn_map=functions) == 2
    with pytest.raises(TypeError, match="found <U1"):
        _collate.default_collate([numpy.array("x")])
