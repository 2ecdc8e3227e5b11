"""The API reference, made from docstrings while the site is built: a Markdown extension.

A line `::: rasf.name` (or `::: rasf.risk.name`, `::: rasf_lab.operations.name`) becomes a heading, the signature and
the docstring, and, for a class, those of the public properties and methods that it writes itself. A name that the
module does not have stops the build.

Docstrings are plain text in paragraphs; a line that opens with `word:` begins a line of its own, as in the source.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from functools import cached_property
from importlib import import_module
from types import ModuleType
from typing import Any

from markdown import Extension, Markdown
from markdown.preprocessors import Preprocessor

_DIRECTIVE = re.compile(r"^::: (rasf\w*\.[\w.]+)$")
_ARGUMENT = re.compile(r"(?<!\n)\n(?=\w+(, \w+)*: )")  # the end of a line before one that explains an argument
_WIDTH = 100
_BEFORE_FENCES = 40  # superfences' own is 25: the blocks written here are for it to find


def reference(name: str) -> list[str]:
    """The lines of Markdown that document a public name, such as rasf.learn."""
    home_name, _, plain = name.rpartition(".")
    home, short = import_module(home_name), name.removeprefix("rasf.")
    if plain not in public_names(home):
        raise ValueError(f"the page names {name}, which is not public")
    thing = getattr(home, plain)
    lines = [f"### {short} {{ #{name} }}", "", *_code(_signature(name, thing)), *_text(thing)]
    for member, written in _members(thing):
        shown = (
            [f"{short}.{member}"]
            if isinstance(written, property | cached_property)
            else _signature(f"{short}.{member}", written)
        )
        lines += [f"#### {member} {{ #{name}.{member} }}", "", *_code(shown), *_text(written)]
    return lines


def public_names(module: ModuleType) -> list[str]:
    """What a module says is public, or, of a world's module, the classes and functions that it writes itself."""
    own = [name for name, held in vars(module).items() if getattr(held, "__module__", None) == module.__name__]
    return list(getattr(module, "__all__", [name for name in own if not name.startswith("_")]))


def _members(thing: Any) -> Iterator[tuple[str, Any]]:
    """Public properties and methods with a docstring of their own, in the order of the source."""
    if not inspect.isclass(thing):
        return
    for member, held in vars(thing).items():
        written = held.__func__ if isinstance(held, classmethod | staticmethod) else held
        described = inspect.isfunction(written) or isinstance(written, property | cached_property)
        if described and not member.startswith("_") and written.__doc__:
            yield member, written


def _signature(shown: str, thing: Any) -> list[str]:
    """One line, or a line an argument where that is too long."""
    signature = inspect.signature(thing)
    arguments = [_plain(str(one)) for one in signature.parameters.values()]
    arguments = [one for one in arguments if one not in ("self", "cls")]
    keyword_only = [one.kind is one.KEYWORD_ONLY for one in signature.parameters.values()]
    starred = any(one.kind is one.VAR_POSITIONAL for one in signature.parameters.values())
    if any(keyword_only) and not starred:
        arguments.insert(len(arguments) - len(keyword_only) + keyword_only.index(True), "*")
    end = ")" if signature.return_annotation in (signature.empty, None, "None") else _returned(signature)
    line = f"{shown}({', '.join(arguments)}{end}"
    return [line] if len(line) <= _WIDTH else [f"{shown}(", *(f"    {one}," for one in arguments), end]


def _returned(signature: inspect.Signature) -> str:
    return f") -> {_plain(str(signature.return_annotation))}"


def _plain(annotated: str) -> str:
    """Annotations as the source has them, without quotes and with the names that a reader knows."""
    bare = re.sub(r"ForwardRef\('([^']*)'\)", r"\1", annotated)
    bare = re.sub(r"(: |^)'([^']*)'", r"\1\2", bare)
    return bare.replace("npt.", "").replace("NDArray[Any]", "array").replace("Floats", "array").replace("Ints", "array")


def _code(lines: list[str]) -> list[str]:
    return ["```py", *lines, "```", ""]


def _text(thing: Any) -> list[str]:
    doc = inspect.cleandoc(thing.__doc__ or "")
    return [*_ARGUMENT.sub("  \n", doc).splitlines(), ""]


class _Expand(Preprocessor):
    def run(self, lines: list[str]) -> list[str]:
        expanded: list[str] = []
        for line in lines:
            found = _DIRECTIVE.match(line)
            expanded += reference(found[1]) if found else [line]
        return expanded


class _ApiReference(Extension):
    def extendMarkdown(self, md: Markdown) -> None:
        md.preprocessors.register(_Expand(md), "api_reference", _BEFORE_FENCES)


def makeExtension(**options: Any) -> Extension:
    """What Markdown calls."""
    return _ApiReference(**options)
