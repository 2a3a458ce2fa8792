"""Writes `src/frontdesk/sync.pyi`, the stub of `frontdesk.sync` for type checkers and editors, from the async sources.

With `--check` nothing is written; the exit status says whether the file is up to date.
"""

from __future__ import annotations

import ast
import builtins
import inspect
import subprocess
import sys
from pathlib import Path
from typing import Any

import frontdesk
from frontdesk import sync

STUB = Path(__file__).parents[1] / "src" / "frontdesk" / "sync.pyi"
HEADER = '"""The types of `frontdesk.sync`, for type checkers and editors. Written by `make stubs`."""\n'
UNTYPED = {"one_call"}
"""decorators that leave the types as they are"""
SPECIAL = {"__init__": "__init__", "__aenter__": "__enter__", "__aexit__": "__exit__", "__call__": "__call__"}
SYNC_NAMES = {
    "AsyncIterator": ("collections.abc", "Iterator"),
    "AbstractAsyncContextManager": ("contextlib", "AbstractContextManager"),
    "asynccontextmanager": ("contextlib", "contextmanager"),
}
TWINS = [name for name in frontdesk.__all__ if getattr(sync, name) is not getattr(frontdesk, name)]


class Module:
    """The source of one module: its classes, and where each of its names comes from."""

    def __init__(self, name: str) -> None:
        self.namespace = vars(sys.modules[name])
        tree = ast.parse(inspect.getsource(sys.modules[name]))
        self.classes = {node.name: node for node in tree.body if isinstance(node, ast.ClassDef)}
        self.origins = {
            alias.asname or alias.name: (node.module or "", alias.name)
            for node in ast.walk(tree)
            if isinstance(node, ast.ImportFrom)
            for alias in node.names
        }
        for defined in self.namespace.keys() - self.origins.keys():
            if not hasattr(builtins, defined):
                self.origins[defined] = (name, defined)


class Rewriter(ast.NodeTransformer):
    """Turns async declarations into sync ones, and collects the names that they need."""

    def __init__(self, module: Module, needed: set[tuple[str, str]]) -> None:
        self.module = module
        self.needed = needed
        self.in_callback = False  # callbacks run on the loop, so they get the async classes

    def visit_Name(self, node: ast.Name) -> ast.expr:
        if node.id in TWINS and self.in_callback:
            self.needed.add(("", "frontdesk"))
            return ast.Name(f"frontdesk.{node.id}")
        if node.id in SYNC_NAMES and not self.in_callback:
            self.needed.add(SYNC_NAMES[node.id])
            return ast.Name(SYNC_NAMES[node.id][1])
        if node.id in self.module.origins and node.id not in TWINS:
            self.needed.add(self.module.origins[node.id])
        return node

    def visit_Subscript(self, node: ast.Subscript) -> ast.AST:
        name = node.value.id if isinstance(node.value, ast.Name) else ""
        outer, self.in_callback = self.in_callback, self.in_callback or name == "Callable"
        rewritten = self.generic_visit(node)
        self.in_callback = outer
        return rewritten

    def function(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> ast.FunctionDef:
        node.args.defaults = [self.default(value) for value in node.args.defaults]
        node.args.kw_defaults = [value and self.default(value) for value in node.args.kw_defaults]
        text = ast.get_docstring(node, clean=False)
        plain = ast.FunctionDef(
            name=SPECIAL.get(node.name, node.name),
            args=self.visit(node.args),
            body=[ast.Expr(ast.Constant(sync_text(text) if text else ...))],
            decorator_list=[self.visit(each) for each in node.decorator_list if ast.unparse(each) not in UNTYPED],
            returns=node.returns and self.visit(node.returns),
        )
        return ast.fix_missing_locations(ast.copy_location(plain, node))

    def default(self, node: ast.expr) -> ast.expr:
        """Literals unchanged, constants as their value, everything else as `...`."""
        value: Any = self.module.namespace.get(node.id, ...) if isinstance(node, ast.Name) else ...
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            value = getattr(self.module.namespace.get(node.value.id), node.attr, ...)
        if isinstance(value, int | float | str):
            return ast.Constant(value)
        is_literal = isinstance(node, ast.Constant) or (isinstance(node, ast.Tuple) and not node.elts)
        return node if is_literal else ast.Constant(...)


def sync_text(text: str) -> str:
    return text.replace("async with", "with").replace("`await ", "`")


def class_stub(source: type, needed: set[tuple[str, str]]) -> str:
    """One class, with everything that it inherits inside the package, except from another twin."""
    body: list[ast.stmt] = []
    seen: set[str] = set()
    twin = next((base for base in source.__mro__[1:] if base.__name__ in TWINS), object)
    for base in (base for base in source.__mro__ if base not in twin.__mro__):
        if not base.__module__.startswith("frontdesk"):
            continue
        module = Module(base.__module__)
        rewriter = Rewriter(module, needed)
        body_nodes = module.classes[base.__name__].body
        here = [node for node in body_nodes if declared_name(node) and declared_name(node) not in seen]
        overloaded = {declared_name(node) for node in here if is_overload(node)}
        for node in here:
            if declared_name(node) in overloaded and not is_overload(node):
                continue  # a stub has only the overloads
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                body.append(rewriter.function(node))
            elif isinstance(node, ast.AnnAssign):
                body.append(ast.AnnAssign(node.target, rewriter.visit(node.annotation), None, simple=1))
        seen.update(declared_name(node) for node in here)
    own = Module(source.__module__)
    node, rewriter = own.classes[source.__name__], Rewriter(own, needed)
    bases = [rewriter.visit(base) for base in node.bases if isinstance(base, ast.Subscript)]
    bases += [ast.Name(twin.__name__)] if twin is not object else []
    decorators = [rewriter.visit(decorator) for decorator in node.decorator_list]
    text = [ast.Expr(ast.Constant(sync_text(source.__doc__)))] if source.__doc__ else []
    stub_class = ast.ClassDef(source.__name__, bases, [], [*text, *body], decorators)
    return ast.unparse(ast.fix_missing_locations(stub_class))


def is_overload(node: ast.stmt) -> bool:
    decorators = node.decorator_list if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) else []
    return any(isinstance(decorator, ast.Name) and decorator.id == "overload" for decorator in decorators)


def declared_name(node: ast.stmt) -> str:
    """The public name that a statement in a class body declares, or an empty string."""
    if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
        name = node.target.id
    else:
        name = node.name if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) else "_"
    return name if name in SPECIAL or not name.startswith("_") else ""


def stub() -> str:
    needed = {("frontdesk", name) for name in frontdesk.__all__ if name not in TWINS}
    classes = [class_stub(getattr(frontdesk, name), needed) for name in TWINS]
    exported = {name for module, name in needed if module == "frontdesk"}
    wanted = [(module, name) for module, name in sorted(needed) if module == "frontdesk" or name not in exported]
    imports = [f"from {module} import {name}" if module else f"import {name}" for module, name in wanted]
    text = "\n".join([HEADER, *imports, f"__all__ = {frontdesk.__all__!r}", *classes])
    for command in (["check", "--fix", "--quiet", "--select", "I"], ["format", "--quiet"]):
        ruff = [sys.executable, "-m", "ruff", *command, "--stdin-filename", str(STUB), "-"]
        text = subprocess.run(ruff, input=text, capture_output=True, text=True, check=True).stdout
    return text


if __name__ == "__main__":
    wanted = stub()
    if "--check" not in sys.argv:
        STUB.write_text(wanted)
    elif not STUB.exists() or STUB.read_text() != wanted:
        sys.exit("src/frontdesk/sync.pyi is out of date: run `make stubs` (python scripts/sync_stub.py)")
