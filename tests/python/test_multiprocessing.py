"""`multiprocessing`: functions in processes, whose errors come back."""

from __future__ import annotations

import gc
import glob
import os
import signal
import subprocess
import sys

import pytest

import rgrad as torch
from rgrad import multiprocessing as mp


def _write(i, folder):
    with open(os.path.join(folder, str(i)), "w") as file:
        file.write(str(os.getpid()))


def _raise(i):
    if i == 1:
        raise KeyError("from process one")


def _exit(i):
    sys.exit(3)


def _die(i):
    os.kill(os.getpid(), signal.SIGKILL)


def test_a_function_runs_in_several_processes(tmp_path):
    assert mp.start_processes(_write, (str(tmp_path),), nprocs=2, start_method="fork") is None
    pids = {int(path.read_text()) for path in tmp_path.iterdir()}
    assert len(pids) == 2 and os.getpid() not in pids


def test_spawned_processes_import_the_function(tmp_path):
    context = mp.spawn(_write, (str(tmp_path),), nprocs=1, join=False)
    assert len(context.pids()) == 1
    while not context.join():
        pass
    assert int((tmp_path / "0").read_text()) == context.pids()[0]


@pytest.mark.parametrize(
    ("function", "error", "message"),
    [
        (_raise, mp.ProcessRaisedException, r"(?s)Process 1 terminated with the following error.*from process one"),
        (_exit, mp.ProcessExitedException, r"process \d terminated with exit code 3"),
        (_die, mp.ProcessExitedException, r"process \d terminated with signal SIGKILL"),
    ],
)
def test_what_goes_wrong_in_a_process_is_raised(function, error, message):
    with pytest.raises(error, match=message):
        mp.start_processes(function, nprocs=2, start_method="fork")


@pytest.fixture(params=["file_descriptor", "file_system"])
def strategy(request):
    before = mp.get_sharing_strategy()
    mp.set_sharing_strategy(request.param)
    yield request.param
    mp.set_sharing_strategy(before)


def test_there_are_two_ways_of_sending():
    assert mp.get_sharing_strategy() == "file_descriptor"
    assert mp.get_all_sharing_strategies() == {"file_descriptor", "file_system"}
    with pytest.raises(NotImplementedError, match="cannot share like that"):
        mp.set_sharing_strategy("pigeon")


def test_a_tensor_moves_to_shared_memory_and_keeps_what_it_is():
    x = torch.arange(6.0).view(2, 3).t()[1:]
    assert not x.is_shared() and x.share_memory_() is x and x.is_shared() and x.untyped_storage().is_shared()
    assert x.tolist() == [[1, 4], [2, 5]] and x.stride() == (1, 3) and x.storage_offset() == 1
    assert x[0].is_shared() and not x.clone().is_shared()
    address = x.data_ptr()
    assert x.share_memory_().data_ptr() == address
    weight = torch.nn.Parameter(torch.ones(2))
    assert type(weight.share_memory_()) is torch.nn.Parameter and weight.requires_grad and weight.is_leaf
    model = torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.BatchNorm1d(3)).share_memory()
    assert all(t.is_shared() for t in [*model.parameters(), *model.buffers()])
    model(torch.ones(2, 2)).sum().backward()


def test_the_memory_is_freed_with_the_last_tensor():
    from rgrad import _shared

    before = len(_shared._by_file)
    x = torch.ones(1000).share_memory_()
    part = x[10:]
    descriptor = _shared.mapping_of(x.untyped_storage()).descriptor
    assert len(_shared._by_file) == before + 1 and os.fstat(descriptor)
    del x
    assert part.sum() == 990
    del part
    gc.collect()
    assert len(_shared._by_file) == before
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(descriptor)


def _double(tasks, answers):
    while (x := tasks.get()) is not None:
        x.mul_(2)
        answers.put(x.sum().item())


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_a_tensor_sent_through_a_queue_is_the_same_memory(method, strategy):
    context = mp.get_context(method)
    tasks, answers = context.Queue(), context.SimpleQueue()
    process = context.Process(target=_double, args=(tasks, answers))
    process.start()
    try:
        x = torch.arange(4.0)
        for sent, total in ((x, 12), (x[:2], 4), (torch.ones(3, dtype=torch.int64), 6)):
            tasks.put(sent)
            assert answers.get() == total
        assert x.tolist() == [0, 4, 4, 6] and x.is_shared()
    finally:
        tasks.put(None)
        process.join(30)
    assert process.exitcode == 0


def _answer(connection):
    kept = []
    while (message := connection.recv()) is not None:
        kept.append(message)
        if isinstance(message, list):
            same = message[0].untyped_storage().data_ptr() == message[1].untyped_storage().data_ptr()
            message[0].fill_(7)
            connection.send((same, message[1].tolist(), type(message[2]).__name__, message[2].requires_grad))
        else:
            connection.send(torch.arange(3))
    connection.close()


def test_views_that_are_sent_together_share_memory_on_the_other_side_too(strategy):
    context = mp.get_context("spawn")
    here, there = context.Pipe()
    process = context.Process(target=_answer, args=(there,))
    process.start()
    try:
        x = torch.zeros(4)
        here.send([x, x[1:3], torch.nn.Parameter(torch.ones(2))])
        assert here.recv() == (True, [7, 7], "Parameter", True)
        assert x.tolist() == [7, 7, 7, 7]
        here.send("more")
        made = here.recv()
        assert made.tolist() == [0, 1, 2] and made.is_shared()
    finally:
        here.send(None)
        process.join(30)
    assert process.exitcode == 0


def test_what_has_no_shared_memory_is_copied_and_a_history_is_refused():
    from multiprocessing.reduction import ForkingPickler

    for x in (torch.empty(0, 3), torch.tensor(2.0)):
        again = ForkingPickler.loads(ForkingPickler.dumps(x)) if x.numel() == 0 else x
        assert again.shape == x.shape
    with pytest.raises(RuntimeError, match="Cowardly refusing to serialize non-leaf tensor which requires_grad"):
        ForkingPickler.dumps(torch.ones(2, requires_grad=True) * 2)


def _train(rank, model):
    torch.manual_seed(rank)
    torch.set_num_threads(1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    for _ in range(200):
        x = torch.randn(8, 2)
        optimizer.zero_grad()
        (model(x) - x @ torch.tensor([[2.0], [-1.0]]) - 0.5).square().mean().backward()
        optimizer.step()


def test_spawned_processes_train_one_model_together():
    model = torch.nn.Linear(2, 1).share_memory()
    mp.spawn(_train, (model,), nprocs=2)
    assert torch.allclose(model.weight, torch.tensor([[2.0, -1.0]]), atol=1e-2)
    assert torch.allclose(model.bias, torch.tensor([0.5]), atol=1e-2)


class Squares(torch.utils.data.Dataset):
    def __init__(self):
        self.values = torch.arange(6.0)

    def __len__(self):
        return 6

    def __getitem__(self, i):
        return self.values[i] ** 2


def test_a_loader_answers_with_copies_although_tensors_are_sent_by_descriptors():
    batches = list(torch.utils.data.DataLoader(Squares(), 2, num_workers=1, multiprocessing_context="spawn"))
    assert [b.tolist() for b in batches] == [[0, 1], [4, 9], [16, 25]] and not batches[0].is_shared()


def _send_and_end(connection):
    mp.set_sharing_strategy("file_system")
    connection.send(torch.arange(5))


def test_a_tensor_in_a_file_with_a_name_outlives_its_sender():
    context = mp.get_context("spawn")
    here, there = context.Pipe()
    process = context.Process(target=_send_and_end, args=(there,))
    process.start()
    process.join(30)
    assert here.recv().tolist() == [0, 1, 2, 3, 4]


def test_files_with_names_are_removed():
    code = (
        "import glob, os, rgrad as torch; from rgrad import multiprocessing as mp;"
        "from multiprocessing.reduction import ForkingPickler;"
        "mp.set_sharing_strategy('file_system'); x = torch.ones(3).share_memory_(); ForkingPickler.dumps(x);"
        "prefix = os.environ['RGRAD_SHARED_FILES']; print(prefix); assert len(glob.glob(prefix + '*')) == 2;"
        "del x; assert len(glob.glob(prefix + '*')) == 1"
    )
    # Of a program of its own, which no other has started.
    alone = {name: value for name, value in os.environ.items() if name != "RGRAD_SHARED_FILES"}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=alone)
    assert glob.glob(done.stdout.strip() + "*") == []


def test_a_gradient_can_be_set_by_its_private_name():
    x = torch.ones(2, requires_grad=True)
    x._grad = torch.full((2,), 3.0)
    assert x.grad.tolist() == [3, 3] and x._grad is x.grad


@pytest.mark.filterwarnings("ignore:TypedStorage is deprecated")
def test_a_storage_that_was_sent_shares_its_memory_with_tensors_and_receivers(strategy):
    x = torch.arange(6.0).reshape(2, 3)
    storage = x.storage()
    q = mp.Queue()
    q.put([storage, x, x[1]])
    received, whole, row = q.get(timeout=10)
    assert received.dtype == torch.float32 and received.tolist() == storage.tolist() == list(range(6))
    assert received._cdata == storage._cdata == whole.untyped_storage()._cdata == row.untyped_storage()._cdata
    storage[4] = -1.0
    assert received[4] == whole[1, 1] == row[1] == -1


@pytest.mark.skipif(sys.platform != "linux", reason="threads have no names there")
def test_a_thread_has_the_name_that_it_was_given():
    import threading

    seen = []

    def run():
        mp._set_thread_name("a name of more than 15 bytes")
        seen.append(mp._get_thread_name())

    before = mp._get_thread_name()
    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    assert seen == ["a name of more "] and mp._get_thread_name() == before
