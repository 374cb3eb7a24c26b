"""Tensors in memory that several processes map.

Note [Shared memory]
~~~~~~~~~~~~~~~~~~~~
A tensor is shared by copying its storage to a file without a name, in memory where the system has such files, that is
mapped with writes visible to all who map it. The tensor's storage then borrows the mapping, which lives as long as the
storage. Children that are forked have the same mapping; to others goes a descriptor of the file, by which they map it
too. The memory is freed when the last process has closed descriptor and mapping.

The memory of a storage cannot be exchanged in place, so only the tensor itself moves. Views of it that were made
before keep the memory that they had, until they are shared or sent themselves: as long as the old memory is remembered,
of which at most 64 MiB are, they move to the same mapping.

By the strategy "file_system" files have names instead: a message holds a link of its own to the file, so that it can be
received when the sender has ended. Links that nobody has opened are removed when the process ends that made the first.
"""

from __future__ import annotations

import atexit
import contextlib
import glob
import mmap
import os
import pickle
import tempfile
import threading
import uuid
import weakref
from collections import OrderedDict
from collections.abc import Iterator
from multiprocessing import reduction, resource_sharer
from typing import TYPE_CHECKING, Any

from rgrad import _C

if TYPE_CHECKING:
    from rgrad.storage import TypedStorage

Tensor = _C.Tensor
UntypedStorage = _C.UntypedStorage

# The class that `DupFd` makes, imported with this module for the same reason as those of `init_reductions`.
_CAN_SHARE = hasattr(reduction, "DupFd") and hasattr(resource_sharer, "DupFd")

# The mappings of this process: by address, and by file, so that what is received twice is mapped once.
_by_address: weakref.WeakValueDictionary[int, SharedMapping] = weakref.WeakValueDictionary()
_by_file: weakref.WeakValueDictionary[tuple[int, int], SharedMapping] = weakref.WeakValueDictionary()
# Held while tensors move. A fork waits for it: queues pickle in a thread, which a forked child would not have.
_lock = threading.RLock()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_lock.acquire, after_in_parent=_lock.release, after_in_child=_lock.release)
_local = threading.local()

# What was moved, by its old address: the old storage, which keeps the address from being reused, and the mapping.
_moved: OrderedDict[int, tuple[UntypedStorage, weakref.ref[SharedMapping]]] = OrderedDict()
_MOST_MOVED = 64 << 20

strategy = "file_descriptor" if _CAN_SHARE else "copy"
_OWNER = "RGRAD_SHARED_FILES"


class SharedMapping(mmap.mmap):
    """A mapped file of memory, with its descriptor."""

    descriptor: int
    path: str | None = None

    @classmethod
    def of(cls, descriptor: int, nbytes: int) -> SharedMapping:
        """Maps a file; the descriptor is the mapping's from then on."""
        status = os.fstat(descriptor)
        key = (status.st_dev, status.st_ino)
        with _lock:
            known = _by_file.get(key)
            if known is not None:
                os.close(descriptor)
                return known
            made = cls(descriptor, nbytes)
            made.descriptor = descriptor
            weakref.finalize(made, os.close, descriptor)
            _by_file[key] = made
            _by_address[_address(made)] = made
        return made


def _address(mapping: SharedMapping) -> int:
    return _C.frombuffer(mapping, dtype=_C.uint8).data_ptr()


def _new_mapping(nbytes: int) -> SharedMapping:
    if strategy == "file_system":
        path = _new_path()
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
        os.ftruncate(descriptor, nbytes)
        made = SharedMapping.of(descriptor, nbytes)
        made.path = path
        weakref.finalize(made, _remove, path, os.getpid())
        return made
    if hasattr(os, "memfd_create"):
        descriptor = os.memfd_create("rgrad")
    else:
        descriptor, path = tempfile.mkstemp(prefix="rgrad-")
        os.unlink(path)
    os.ftruncate(descriptor, nbytes)
    return SharedMapping.of(descriptor, nbytes)


def _new_path() -> str:
    """A name for a file of memory, with a prefix of the process that makes the first one, which children inherit."""
    folder = "/dev/shm" if os.path.isdir("/dev/shm") else tempfile.gettempdir()
    if _OWNER not in os.environ:
        os.environ[_OWNER] = os.path.join(folder, f"torch_{os.getpid()}_{uuid.uuid4().hex}_")
        atexit.register(_remove_all, os.environ[_OWNER], os.getpid())
    return os.environ[_OWNER] + uuid.uuid4().hex


def _remove(path: str, pid: int) -> None:
    # A forked child has the mapping and not the file.
    if os.getpid() == pid:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path)


def _remove_all(prefix: str, pid: int) -> None:
    for path in glob.glob(glob.escape(prefix) + "*"):
        _remove(path, pid)


class _Link:
    """A name of a file of memory for one message, instead of its descriptor."""

    def __init__(self, path: str) -> None:
        self.path = _new_path()
        os.link(path, self.path)

    def detach(self) -> int:
        """Opens the file and removes the name."""
        descriptor = os.open(self.path, os.O_RDWR)
        os.unlink(self.path)
        return descriptor


def mapping_of(storage: UntypedStorage) -> SharedMapping | None:
    """The mapping in which a storage is, or None if its memory is private."""
    return _by_address.get(storage.data_ptr()) if storage.device.type == "cpu" and storage.nbytes() else None


def _storage_on(mapping: SharedMapping, nbytes: int) -> UntypedStorage:
    return _C.frombuffer(mapping, dtype=_C.uint8, count=nbytes).untyped_storage()


def is_shared(self: Tensor) -> bool:
    """Whether other processes can map the memory: after `share_memory_`, and always on a GPU."""
    return self.device.type != "cpu" or self.untyped_storage().is_shared()


def storage_is_shared(self: UntypedStorage) -> bool:
    """Whether other processes can map the memory."""
    return self.device.type != "cpu" or mapping_of(self) is not None


def share_memory_(self: Tensor) -> Tensor:
    """Moves the tensor to memory that processes share, and returns it; see Note [Shared memory].

    Nothing is done to a tensor that is there, is on a GPU, or has no elements.
    """
    storage = self.untyped_storage()
    if self.device.type != "cpu" or not storage.nbytes() or mapping_of(storage) is not None:
        return self
    nbytes = storage.nbytes()
    with _lock:
        shared = _moved_storage(storage)
        if shared is None:
            mapping = _new_mapping(nbytes)
            shared = _storage_on(mapping, nbytes)
            _on(shared, _C.uint8, 0, (nbytes,), (1,)).copy_(_on(storage, _C.uint8, 0, (nbytes,), (1,)))
            _remember(storage, mapping)
        self.data = _on(shared, self.dtype, self.storage_offset(), self.shape, self.stride())
    return self


def _moved_storage(storage: UntypedStorage) -> UntypedStorage | None:
    """Where the elements of a storage are that another tensor took to shared memory."""
    with _lock:
        known, reference = _moved.get(storage.data_ptr(), (None, None))
    mapping = reference() if reference is not None else None
    if known is None or mapping is None or known.nbytes() != storage.nbytes():
        return None
    return _storage_on(mapping, storage.nbytes())


def _remember(storage: UntypedStorage, mapping: SharedMapping) -> None:
    with _lock:
        _moved[storage.data_ptr()] = storage, weakref.ref(mapping)
        for address, (_, reference) in list(_moved.items()):
            if reference() is None:
                del _moved[address]
        total = sum(known.nbytes() for known, _ in _moved.values())
        while total > _MOST_MOVED:
            total -= _moved.popitem(last=False)[1][0].nbytes()


def _on(storage: UntypedStorage, dtype: Any, offset: int, size: Any, stride: Any) -> Tensor:
    return _C.empty(0, dtype=dtype, device="cpu").set_(storage, offset, tuple(size), tuple(stride))


@contextlib.contextmanager
def copies() -> Iterator[None]:
    """Within the block this thread's pickles of tensors hold copies of the data, instead of descriptors.

    A descriptor must be fetched while its sender lives, which a sender that ends after its last message cannot promise.
    """
    before = getattr(_local, "copies", False)
    _local.copies = True
    try:
        yield
    finally:
        _local.copies = before


def rebuild_tensor(
    cls: type, descriptor: Any, nbytes: int, dtype: Any, offset: int, size: Any, stride: Any, requires_grad: bool
) -> Tensor:
    """The tensor on memory that another process shares.

    Args:
        cls: Tensor or Parameter.
        descriptor: from which the file's descriptor is detached.
        nbytes: size of the storage.
        dtype: of the elements.
        offset: of the first element.
        size: shape of the tensor.
        stride: its strides.
        requires_grad: whether it requires a gradient.
    """
    mapping = SharedMapping.of(descriptor.detach(), nbytes)
    tensor = _on(_storage_on(mapping, nbytes), dtype, offset, size, stride)
    if cls is Tensor:
        return _C._require_grad(tensor, requires_grad)
    return _C._make_subclass(cls, tensor, requires_grad)


def reduce_tensor(tensor: Tensor) -> Any:
    """How a tensor is sent to another process: it moves to shared memory, and its descriptor is sent.

    Args:
        tensor: a leaf, or one that requires no gradient.

    Raises:
        RuntimeError: the tensor has a history, which ends at the process.
    """
    if tensor.requires_grad and not tensor.is_leaf:
        raise RuntimeError(
            "Cowardly refusing to serialize non-leaf tensor which requires_grad, since its history cannot be sent to "
            "another process. Send its detach()."
        )
    private = getattr(_local, "copies", False) or not _CAN_SHARE or vars(tensor)
    storage = tensor.untyped_storage()
    if private or tensor.device.type != "cpu" or not storage.nbytes():
        return tensor.__reduce_ex__(2)
    share_memory_(tensor)
    storage = tensor.untyped_storage()
    mapping = mapping_of(storage)
    assert mapping is not None
    layout = (tensor.dtype, tensor.storage_offset(), tuple(tensor.shape), tensor.stride())
    path = mapping.path if strategy == "file_system" else None
    descriptor = _Link(path) if path is not None else reduction.DupFd(mapping.descriptor)
    return rebuild_tensor, (type(tensor), descriptor, storage.nbytes(), *layout, tensor.requires_grad)


def rebuild_storage(tensor: Tensor) -> UntypedStorage:
    """The storage of a tensor of bytes."""
    return tensor.untyped_storage()


def reduce_storage(storage: UntypedStorage) -> Any:
    """How a storage is sent to another process: as a tensor of its bytes."""
    whole = _on(storage, _C.uint8, 0, (storage.nbytes(),), (1,)) if storage.device.type == "cpu" else None
    if whole is None:
        return storage.__reduce_ex__(2)
    return rebuild_storage, (whole,)


def rebuild_typed_storage(storage: UntypedStorage, dtype: Any) -> TypedStorage:
    """The storage of elements on memory that another process shares."""
    from rgrad.storage import TypedStorage

    return TypedStorage(wrap_storage=storage, dtype=dtype)


def reduce_typed_storage(storage: TypedStorage) -> Any:
    """How a storage of elements is sent: as an untyped one, after it moved to shared memory as a tensor does."""
    untyped = storage._untyped_storage
    if _CAN_SHARE and not getattr(_local, "copies", False) and untyped.device.type == "cpu" and untyped.nbytes():
        whole = _on(untyped, _C.uint8, 0, (untyped.nbytes(),), (1,))
        storage._untyped_storage = share_memory_(whole).untyped_storage()
    return rebuild_typed_storage, (storage._untyped_storage, storage.dtype)


def init_reductions() -> None:
    """Lets queues, pipes and processes of `multiprocessing` send tensors by shared memory."""
    from rgrad.nn.parameter import Parameter
    from rgrad.storage import TypedStorage

    for kind in (Tensor, Parameter):
        reduction.register(kind, reduce_tensor)
    reduction.register(UntypedStorage, reduce_storage)
    reduction.register(TypedStorage, reduce_typed_storage)
    # Imports now what a message needs: a queue's thread that imports during a fork leaves the child a locked module.
    pickle.loads(pickle.dumps((rebuild_tensor, rebuild_storage, rebuild_typed_storage, Tensor, Parameter, _C.float32)))
