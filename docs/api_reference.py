"""The API reference, `docs/api.md`, made from docstrings: `python docs/api_reference.py` writes it.

Between the lines `<!-- rasf.name -->` and `<!-- end of rasf.name -->` it writes a heading, the signature and the
docstring and, for a class, those of the public properties and methods that the class itself defines. Sections such as
`Args:` become lists. Names may be in other modules, such as rasf.risk. A name that is not public is an error.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from functools import cached_property
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

PAGE = Path(__file__).with_name("api.md")
_BLOCK = re.compile(r"<!-- (rasf\w*\.[\w.]+) -->\n.*?<!-- end of \1 -->", re.DOTALL)
_SECTION = re.compile(r"^(Args|Returns|Raises|Yields|Attributes|[A-Z][^:`]*):$")
_ENTRY = re.compile(r"^(\*{0,2}\w+(?:, \*{0,2}\w+)*): ")
_WIDTH = 100


def with_reference(page: str) -> str:
    """Return the page with the documentation of every name that it lists."""
    return _BLOCK.sub(lambda found: _block(found[1]), page)


def names(page: str) -> list[str]:
    """Return the names that a page lists."""
    return [found[1] for found in _BLOCK.finditer(page)]


def _block(name: str) -> str:
    lines = [f"<!-- {name} -->", *reference(name), f"<!-- end of {name} -->"]
    return "\n".join(line for line, before in zip(lines, ["", *lines[:-1]], strict=True) if line or before)


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
    bare = re.sub(r"<function ([\w.]+) at 0x[0-9a-f]+>", r"\1", bare)
    return bare.replace("npt.", "").replace("NDArray[Any]", "array").replace("Floats", "array").replace("Ints", "array")


def _code(lines: list[str]) -> list[str]:
    return ["```py", *lines, "```", ""]


def _text(thing: Any) -> list[str]:
    """A docstring as Markdown: paragraphs, and a list for each section of indented lines."""
    found: list[str] = []
    lines = inspect.cleandoc(thing.__doc__ or "").splitlines()
    while lines:
        line = lines.pop(0)
        if not _SECTION.match(line) or not lines or not lines[0].startswith("    "):
            found.append(line)
            continue
        indented = []
        while lines and (lines[0].startswith("    ") or not lines[0]):
            indented.append(lines.pop(0)[4:])
        found += [*([""] if found and found[-1] else []), f"**{line}**", "", *_entries(indented), ""]
    return [*found, ""] if found and found[-1] else found or [""]


def _entries(lines: list[str]) -> list[str]:
    """The lines of a section: a list with an entry for each argument, or paragraphs."""
    found: list[str] = []
    listed = any(_ENTRY.match(line) for line in lines)
    for line in lines:
        begins = _ENTRY.match(line)
        if begins:
            found.append(f"- `{begins[1]}`: {line[begins.end() :]}")
        elif line:
            found.append(f"  {line.strip()}" if listed else line.strip())
    return found


if __name__ == "__main__":
    PAGE.write_text(with_reference(PAGE.read_text()))
