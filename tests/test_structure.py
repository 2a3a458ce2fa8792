"""Rules for the code of the package that no linter checks, read from its syntax trees."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

PACKAGE = Path(__file__).parents[1] / "src" / "frontdesk"
MOST_CLASSES_ABOVE = 2
LONGEST_FROM_MANAGER, LONGEST_CHAIN = 29, 37
MOST_LINES = 60
"""of a function, without its signature"""
NAMED_TUPLE = ("_asdict", "_fields", "_make", "_replace")
"""public, although they begin with an underscore"""


@cache
def modules() -> dict[str, ast.Module]:
    """The syntax tree of each module, by its path in the package."""
    return {str(path.relative_to(PACKAGE)): ast.parse(path.read_text()) for path in sorted(PACKAGE.rglob("*.py"))}


def classes() -> Iterator[tuple[str, ast.ClassDef]]:
    """Every class, with the path of its module."""
    for path, module in modules().items():
        for node in ast.walk(module):
            if isinstance(node, ast.ClassDef):
                yield path, node


def test_no_class_has_more_than_two_of_our_classes_above_it() -> None:
    bases: dict[str, set[str]] = {}
    for _, node in classes():
        bases.setdefault(node.name, set()).update(ast.unparse(base).split("[")[0].split(".")[-1] for base in node.bases)

    def classes_above(name: str) -> int:
        return max((1 + classes_above(base) for base in bases[name] - {name} if base in bases), default=0)

    assert {name for name in bases if classes_above(name) > MOST_CLASSES_ABOVE} == set()


def test_no_function_is_longer_than_a_screen() -> None:
    found: dict[str, int] = {}
    for path, module in modules().items():
        for node in ast.walk(module):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.end_lineno is not None:
                found[f"{path}: {node.name}"] = node.end_lineno - node.body[0].lineno + 1
    assert {name: lines for name, lines in found.items() if lines > MOST_LINES} == {}


def test_no_two_classes_share_a_name() -> None:
    found: dict[str, set[str]] = {}
    for path, node in classes():
        found.setdefault(node.name, set()).add(path)
    assert {name: paths for name, paths in found.items() if len(paths) > 1} == {}


def foreign_private_names(module: ast.Module) -> Iterator[str]:
    """Uses of private names of other objects. A class may use its own names, and those of arguments of its own type; a
    module those that its classes declare."""
    own, declared = {"self", "cls", "super()"}, set(NAMED_TUPLE)
    for node in ast.walk(module):
        if isinstance(node, ast.ClassDef):
            own |= {each.arg for each in ast.walk(node) if isinstance(each, ast.arg) and is_type(each, node.name)}
            declared |= {ast.unparse(each.target) for each in node.body if isinstance(each, ast.AnnAssign)}
    for node in ast.walk(module):
        if isinstance(node, ast.Attribute) and re.match("_(?!_)", node.attr) and node.attr not in declared:
            holder = ast.unparse(node.value)
            if holder not in own:
                yield f"{holder}.{node.attr} in line {node.lineno}"


def is_type(argument: ast.arg, name: str) -> bool:
    return argument.annotation is not None and ast.unparse(argument.annotation) == name


def test_no_object_uses_private_names_of_another() -> None:
    found = {path: [*foreign_private_names(module)] for path, module in modules().items()}
    assert {path: names for path, names in found.items() if names} == {}


def files(name: str) -> set[str]:
    """The file of a module or package, if there is one with this name."""
    return {f"{name}.py", f"{name}/__init__.py"} & modules().keys()


def imports(path: str) -> set[str]:
    """The modules of the package that a module imports."""
    found: set[str] = set()
    for node in modules()[path].body:
        if isinstance(node, ast.ImportFrom) and node.module is not None and node.module.startswith("frontdesk."):
            package = node.module.removeprefix("frontdesk.").replace(".", "/")
            found.update(*(files(f"{package}/{each.name}") or files(package) for each in node.names))
    return found


@cache
def import_chain(path: str) -> tuple[str, ...]:
    """The longest chain of imports from a module, itself included."""
    return (path, *max((import_chain(each) for each in imports(path)), key=len, default=()))


def test_chains_of_imports_stay_short() -> None:
    assert len(import_chain("manager/manager.py")) <= LONGEST_FROM_MANAGER
    assert len(max(map(import_chain, modules()), key=len)) <= LONGEST_CHAIN
