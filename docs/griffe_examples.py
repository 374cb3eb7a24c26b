"""Examples in docstrings become code on the pages of the site: an extension of griffe, which reads the docstrings."""

from __future__ import annotations

import re
from typing import Any

from griffe import Extension, Object


def fenced(text: str) -> str:
    """Names the section of examples as griffe does, and fences examples outside of it."""
    text = re.sub(r"^Example:$", "Examples:", text, flags=re.M)
    block = r"(?:^>>> .*\n?(?:^(?!>>> |\s*$).*\n?)*)+"
    return re.sub(block, lambda m: f"```pycon\n{m[0].rstrip()}\n```\n", text, flags=re.M)


class Examples(Extension):
    """Applies `fenced` to every docstring."""

    def on_object(self, *, obj: Object, **kwargs: Any) -> None:
        """Called for each object that is read."""
        if obj.docstring is not None:
            obj.docstring.value = fenced(obj.docstring.value)
