"""Public functions say what they do: by a docstring of their own, or that of the method that they implement.

A method without one may implement a documented method of a base class, or of a Protocol of this tree (ports are
implemented without being inherited), or one of a library's base class, whose documentation holds.
"""

from __future__ import annotations

import ast
import subprocess
from collections.abc import Iterator
from pathlib import Path

from tests.helpers.paths import ROOT

TREES = ("src", "packages", "lab", "acceptance")
LIBRARY: dict[str, set[str]] = {
    "ArgumentParser": {"error"},
    "BaseHTTPRequestHandler": {
        "do_GET",
        "do_HEAD",
        "do_POST",
        "do_PUT",
        "do_PATCH",
        "do_DELETE",
        "log_message",
        "setup",
    },
    "Collector": {"collect"},
    "Command": {"get_parser", "take_action"},
    "H11Protocol": {"connection_made", "connection_lost", "data_received", "pause_writing", "resume_writing"},
    "HTTPAdapter": {"send"},
    "RawIOBase": {"readable", "readinto"},
    "ServerInterceptor": {"intercept_service"},
    "Thread": {"run"},
    "ThreadingHTTPServer": {
        *("get_request", "verify_request", "process_request", "process_request_thread", "shutdown_request"),
        *("finish_request", "handle_error"),
    },
}
"""Methods that a library's base class documents."""
ALL = {
    # Interfaces for drivers of Ironic, Neutron, Nova and Manila, and that of networking-generic-switch
    *(
        "ConsoleInterface",
        "FakeDeploy",
        "FakeDriverWithoutFakeNodes",
        "GenericSwitchDevice",
        "InspectInterface",
    ),
    *("MechanismDriver", "RamdiskDeploy", "RedfishHardware", "RedfishVirtualMediaBoot", "ShareDriver"),
}
"""Base classes of libraries whose subclasses have only the library's public methods, as gRPC's servicers do."""

Function = ast.FunctionDef | ast.AsyncFunctionDef


def sources() -> Iterator[tuple[str, ast.Module]]:
    """Each hand-written module as (path from the root, syntax tree)."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", *TREES], cwd=ROOT, capture_output=True, text=True, check=True
    )
    for name in listed.stdout.rstrip("\0").split("\0"):
        if name.endswith(".py") and "_pb2" not in Path(name).name and (ROOT / name).is_file():
            yield name, ast.parse((ROOT / name).read_text())


def name_of(base: ast.expr) -> str:
    """Last part of a base's name, such as `Protocol` for `typing.Protocol[T]`."""
    while isinstance(base, ast.Subscript | ast.Call):
        base = base.value if isinstance(base, ast.Subscript) else base.func
    return base.attr if isinstance(base, ast.Attribute) else getattr(base, "id", "")


def functions(body: list[ast.stmt]) -> Iterator[Function]:
    """Public functions or methods of a body; of overloads only the implementation."""
    for node in body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and not node.name.startswith("_"):
            if not any(name_of(d) in ("overload", "setter") for d in node.decorator_list):
                yield node
        elif isinstance(node, ast.If):
            yield from functions(node.body)


def classes(body: list[ast.stmt]) -> Iterator[ast.ClassDef]:
    """Public and private classes of a body, nested ones included."""
    for node in body:
        if isinstance(node, ast.ClassDef):
            yield node
            yield from classes(node.body)


Key = tuple[str, str]
"""A class's module and name."""


class Tree:
    """All classes of the sources. A base that its module doesn't define may be any class of that name."""

    def __init__(self, modules: dict[str, ast.Module]):
        self.bases: dict[Key, set[str]] = {}
        self.documented: dict[Key, set[str]] = {}
        self.named: dict[str, list[Key]] = {}
        self.ports: set[str] = set()
        for path, module in modules.items():
            for one in classes(module.body):
                key = (path, one.name)
                self.bases[key] = {name_of(b) for b in one.bases}
                self.documented[key] = {f.name for f in functions(one.body) if ast.get_docstring(f)}
                self.named.setdefault(one.name, []).append(key)
                if "Protocol" in self.bases[key]:
                    self.ports |= self.documented[key]

    def ancestors(self, key: Key) -> Iterator[str | Key]:
        """Classes of the sources as keys, and bases from libraries by name."""
        for base in self.bases[key]:
            same = (key[0], base)
            found = [same] if same in self.bases and same != key else self.named.get(base, [])
            yield from (one for one in found if one != key)
            for one in found:
                if one != key:
                    yield from self.ancestors(one)
            if not found:
                yield base

    def is_documented(self, key: Key, method: str) -> bool:
        """Whether the method implements one that is documented elsewhere."""
        if method in self.ports and "Protocol" not in self.bases[key]:
            return True
        for one in self.ancestors(key):
            if isinstance(one, tuple):
                if method in self.documented[one]:
                    return True
            elif one in ALL or one.endswith("Servicer") or method in LIBRARY.get(one, ()):
                return True
        return False


def undocumented() -> list[str]:
    """`path: Class.method` of each public function that has no documentation."""
    modules = dict(sources())
    tree = Tree(modules)
    found = list[str]()
    for path, module in modules.items():
        found += (f"{path}: {f.name}" for f in functions(module.body) if not ast.get_docstring(f))
        for one in classes(module.body):
            found += (
                f"{path}: {one.name}.{f.name}"
                for f in functions(one.body)
                if not one.name.startswith("_")
                if not ast.get_docstring(f) and not tree.is_documented((path, one.name), f.name)
            )
    return found


def test_public_functions_are_documented() -> None:
    """With shapes, units, errors and source, where the name doesn't say them."""
    assert undocumented() == []
