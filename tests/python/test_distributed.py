"""`distributed` in one process: a group of it alone, collectives of one contribution, and what needs others refuses."""

from __future__ import annotations

import pytest
from test_door import _inside

import rgrad as torch
from rgrad import distributed as dist


@pytest.fixture
def group():
    dist.init_process_group("gloo", world_size=1, rank=0)
    yield
    dist.destroy_process_group()


def test_without_a_group_there_is_nobody_to_ask():
    assert not dist.is_available() and not dist.is_initialized() and dist.group.WORLD is None
    for ask in (dist.get_rank, dist.get_world_size, dist.barrier, lambda: dist.all_reduce(torch.ones(1))):
        with pytest.raises(ValueError, match="Default process group has not been initialized"):
            ask()


def test_a_group_of_one_is_made_once(group):
    assert dist.is_initialized() and dist.get_rank() == 0 and dist.get_world_size() == 1
    assert dist.get_backend() == "gloo" == dist.Backend.GLOO and dist.group.WORLD is dist.GroupMember.WORLD
    with pytest.raises(ValueError, match="trying to initialize the default process group twice"):
        dist.init_process_group(world_size=1, rank=0)
    other = dist.new_group([0], backend="NCCL")
    assert dist.get_backend(other) == "nccl" and dist.get_process_group_ranks(other) == [0]
    assert dist.new_group([]) == dist.GroupMember.NON_GROUP_MEMBER


def test_more_processes_than_one_are_refused(monkeypatch):
    with pytest.raises(NotImplementedError, match=r"world_size=2\) is not in rgrad: rgrad computes in one process"):
        dist.init_process_group("gloo", world_size=2, rank=0)
    monkeypatch.setenv("WORLD_SIZE", "4")
    with pytest.raises(NotImplementedError):
        dist.init_process_group("gloo")
    monkeypatch.undo()
    with pytest.raises(ValueError, match="rank 3"):
        dist.init_process_group("gloo", world_size=1, rank=3)
    assert not dist.is_initialized()


def test_collectives_have_one_contribution(group):
    x = torch.arange(4.0)
    assert dist.all_reduce(x) is None and x.tolist() == [0, 1, 2, 3]
    work = dist.all_reduce(x, dist.ReduceOp.AVG, async_op=True)
    assert work.wait() and work.is_completed() and work.get_future().result() == [x]
    into = [torch.empty(4)]
    dist.all_gather(into, x)
    whole = torch.empty(1, 4)
    dist.all_gather_into_tensor(whole, x)
    half, single = torch.empty(4), torch.empty(4)
    dist.reduce_scatter_tensor(half, x)
    dist.all_to_all_single(single, x)
    dist.broadcast(x, src=0)
    dist.scatter(into[0], [x], src=0)
    for copy in (into[0], whole[0], half, single):
        assert torch.equal(copy, x)
    objects = [None]
    dist.all_gather_object(objects, {"a": [1]})
    assert objects == [{"a": [1]}]
    dist.broadcast_object_list(objects)
    with pytest.raises(ValueError, match="2 entries for a group of 1"):
        dist.all_gather([x, x], x)
    with pytest.raises(ValueError, match="not part of group"):
        dist.broadcast(x, src=1)
    with pytest.raises(NotImplementedError, match="no other to talk to"):
        dist.send(x, 1)


def test_a_module_over_a_group_of_one_trains_as_itself(group):
    parallel, model = torch.nn.parallel.DistributedDataParallel, torch.nn.Linear(2, 1)
    wrapped = parallel(model)
    assert list(wrapped.state_dict()) == ["module.weight", "module.bias"]
    with wrapped.no_sync():
        wrapped(torch.ones(1, 2)).sum().backward()
    assert model.weight.grad.tolist() == [[1.0, 1.0]]
    with pytest.raises(RuntimeError, match="any parameters that require a gradient"):
        parallel(torch.nn.ReLU())
    with pytest.raises(NotImplementedError, match="register_comm_hook"):
        wrapped.register_comm_hook(None, None)


def test_a_module_over_a_group_asks_for_the_group():
    with pytest.raises(ValueError, match="Default process group"):
        torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(1, 1))


def test_names_of_several_processes_are_classes_that_nothing_is_an_instance_of():
    code = """
import torch
import torch.distributed.distributed_c10d as c10d
from torch.distributed.tensor import DTensor
from torch.distributed.fsdp import FullyShardedDataParallel as FSDP
from torch.distributed.checkpoint.state_dict import get_model_state_dict
from torch.nn.parallel.distributed import DistributedDataParallel
from torch.distributed.device_mesh import init_device_mesh
assert not isinstance(torch.ones(1), DTensor) and DTensor.__module__ == "torch.distributed.tensor"
assert c10d.ProcessGroup is torch.distributed.ProcessGroup
assert DistributedDataParallel is torch.nn.parallel.DistributedDataParallel
for use in (DTensor, FSDP, get_model_state_dict, init_device_mesh):
    try:
        use()
    except NotImplementedError as error:
        print(str(error).split(" ")[0])
"""
    assert _inside(code).split() == [
        "torch.distributed.tensor.DTensor",
        "torch.distributed.fsdp.FullyShardedDataParallel",
        "torch.distributed.checkpoint.state_dict.get_model_state_dict",
        "torch.distributed.device_mesh.init_device_mesh",
    ]
