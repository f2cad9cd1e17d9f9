"""Read options of a problem from NAME=VALUE, with the types of the signature of its function."""

from __future__ import annotations

import inspect
import types
import typing
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from boundcheck.errors import InputError

OWN_OPTIONS = ("seed", "dtype", "device")  # each is a separate option of the command line
WORDS = {
    type(None): "none",
    bool: "true or false",
    int: "a whole number",
    float: "a number",
    str: "text",
}  # tried in this order
TRUTH = {"true": True, "false": False}
Readable = type[bool] | type[int] | type[float] | type[str] | type[None]


def options_from_text(texts: Iterable[str], function: Callable[..., Any], spec: str) -> dict[str, Any]:
    """Return the options for a function from texts.

    Parameters
    ----------
    texts : iterable of str
        Texts of the form ``name=value``.
    function : callable
        The function that makes the problem. The annotation of a parameter, or else its default, gives its type.
    spec : str
        The name of the function for the user.

    Returns
    -------
    dict
        The values by name.

    Raises
    ------
    InputError
        If a text is not ``name=value``, a name is unknown or given twice, or a value has another type. The message has
        the names and types that the function takes.

    Examples
    --------
    >>> from boundcheck.problems.parts.option_text import options_from_text
    >>> def make(size: int = 10, tfidf: bool = False): ...
    >>> options_from_text(["tfidf=true", "size=5"], make, "mine.py:make")
    {'tfidf': True, 'size': 5}
    """
    parameters = _parameters(function)
    any_name = any(p.kind is p.VAR_KEYWORD for p in parameters.values())
    named = {n: p for n, p in parameters.items() if p.kind not in (p.VAR_KEYWORD, p.VAR_POSITIONAL, p.POSITIONAL_ONLY)}
    options: dict[str, Any] = {}
    for text in texts:
        name, equals, value = (part.strip() for part in text.partition("="))
        if not equals or not name:
            raise InputError(f"--set-problem {text} has no '='; write NAME=VALUE, as in --set-problem seed=1")
        if name in OWN_OPTIONS:
            raise InputError(f"--set-problem {name}={value} has an option of its own; write --{name} {value}")
        if name in options:
            raise InputError(f"--set-problem gives {name} twice; give it once")
        if name not in named and not any_name:
            raise InputError(f"{spec} has no option {name!r}; {known_options(named)}")
        types_ = _types(named[name]) if name in named else ()
        options[name] = _value(value, types_, f"option {name} of {spec}")
    return options


def option_types(function: Callable[..., Any], name: str) -> tuple[Readable, ...]:
    """Return the types of an option; empty if it takes any text, or if the function does not have this option."""
    parameters = _parameters(function)
    return _types(parameters[name]) if name in parameters else ()


def option_value(text: str, types_: tuple[Readable, ...], what: str) -> Any:
    """Return the value of a text in the first of these types that can read it; without types, all are tried.

    `what` is the name of the option for messages.

    Examples
    --------
    >>> from boundcheck.problems.parts.option_text import option_value
    >>> option_value("5", (int,), "option size of lr"), option_value("5", (float,), "option kappa of lr")
    (5, 5.0)
    """
    return _value(text, types_, what)


def known_options(parameters: Mapping[str, inspect.Parameter]) -> str:
    """Return the options as text, with their types."""
    rows = [
        f"{name} ({_in_words(_types(p)).replace('a ', '') or 'text'})"
        for name, p in parameters.items()
        if name not in OWN_OPTIONS
    ]
    return f"it takes {', '.join(rows)}" if rows else "it takes no options"


def _parameters(function: Callable[..., Any]) -> Mapping[str, inspect.Parameter]:
    try:
        return inspect.signature(function, eval_str=True).parameters
    except NameError:  # an annotation that only a type checker can read
        return inspect.signature(function).parameters


def _types(parameter: inspect.Parameter) -> tuple[Readable, ...]:
    """Return the readable types of a parameter, from its annotation or else its default; empty if neither has one."""
    annotation = parameter.annotation
    if annotation is parameter.empty or isinstance(annotation, str):
        default = parameter.default
        return (type(default),) if type(default) in WORDS and default is not None else ()
    union = typing.get_origin(annotation) in (typing.Union, types.UnionType)
    members = typing.get_args(annotation) if union else (annotation,)
    return tuple(member for member in members if member in WORDS)


def _in_words(types_: Iterable[Readable]) -> str:
    return " or ".join(WORDS[one] for one in types_)


def _value(text: str, types_: tuple[Readable, ...], what: str) -> Any:
    for one in sorted(types_ or (type(None), bool, int, float, str), key=list(WORDS).index):
        value = _read(text, one)
        if value is not _UNREADABLE:
            return value
    raise InputError(f"{what} must be {_in_words(types_)} (got {text!r})")


_UNREADABLE = object()


def _read(text: str, kind: Readable) -> Any:
    """Return the text as a value of this type, or `_UNREADABLE`."""
    if kind is bool:
        return TRUTH.get(text.lower(), _UNREADABLE)
    if kind is type(None):
        return None if text.lower() == "none" else _UNREADABLE
    if kind is str:
        return text
    try:
        return int(text) if kind is int else float(text)
    except ValueError:
        return _UNREADABLE
