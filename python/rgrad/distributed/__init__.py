"""`torch.distributed` of one process: a group of that process alone, in which every collective has one contribution.

Programs that ask how many they are, and behave as one when told so, run as they are. What needs a second process is
refused: `init_process_group` with a world size above 1, `send` and `recv`.
"""

from __future__ import annotations

import enum
import os
from collections.abc import Callable, Sequence
from typing import Any

from rgrad._absent import refuse
from rgrad._C import Tensor

__all__ = [
    "Backend",
    "GroupMember",
    "ProcessGroup",
    "ReduceOp",
    "Work",
    "all_gather",
    "all_gather_into_tensor",
    "all_gather_object",
    "all_reduce",
    "all_to_all",
    "all_to_all_single",
    "barrier",
    "broadcast",
    "broadcast_object_list",
    "destroy_process_group",
    "gather",
    "gather_object",
    "get_backend",
    "get_global_rank",
    "get_group_rank",
    "get_process_group_ranks",
    "get_rank",
    "get_world_size",
    "group",
    "init_process_group",
    "irecv",
    "is_available",
    "is_gloo_available",
    "is_initialized",
    "is_mpi_available",
    "is_nccl_available",
    "is_torchelastic_launched",
    "isend",
    "monitored_barrier",
    "new_group",
    "recv",
    "reduce",
    "reduce_scatter",
    "reduce_scatter_tensor",
    "scatter",
    "scatter_object_list",
    "send",
]

_ONE = "rgrad computes in one process"


class ReduceOp(enum.Enum):
    """How contributions are combined. Of one contribution every way makes the same."""

    SUM = 0
    AVG = 1
    PRODUCT = 2
    MIN = 3
    MAX = 4
    BAND = 5
    BOR = 6
    BXOR = 7
    PREMUL_SUM = 8


class Backend(str):
    """The name of a way to talk to other processes, in lower case."""

    UNDEFINED = "undefined"
    GLOO = "gloo"
    NCCL = "nccl"
    MPI = "mpi"
    UCC = "ucc"
    XCCL = "xccl"
    FAKE = "fake"

    def __new__(cls, name: str) -> Backend:
        return super().__new__(cls, name.lower())


class Work:
    """A collective that was asked for. With one process it is done at once."""

    def __init__(self, result: Any = None) -> None:
        self._result = result

    def wait(self, timeout: Any = None) -> bool:
        """True: it is done."""
        return True

    def is_completed(self) -> bool:
        """True."""
        return True

    def is_success(self) -> bool:
        """True."""
        return True

    def result(self) -> list[Any]:
        """What the collective made, in a list."""
        return [] if self._result is None else [self._result]

    def get_future(self) -> Any:
        """A future that has the result."""
        from concurrent.futures import Future

        future: Any = Future()
        future.set_result(self.result())
        return future


class ProcessGroup:
    """The processes that take part in a collective: this one."""

    def __init__(self, backend: str, name: str = "0") -> None:
        self._backend, self.group_name, self.group_desc = backend, name, "default_pg"

    def rank(self) -> int:
        """The place of this process among those of the group: 0."""
        return 0

    def size(self) -> int:
        """How many processes: 1."""
        return 1

    def name(self) -> str:
        """The name of the backend."""
        return self._backend


class _Members(type):
    """Its `WORLD` is the group of all processes, None before there is one."""

    @property
    def WORLD(cls) -> ProcessGroup | None:
        return _world


class group(metaclass=_Members):
    """`group.WORLD` is the group of all processes."""


class GroupMember(metaclass=_Members):
    """`GroupMember.WORLD` is the group of all processes; `NON_GROUP_MEMBER` stands for a group without this one."""

    NON_GROUP_MEMBER = -100


_world: ProcessGroup | None = None
_groups = 0


def is_available() -> bool:
    """False: there is no way to talk to other processes."""
    return False


is_nccl_available = is_gloo_available = is_mpi_available = is_torchelastic_launched = is_available


def is_initialized() -> bool:
    """Whether the group of this process was made."""
    return _world is not None


def _default(given: Any = None) -> ProcessGroup:
    if isinstance(given, ProcessGroup):
        return given
    if _world is None:
        raise ValueError("Default process group has not been initialized, please make sure to call init_process_group.")
    return _world


def init_process_group(
    backend: str | None = None,
    init_method: str | None = None,
    timeout: Any = None,
    world_size: int = -1,
    rank: int = -1,
    store: Any = None,
    group_name: str = "",
    pg_options: Any = None,
    device_id: Any = None,
) -> None:
    """Makes the group of this process alone.

    Args:
        backend: any name; nothing is sent.
        init_method: how processes would find each other; not needed.
        timeout: not needed.
        world_size: how many processes; -1 for what the environment says (`WORLD_SIZE`), else 1.
        rank: which of them this is; -1 for what the environment says (`RANK`), else 0.
        store: not needed.
        group_name: not needed.
        pg_options: not needed.
        device_id: not needed.

    Raises:
        NotImplementedError: there are to be more processes than one.
        ValueError: the group was made before, or the rank is not 0.
    """
    global _world
    if _world is not None:
        raise ValueError("trying to initialize the default process group twice!")
    world_size = int(os.environ.get("WORLD_SIZE", 1)) if world_size < 0 else world_size
    rank = int(os.environ.get("RANK", 0)) if rank < 0 else rank
    if world_size > 1:
        refuse(f"torch.distributed.init_process_group(world_size={world_size})", _ONE)
    if rank != 0:
        raise ValueError(f"rank {rank} is not below the world size of 1")
    _world = ProcessGroup(Backend(backend or "gloo"))


def destroy_process_group(group: Any = None) -> None:
    """Ends a group; the default one if None."""
    global _world
    if _default(group) is _world:
        _world = None


def new_group(ranks: Sequence[int] | None = None, timeout: Any = None, backend: Any = None, **options: Any) -> Any:
    """A further group of some of the processes.

    Args:
        ranks: who takes part; all if None. Where this process does not, the group is `NON_GROUP_MEMBER`.
        timeout: not needed.
        backend: a name; that of the default group if None.
        options: not needed.
    """
    global _groups
    world = _default()
    if ranks is not None and list(ranks) != [0]:
        if any(rank != 0 for rank in ranks):
            raise ValueError("The new group's rank should be within the world_size set by init_process_group")
        return GroupMember.NON_GROUP_MEMBER
    _groups += 1
    return ProcessGroup(Backend(backend or world.name()), str(_groups))


def get_backend(group: Any = None) -> str:
    """The name that a group was made with."""
    return _default(group).name()


def get_rank(group: Any = None) -> int:
    """The place of this process in a group: 0."""
    return _default(group).rank()


def get_world_size(group: Any = None) -> int:
    """How many processes a group has: 1."""
    return _default(group).size()


def get_global_rank(group: Any, group_rank: int) -> int:
    """The place among all processes of one of a group."""
    return _only(group_rank)


def get_group_rank(group: Any, global_rank: int) -> int:
    """The place in a group of one of all processes."""
    return _only(global_rank)


def _only(rank: Any) -> int:
    if rank not in (None, 0):
        raise ValueError(f"Global rank {rank} is not part of group")
    return 0


def get_process_group_ranks(group: Any = None) -> list[int]:
    """The places among all processes of those in a group."""
    _default(group)
    return [0]


# Collectives: each takes the contribution of this process where others would be combined with it.


def _done(asynchronous: bool, result: Any = None) -> Work | None:
    return Work(result) if asynchronous else None


def _expect_one(what: str, items: Sequence[Any]) -> None:
    if len(items) != 1:
        raise ValueError(f"{what} has {len(items)} entries for a group of 1 process")


def barrier(group: Any = None, async_op: bool = False, device_ids: Any = None) -> Work | None:
    """Waits for nobody."""
    _default(group)
    return _done(async_op)


def monitored_barrier(group: Any = None, timeout: Any = None, wait_all_ranks: bool = False) -> None:
    """Waits for nobody."""
    _default(group)


def all_reduce(tensor: Tensor, op: Any = ReduceOp.SUM, group: Any = None, async_op: bool = False) -> Work | None:
    """Leaves the tensor as it is: it is the only contribution."""
    _default(group)
    return _done(async_op, tensor)


def reduce(
    tensor: Tensor,
    dst: int | None = None,
    op: Any = ReduceOp.SUM,
    group: Any = None,
    async_op: bool = False,
    group_dst: int | None = None,
) -> Work | None:
    """Leaves the tensor as it is: it is the only contribution."""
    _default(group)
    _only(dst)
    return _done(async_op, tensor)


def broadcast(
    tensor: Tensor, src: int | None = None, group: Any = None, async_op: bool = False, group_src: int | None = None
) -> Work | None:
    """Leaves the tensor as it is: it is the one that others would get."""
    _default(group)
    _only(src)
    return _done(async_op, tensor)


def all_gather(tensor_list: list[Tensor], tensor: Tensor, group: Any = None, async_op: bool = False) -> Work | None:
    """Copies a tensor into the only one of a list."""
    _default(group)
    _expect_one("tensor_list", tensor_list)
    tensor_list[0].copy_(tensor)
    return _done(async_op, tensor_list)


def all_gather_into_tensor(
    output_tensor: Tensor, input_tensor: Tensor, group: Any = None, async_op: bool = False
) -> Work | None:
    """Copies a tensor into another, which may have a further dimension of size 1 in front."""
    _default(group)
    output_tensor.copy_(input_tensor.view(output_tensor.shape))
    return _done(async_op, output_tensor)


def gather(
    tensor: Tensor,
    gather_list: list[Tensor] | None = None,
    dst: int | None = None,
    group: Any = None,
    async_op: bool = False,
    group_dst: int | None = None,
) -> Work | None:
    """Copies a tensor into the only one of a list."""
    _only(dst)
    if not gather_list:
        raise ValueError("Argument ``gather_list`` must be specified on destination rank.")
    return all_gather(gather_list, tensor, group, async_op)


def scatter(
    tensor: Tensor,
    scatter_list: list[Tensor] | None = None,
    src: int | None = None,
    group: Any = None,
    async_op: bool = False,
    group_src: int | None = None,
) -> Work | None:
    """Copies the only tensor of a list into another."""
    _default(group)
    _only(src)
    if not scatter_list:
        raise ValueError("Argument ``scatter_list`` must be specified on source rank.")
    _expect_one("scatter_list", scatter_list)
    tensor.copy_(scatter_list[0])
    return _done(async_op, tensor)


def reduce_scatter(
    output: Tensor, input_list: list[Tensor], op: Any = ReduceOp.SUM, group: Any = None, async_op: bool = False
) -> Work | None:
    """Copies the only tensor of a list into another."""
    return scatter(output, input_list, 0, group, async_op)


def reduce_scatter_tensor(
    output: Tensor, input: Tensor, op: Any = ReduceOp.SUM, group: Any = None, async_op: bool = False
) -> Work | None:
    """Copies a tensor into another, which may have one dimension of size 1 less."""
    _default(group)
    output.copy_(input.view(output.shape))
    return _done(async_op, output)


def all_to_all(
    output_tensor_list: list[Tensor], input_tensor_list: list[Tensor], group: Any = None, async_op: bool = False
) -> Work | None:
    """Copies the only tensor of a list into the only one of another."""
    _expect_one("input_tensor_list", input_tensor_list)
    return all_gather(output_tensor_list, input_tensor_list[0], group, async_op)


def all_to_all_single(
    output: Tensor,
    input: Tensor,
    output_split_sizes: Any = None,
    input_split_sizes: Any = None,
    group: Any = None,
    async_op: bool = False,
) -> Work | None:
    """Copies a tensor into another."""
    return all_gather([output], input, group, async_op)


def all_gather_object(object_list: list[Any], obj: Any, group: Any = None) -> None:
    """Puts a copy of an object, made by pickle as for another process, into a list."""
    import pickle

    _default(group)
    _expect_one("object_list", object_list)
    object_list[0] = pickle.loads(pickle.dumps(obj))


def gather_object(
    obj: Any, object_gather_list: list[Any] | None = None, dst: int | None = None, group: Any = None, **other: Any
) -> None:
    """Puts a copy of an object into a list."""
    _only(dst)
    if not object_gather_list:
        raise ValueError("Argument ``object_gather_list`` must be specified on destination rank.")
    all_gather_object(object_gather_list, obj, group)


def broadcast_object_list(object_list: list[Any], src: int | None = None, group: Any = None, **other: Any) -> None:
    """Leaves the objects as they are: they are those that others would get."""
    _default(group)
    _only(src)


def scatter_object_list(
    scatter_object_output_list: list[Any],
    scatter_object_input_list: list[Any] | None = None,
    src: int | None = None,
    group: Any = None,
    **other: Any,
) -> None:
    """Puts the only object of a list into another list."""
    _only(src)
    inputs = scatter_object_input_list or []
    _expect_one("scatter_object_input_list", inputs)
    all_gather_object(scatter_object_output_list[:1], inputs[0], group)
    scatter_object_output_list[0] = inputs[0]


def _peer(name: str) -> Callable[..., Any]:
    def function(tensor: Tensor, *args: Any, **kwargs: Any) -> Any:
        _default()
        refuse(f"torch.distributed.{name}", f"{_ONE}, there is no other to talk to")

    function.__name__ = function.__qualname__ = name
    function.__module__ = __name__
    function.__doc__ = "Refuses: there is no other process."
    return function


send, recv, isend, irecv = (_peer(name) for name in ("send", "recv", "isend", "irecv"))
