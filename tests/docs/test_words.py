"""How pages and docstrings are written: their length, their words, and what public functions document."""

import ast
import inspect
import io
import re
import tokenize
from importlib import import_module
from pathlib import Path

import pytest

import api_reference

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted(path for path in (ROOT / "docs").glob("*.md") if path.name != "api.md")]
SOURCES = [path for package in ("rasf", "rasf_explorer", "rasf_lab") for path in (ROOT / "src" / package).rglob("*.py")]
BANNED = (ROOT / "lab" / "README.md").read_text()
PUBLIC = api_reference.names((ROOT / "docs" / "api.md").read_text())


def banned():
    """The words of the left column of the last table of lab/README.md."""
    table = BANNED.split("## Words that we do not use")[1]
    rows = re.findall(r"^\| ([^|]+) \|", table, re.MULTILINE)[2:]
    return [word for row in rows for word in row.strip().split(", ")]


def prose(source):
    """Docstrings and comments of a module, without names in backticks."""
    tree = ast.parse(source)
    kinds = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    found = [ast.get_docstring(node) or "" for node in ast.walk(tree) if isinstance(node, kinds)]
    tokens = tokenize.generate_tokens(io.StringIO(source).readline)
    found += [token.string for token in tokens if token.type == tokenize.COMMENT]
    return re.sub(r"`[^`]*`", "", "\n".join(found))


WORDS = re.compile(r"\b(" + "|".join(word.replace(" ", r"[\s-]+") for word in banned()) + r")s?\b", re.IGNORECASE)


def test_the_banned_words_are_read():
    assert {"promise", "beginnings", "whoever", "nobody"} <= set(banned())
    assert WORDS.findall("It promises side\nby side, and Nobody") == ["promise", "side\nby side", "Nobody"]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_pages_use_the_words_of_the_glossary(page):
    text = page.read_text()
    assert WORDS.findall(re.sub(r"```.*?```|`[^`]*`|\]\([^)]*\)", "", text, flags=re.DOTALL)) == []


def test_docstrings_and_comments_use_the_words_of_the_glossary(subtests):
    for path in SOURCES:
        with subtests.test(path=str(path.relative_to(ROOT))):
            assert WORDS.findall(prose(path.read_text())) == []


def test_lengths():
    assert len((ROOT / "README.md").read_text().splitlines()) <= 110
    assert sum(len(page.read_text().split()) for page in PAGES[1:]) <= 22_000


def _documented(name):
    """A public name, and the public functions that a class defines itself, other than those that its bases document."""
    home, _, short = name.rpartition(".")
    thing = getattr(import_module(home), short)
    if not inspect.isclass(thing):
        return [(name, thing)]
    functions = [(key, getattr(held, "__func__", held)) for key, held in vars(thing).items() if not key.startswith("_")]
    return [
        (f"{name}.{key}", held)
        for key, held in functions
        if inspect.isfunction(held) and held.__doc__ and not any(hasattr(base, key) for base in thing.__bases__)
    ]


def _missing(function):
    """The parameters that the docstring does not name at the beginning of a line."""
    document = inspect.getdoc(function) or ""
    named = {
        word.strip(" *") for line in re.findall(r"^ *([\w*, ]+):", document, re.MULTILINE) for word in line.split(",")
    }
    return [one for one in inspect.signature(function).parameters if one not in {"self", "cls"} | named]


def test_public_functions_document_their_arguments(subtests):
    assert _missing(lambda w: w) == ["w"]
    for name in PUBLIC:
        for shown, function in _documented(name):
            with subtests.test(name=shown):
                assert _missing(function) == []
