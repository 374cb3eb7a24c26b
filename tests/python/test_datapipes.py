"""Data pipes: streams and maps made of others, and loaders of them."""

from __future__ import annotations

import copy
import io
import os
import pickle
import subprocess
import sys

import pytest

import rgrad as torch
from rgrad.utils.data import DataChunk, DataLoader, IterDataPipe, MapDataPipe, functional_datapipe
from rgrad.utils.data.datapipes import iter as streams
from rgrad.utils.data.datapipes import map as maps
from rgrad.utils.data.graph import traverse_dps
from rgrad.utils.data.graph_settings import apply_random_seed, apply_shuffle_settings, get_all_graph_pipes


def stream(items=range(5)):
    return streams.IterableWrapper(items)


def double(x):
    return 2 * x


def test_functions_of_samples_and_of_their_entries():
    assert list(stream().map(double)) == [0, 2, 4, 6, 8] and len(stream().map(double)) == 5
    pairs = stream([(1, 2), (3, 4)])
    assert list(pairs.map(lambda x: -x, input_col=1)) == [(1, -2), (3, -4)]
    assert list(pairs.map(lambda x: -x, input_col=1, output_col=0)) == [(-2, 2), (-4, 4)]
    assert list(pairs.map(lambda x, y: x + y, input_col=[0, 1], output_col=-1)) == [(1, 2, 3), (3, 4, 7)]
    assert list(pairs.map(lambda x, y: x + y, input_col=[0, 1])) == [(3,), (7,)]
    assert list(stream([{"a": 1}]).map(double, input_col="a", output_col="b")) == [{"a": 1, "b": 2}]
    assert list(stream([{"a": 1, "b": 2}]).map(lambda x, y: x + y, input_col=["a", "b"])) == [{"a": 3}]
    with pytest.raises(ValueError, match="`output_col` must be None when"):
        pairs.map(double, output_col=0)
    with pytest.raises(ValueError, match="single-element"):
        pairs.map(double, input_col=0, output_col=[0, 1])
    for wrong, columns in ((lambda: 0, None), (lambda a, b: 0, 0), (lambda a: 0, [0, 1])):
        with pytest.raises(ValueError, match="are required"):
            pairs.map(wrong, input_col=columns)


def test_filters_take_what_is_true():
    assert list(stream().filter(lambda x: x > 2)) == [3, 4]
    assert list(stream([(1, 2), (3, 0)]).filter(lambda x: x > 1, input_col=1)) == [(1, 2)]
    with pytest.raises(ValueError, match="Boolean output is required for `filter_fn`"):
        list(stream().filter(lambda x: x))
    with pytest.raises(TypeError, match="has no len"):
        len(stream().filter(bool))


def test_batches_and_their_members():
    batches = list(stream().batch(2))
    assert batches == [[0, 1], [2, 3], [4]] and type(batches[0]) is DataChunk
    assert len(stream().batch(2)) == 3 and len(stream().batch(2, drop_last=True)) == 2
    assert list(stream().batch(2, drop_last=True)) == [[0, 1], [2, 3]]
    assert list(stream().batch(2, wrapper_class=tuple)) == [(0, 1), (2, 3), (4,)]
    assert batches[0].as_str("> ") == "> [0, 1]" and list(batches[0].raw_iterator()) == [0, 1]
    nested = stream().batch(2).batch(2)
    assert list(nested.unbatch()) == [[0, 1], [2, 3], [4]] and list(nested.unbatch(2)) == [0, 1, 2, 3, 4]
    assert list(nested.unbatch(-1)) == [0, 1, 2, 3, 4]
    with pytest.raises(IndexError, match="unbatch_level 3 exceeds the depth"):
        list(nested.unbatch(3))
    with pytest.raises(ValueError, match="unbatch_level must be"):
        list(nested.unbatch(-2))
    with pytest.raises(AssertionError, match="larger than 0"):
        stream().batch(0)


def test_batches_become_tensors():
    (first, second) = stream([1, 2, 3]).batch(2).collate()
    assert first.tolist() == [1, 2] and second.tolist() == [3]
    assert list(stream([1, 2, 3]).batch(2).collate(sum)) == [3, 3]
    assert list(stream([1, 2, 3]).batch(2).collate(collate_fn=len)) == [2, 1]
    with pytest.raises(NotImplementedError, match="data frames"):
        stream().collate({"a": sum})


def test_several_pipes_in_one():
    letters = stream("abc")
    assert list(stream(range(2)).concat(letters)) == [0, 1, "a", "b", "c"] and len(stream().concat(letters)) == 8
    assert list(stream().zip(letters)) == [(0, "a"), (1, "b"), (2, "c")] and len(stream().zip(letters)) == 3
    assert list(stream().mux(letters, stream("xy"))) == [0, "a", "x", 1, "b", "y"]
    assert len(stream().mux(letters, stream("xy"))) == 6
    assert list(stream(range(2)) + letters) == [0, 1, "a", "b", "c"]
    for cls in (streams.Concater, streams.Zipper):
        with pytest.raises(TypeError, match="IterDataPipe"):
            cls([1])
    with pytest.raises(ValueError, match="at least one DataPipe"):
        streams.Concater()


def test_a_fork_gives_every_sample_to_all():
    first, second = stream().fork(2)
    assert list(first) == list(second) == [0, 1, 2, 3, 4] and len(first) == 5
    assert list(zip(first, second, strict=True)) == [(i, i) for i in range(5)]
    items = [[1], [2]]
    for how, same in ((None, True), ("shallow", False), ("deep", False)):
        pairs = list(zip(*stream(items).fork(2, copy=how), strict=True))
        assert [x is y for x, y in pairs] == [same, same] and pairs == [([1], [1]), ([2], [2])]
    pipe = stream()
    assert pipe.fork(1) is pipe
    with pytest.raises(BufferError, match="buffer size 2 is insufficient"):
        list(stream().fork(2, buffer_size=2)[0])
    with pytest.warns(UserWarning, match="Unlimited buffer"):
        assert len(list(stream().fork(2, buffer_size=-1)[0])) == 5
    with pytest.raises(ValueError, match="Unknown copy method"):
        stream().fork(2, copy="both")
    with pytest.raises(ValueError, match="larger than 0"):
        stream().fork(0)


def test_a_new_pass_of_one_branch_restarts_the_others():
    first, second = stream().fork(2)
    ahead = iter(first)
    assert [next(ahead), next(ahead)] == [0, 1]
    other = iter(second)
    assert next(other) == 0
    with pytest.warns(UserWarning, match="not exhausted"):
        assert next(iter(first)) == 0
    with pytest.raises(RuntimeError, match="This iterator has been invalidated"):
        next(other)
    assert list(second) == [0, 1, 2, 3, 4]


def test_samples_go_to_the_branch_that_a_function_chooses():
    even, odd = stream().demux(2, lambda x: x % 2)
    assert list(even) == [0, 2, 4] and list(odd) == [1, 3]
    assert list(odd) == [1, 3] and list(even) == [0, 2, 4]
    first, second = stream().demux(2, lambda x: None if x == 3 else x % 2, drop_none=True)
    assert list(first) == [0, 2, 4] and list(second) == [1]
    for choice in (None, 2, -1):
        with pytest.raises(ValueError, match=f"between 0 and 1. {choice} is returned"):
            list(stream().demux(2, lambda x, c=choice: c)[0])
    with pytest.raises(BufferError, match="DemultiplexerIterDataPipe buffer overflow"):
        list(stream().demux(2, lambda x: int(x < 4), buffer_size=2)[0])
    with pytest.raises(TypeError, match="no len"):
        len(even)


def test_groups_by_a_key():
    names = ["a1", "b1", "a2", "c", "b2", "a3"]

    def groups(**options):
        return list(stream(names).groupby(lambda name: name[0], **options))

    assert groups() == [["a1", "a2", "a3"], ["b1", "b2"], ["c"]]
    assert groups(group_size=2) == [["a1", "a2"], ["b1", "b2"], ["c"], ["a3"]]
    assert groups(buffer_size=3, group_size=3, guaranteed_group_size=2) == [["a1", "a2"], ["b1", "b2"], ["c"], ["a3"]]
    assert groups(keep_key=True)[1] == ("b", ["b1", "b2"])
    assert groups(buffer_size=1) == [[name] for name in names]
    assert groups(buffer_size=2, group_size=2, drop_remaining=True) == [["a3"]]
    with pytest.raises(RuntimeError, match="Failed to group items"):
        groups(buffer_size=2, group_size=2)
    with pytest.raises(AssertionError, match="group_size must be > 0"):
        groups(group_size=0)
    with pytest.raises(AssertionError, match="guaranteed_group_size must be > 0"):
        groups(guaranteed_group_size=2)


def test_shuffles_follow_their_seed():
    pipe = stream().shuffle()
    assert list(pipe.set_seed(3)) == [1, 2, 3, 4, 0]  # as PyTorch, which also draws from Python's generator
    assert list(pipe.set_shuffle(False)) == [0, 1, 2, 3, 4] and len(pipe) == 5
    assert list(stream().shuffle(buffer_size=2).set_seed(1)) == [0, 2, 1, 3, 4]
    assert sorted(stream().batch(2).shuffle(unbatch_level=1)) == [0, 1, 2, 3, 4]
    orders = []
    for _ in range(2):
        torch.manual_seed(7)
        pipe = stream(range(50)).shuffle()
        orders += [list(pipe), list(pipe)]
    assert orders[0] == orders[2] != orders[1] == orders[3]
    with pytest.raises(AssertionError, match="buffer_size"):
        stream().shuffle(buffer_size=0)


def test_a_pipe_has_one_iterator():
    for pipe in (stream(), stream().map(double)):
        first = iter(pipe)
        next(first)
        second = iter(pipe)
        next(first)
        next(second)
        with pytest.raises(RuntimeError, match="This iterator has been invalidated: a newer one"):
            next(first)
        assert len(list(second)) == 4


def test_passes_go_over_copies_and_reset_what_a_class_keeps():
    source = [[1], [2]]
    for items in stream(source):
        items.append(0)
    assert source == [[1], [2]]
    for items in streams.IterableWrapper(source, deepcopy=False):
        items.append(0)
    assert source == [[1, 0], [2, 0]]
    with pytest.warns(UserWarning, match="can not be deepcopied"):
        assert list(streams.IterableWrapper(i for i in range(2))) == [0, 1]

    class Countdown(IterDataPipe):
        def __init__(self, n):
            self.n = n

        def reset(self):
            self.left = self.n

        def __next__(self):
            if self.left == 0:
                raise StopIteration
            self.left -= 1
            return self.left

        def __iter__(self):
            return self

    class Longer(Countdown):
        def __iter__(self):
            yield "start"
            yield from super().__iter__()

    assert [list(Countdown(2)) for _ in range(2)] == [[1, 0]] * 2
    assert list(Longer(2)) == ["start", 1, 0]
    with pytest.raises(TypeError, match="is not an iterator"):
        list(type("Nothing", (IterDataPipe,), {})())


def test_a_class_becomes_a_method():
    name = "doubled_for_a_test"

    @functional_datapipe(name)
    class Doubled(IterDataPipe):
        """Twice every sample."""

        def __init__(self, source, factor=2):
            self.source, self.factor = source, factor

        def __iter__(self):
            for x in self.source:
                yield self.factor * x

    try:
        made = stream().doubled_for_a_test(factor=3)
        assert type(made) is Doubled and list(made) == [0, 3, 6, 9, 12] and repr(made).endswith("Doubled")
        assert "Twice every sample" in stream().doubled_for_a_test.__doc__ and name in dir(stream())
        with pytest.raises(Exception, match="already taken"):
            functional_datapipe(name)(Doubled)
        with pytest.raises(AttributeError, match="has no attribute"):
            maps.SequenceWrapper([]).doubled_for_a_test  # noqa: B018
        with pytest.raises(TypeError, match="can only decorate"):
            functional_datapipe("other")(list)
    finally:
        del IterDataPipe.functions[name]


def test_maps_of_maps():
    letters = maps.SequenceWrapper(["a", "b", "c"])
    assert letters[1] == "b" and len(letters) == 3 and list(letters) == ["a", "b", "c"]
    assert list(letters.map(str.upper)) == ["A", "B", "C"] and letters.map()[0] == "a"
    batches = letters.batch(2)
    assert list(batches) == [["a", "b"], ["c"]] and len(letters.batch(2, drop_last=True)) == 1
    joined, pairs = letters.concat(letters), letters.zip(letters.map(str.upper))
    assert joined[4] == "b" and len(joined) == 6 and pairs[2] == ("c", "C") and len(pairs) == 3
    for pipe, index in ((batches, 5), (joined, 9), (pairs, 9)):
        with pytest.raises(IndexError, match=f"Index {index} is out of"):
            pipe[index]
    shuffled = letters.shuffle()
    assert isinstance(shuffled, IterDataPipe) and sorted(shuffled) == ["a", "b", "c"] and len(shuffled) == 3
    assert list(shuffled.set_seed(1)) == ["b", "c", "a"] and list(shuffled.set_shuffle(False)) == ["a", "b", "c"]
    assert sorted(maps.SequenceWrapper({"x": 1, "y": 2}).shuffle(indices=["x", "y"])) == [1, 2]
    with pytest.raises(NotImplementedError, match="__getitem__"):
        type("Nothing", (MapDataPipe,), {})()[0]


def test_pipes_are_copied_and_pickled():
    pipe = stream().map(double).batch(2)
    assert next(iter(pipe)) == [0, 2]
    assert list(pickle.loads(pickle.dumps(pipe))) == list(copy.deepcopy(pipe)) == [[0, 2], [4, 6], [8]]
    first, second = pickle.loads(pickle.dumps(stream().fork(2)))
    assert list(first) == list(second) == [0, 1, 2, 3, 4]


def test_the_graph_of_a_pipe_and_settings_of_it():
    source = stream()
    left, right = source.shuffle().fork(2)
    pipe = left.zip(right.map(double))
    graph = traverse_dps(pipe)
    assert list(graph) == [id(pipe)] and set(graph[id(pipe)][1]) == {id(left), id(pipe.datapipes[1])}
    found = get_all_graph_pipes(graph)
    assert found[0] is pipe and source in found and len(found) == 6
    assert apply_shuffle_settings(pipe, False) is pipe and list(pipe) == [(i, 2 * i) for i in range(5)]
    apply_shuffle_settings(pipe, True)
    orders = []
    for _ in range(2):
        generator = torch.Generator()
        generator.manual_seed(2)
        orders.append(list(apply_random_seed(pipe, generator)))
    assert orders[0] == orders[1] != [(i, 2 * i) for i in range(5)]


def numbers(loader):
    return [int(x) for x in loader]


def test_loaders_turn_shuffling_of_a_pipe_on_and_off():
    assert numbers(DataLoader(stream().shuffle(), batch_size=None, shuffle=False)) == [0, 1, 2, 3, 4]
    with pytest.warns(UserWarning, match="does not contain a `Shuffler`"):
        loader = DataLoader(stream(range(40)), batch_size=None, shuffle=True)
    assert numbers(loader) != numbers(loader) and sorted(numbers(loader)) == list(range(40))
    generator = torch.Generator()
    orders = []
    for _ in range(2):
        generator.manual_seed(4)
        loader = DataLoader(stream(range(40)).shuffle(), batch_size=None, shuffle=True, generator=generator)
        orders.append(numbers(loader))
    assert orders[0] == orders[1]
    batches = DataLoader(stream().map(double), batch_size=2)
    assert [b.tolist() for b in batches] == [[0, 2], [4, 6], [8]] and len(batches) == 3


@pytest.mark.parametrize("kind", ["process", "thread"])
@pytest.mark.parametrize("persistent", [False, True])
def test_workers_share_the_samples_of_a_filter(kind, persistent):
    pipe = stream(range(20)).shuffle().sharding_filter()
    loader = DataLoader(
        pipe, batch_size=None, num_workers=2, shuffle=True, worker_type=kind, persistent_workers=persistent
    )
    first, second = numbers(loader), numbers(loader)
    assert sorted(first) == sorted(second) == list(range(20)) and first != second
    twice = DataLoader(stream(range(3)), batch_size=None, num_workers=2, worker_type=kind)
    assert sorted(numbers(twice)) == [0, 0, 1, 1, 2, 2]


def test_samples_are_divided_once():
    pipe = stream().sharding_filter()
    pipe.apply_sharding(2, 1)
    assert list(pipe) == [1, 3] and len(pipe) == 2
    with pytest.raises(ValueError, match="should be smaller"):
        pipe.apply_sharding(2, 2)
    loader = DataLoader(stream().sharding_filter().map(double).sharding_filter(), batch_size=None, num_workers=2)
    with pytest.raises(RuntimeError, match="Sharding twice"):
        list(loader)


def test_pipes_are_loaded_when_a_program_uses_one():
    code = """
import sys
import rgrad as torch
from rgrad.utils.data import DataLoader, IterDataPipe
assert len(list(DataLoader(range(3)))) == 3 and not any("datapipes.iter" in name for name in sys.modules)

class Letters(IterDataPipe):
    def __iter__(self):
        yield from "ab"

print(list(Letters().map(str.upper)), list(torch.utils.data.datapipes.map.SequenceWrapper([1]).map()))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout == "['A', 'B'] [1]\n", done.stderr


def test_files_are_listed_opened_and_read(tmp_path):
    (tmp_path / "sub").mkdir()
    for name, data in (("b.bin", b"12345"), ("a.txt", b"abc"), ("sub/c.txt", b"x")):
        (tmp_path / name).write_bytes(data)
    root = str(tmp_path)
    listed = streams.FileLister(root)
    assert [os.path.basename(path) for path in listed] == ["a.txt", "b.bin"]
    texts = streams.FileLister(root, "*.txt", recursive=True)
    assert [os.path.relpath(path, root) for path in texts] == ["a.txt", "sub/c.txt"]
    assert list(stream([root]).list_files()) == list(listed)
    opened = listed.open_files(mode="b")
    assert [stream.read() for _, stream in opened] == [b"abc", b"12345"]
    read = opened.read_from_stream(chunk=3)
    assert [data for _, data in read] == [b"abc", b"123", b"45"]
    with pytest.raises(TypeError, match="FileListerIterDataPipe instance doesn't have valid length"):
        len(listed)
    assert len(streams.FileLister(root, length=2)) == 2
    with pytest.raises(ValueError, match="Invalid mode w"):
        listed.open_files(mode="w")
    with pytest.raises(ValueError, match="binary mode doesn't take an encoding argument"):
        listed.open_files(mode="rb", encoding="utf-8")


def test_a_stream_closes_with_the_last_reference_to_it():
    from rgrad.utils.data.datapipes.utils.common import StreamWrapper

    file = io.BytesIO(b"abc")
    stream = StreamWrapper(file, name="n")
    assert repr(stream) == f"StreamWrapper<n,{file!r}>" and "read" in dir(stream) and stream.read(1) == b"a"
    part = StreamWrapper(io.BytesIO(), parent_stream=stream)
    stream.autoclose()
    assert not file.closed
    StreamWrapper.close_streams([{"a": (part,)}])
    assert part.closed and file.closed
    other = io.BytesIO()
    del stream, part
    StreamWrapper(other)
    assert other.closed


def test_a_pipe_counts_the_samples_of_its_pass():
    pipe = stream().map(lambda x: x)
    iterator = iter(pipe)
    next(iterator)
    next(iterator)
    assert pipe._number_of_samples_yielded == 2
    assert len(list(pipe)) == pipe._number_of_samples_yielded == 5


def test_a_pipe_of_a_source_without_length_has_none():
    class Endless(torch.utils.data.IterDataPipe):
        def __iter__(self):
            yield from ()

    source = Endless()
    for pipe in (source.batch(2), source.map(str), source.zip(source), source.concat(source), source.shuffle()):
        with pytest.raises(TypeError, match=f"{type(pipe).__name__} instance doesn't have valid length"):
            len(pipe)
