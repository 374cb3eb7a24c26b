"""Errors of `torch.compile`."""


class TorchDynamoException(RuntimeError):
    """An error of compiling."""


class InvalidBackend(TorchDynamoException):
    """The backend of `torch.compile` has no such name."""

    def __init__(self, name: str) -> None:
        super().__init__(f"Invalid backend: {name!r}. See `torch._dynamo.list_backends()` for available backends.")


class Unsupported(TorchDynamoException):
    """With ``fullgraph=True``, a compiled function read a value before its end."""
