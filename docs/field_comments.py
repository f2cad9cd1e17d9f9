"""For the reference: the comment behind a field of a dataclass, or a member of an enumeration, is its docstring."""

from __future__ import annotations

from typing import Any

from griffe import Attribute, Docstring, Extension


class FieldComments(Extension):
    """What `name: type  # comment` says of `name`."""

    def on_attribute(self, *, attr: Attribute, **_: Any) -> None:
        """Called for every attribute that is read."""
        if attr.docstring is not None or attr.lineno is None or attr.endlineno is None or attr.parent is None:
            return
        if not attr.parent.is_class:
            return
        last = attr.lines_collection[attr.filepath][attr.endlineno - 1]
        _, mark, comment = last.partition("  # ")
        if mark and not comment.startswith(("type:", "noqa")):
            attr.docstring = Docstring(comment.strip(), parent=attr, lineno=attr.endlineno)
