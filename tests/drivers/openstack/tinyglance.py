"""Glance in a few lines, from which a real Ironic gets images; it records which ones were fetched."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.drivers.openstack.tinycloud import Reply, TinyCloud
from weftlab.config import Sections


@dataclass(slots=True)
class Glance(TinyCloud):
    """Its images are added by `image`.

    Attributes:
        data: data of images that have their own.
        fetched: ids of the images whose data was fetched.
    """

    data: dict[str, bytes] = field(default_factory=dict[str, bytes])
    fetched: list[str] = field(default_factory=list[str])

    def image(self, id_: str, name: str, data: bytes | None = None, **more: object) -> dict[str, object]:
        """Add an image, which is public unless `more` says otherwise; `data`: its own, else its id."""
        data = data or id_.encode()
        self.data[id_] = data
        row: dict[str, object] = {"id": id_, "name": name, "status": "active", "visibility": "public"}
        row |= {"size": len(data), "disk_format": "raw", "container_format": "bare"}
        row |= {"checksum": hashlib.md5(data).hexdigest(), "os_hash_algo": "sha256"}
        row |= {"os_hash_value": hashlib.sha256(data).hexdigest(), **more}
        self.things["images"] = [*(r for r in self.things.get("images", []) if r["id"] != id_), row]
        return row

    def answer(self, method: str, path: str, query: dict[str, list[str]], seer: str, body: Any) -> Reply:
        if path.startswith("/image/images/"):
            return self._row(path.split("/")[3])
        if not path.startswith("/glance"):
            return TinyCloud.answer(self, method, path, query, seer, body)
        if "images" not in path:
            links = [{"rel": "self", "href": "v2/"}]
            return Reply(300, {"versions": [{"id": "v2.9", "status": "CURRENT", "links": links}]})
        _, _, wanted = path.partition("/images/")
        image, _, data = wanted.partition("/")
        if data:
            self.fetched.append(image)
            return Reply(200, self.data[image], "application/octet-stream")
        return self._row(image)

    def _row(self, image: str) -> Reply:
        found = [row for row in self.things["images"] if row["id"] == image]
        return Reply(200, found[0]) if found else Reply(404, f"No image found with ID {image}")


def in_ironic(text: str, folder: Path) -> Sections:
    """Configuration of an Ironic with it.

    Args:
        text: the tiny cloud's clouds.yaml.
        folder: for copies of images.
    """
    url = next(line.split()[-1] for line in text.splitlines() if "image_endpoint_override" in line)
    copies = ("tftp_root", "tftp_master_path", "instance_master_path", "images_path")
    return {
        "glance": {"auth_type": "none", "endpoint_override": url.replace("/image", "/glance")},
        "pxe": {name: folder / "pxe" / name for name in copies},
    }
