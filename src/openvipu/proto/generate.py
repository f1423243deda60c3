"""Make the Python stubs from the ``.proto`` files: ``python -m openvipu.proto.generate [DIRECTORY]``.

Needs grpcio-tools, which only developers have. The stubs are committed, so that a controller VM needs
no compiler; ``tests/openvipu/test_schema.py`` fails when they are out of date.
"""

from __future__ import annotations

import sys
from pathlib import Path

SOURCE = Path(__file__).resolve().parent


def generate(target: Path) -> None:
    """Write ``openvipu/proto/*_pb2*`` below ``target`` (a directory that is put on ``sys.path``)."""
    import grpc_tools
    from grpc_tools import protoc

    root = SOURCE.parent.parent
    well_known = Path(grpc_tools.__file__).parent / "_proto"
    files = sorted(str(path.relative_to(root)) for path in SOURCE.glob("*.proto"))
    outputs = [f"--{kind}_out={target}" for kind in ("python", "pyi", "grpc_python")]
    status = protoc.main(["protoc", f"-I{root}", f"-I{well_known}", *outputs, *files])
    if status:
        raise SystemExit(f"protoc failed with status {status}")


if __name__ == "__main__":
    generate(Path(sys.argv[1]) if len(sys.argv) > 1 else SOURCE.parent.parent)
