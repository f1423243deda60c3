"""Steps of the suite image-registry: Glance."""

from __future__ import annotations

from hashlib import sha512
from os import urandom

from weftacceptance.cloud import Caller, Collection, Json, LostError, soon
from weftacceptance.steps import PREFIX, Run, Tests, skip, step

IMAGE_BYTES = 64 * 1024
_BOOTS = (
    "kernel_id",
    "ramdisk_id",
    "os_command_line",
    "hw_cdrom_bus",
    "hw_scsi_model",
    "os_shutdown_timeout",
)
"""Image properties with which a server of the lab boots its kernel and initramfs, whatever is on its disk."""


class _Images(Collection):
    """Glance's images; their documents have no envelope."""

    def find(self, key: str) -> Json | None:
        got = self.caller.ask("image", "GET", f"/v2/images/{key}")
        if got.status == 404:
            return None
        if got.get("id") != key:
            raise LostError("Glance answers about another image")
        return got.body


def images(caller: Caller) -> Collection:
    """Glance's images, as the caller sees them."""
    return _Images(caller, "image", "/v2/images", "image", "images")


def _upload(caller: Caller, name: str, **more: str) -> tuple[str, str]:
    """Uploads random bytes as a new image: its id, and their SHA-512. Args: more: its properties."""
    data = urandom(IMAGE_BYTES)
    body = {"name": PREFIX + name, "disk_format": "raw", "container_format": "bare", **more}
    key = str(caller.ask("image", "POST", "/v2/images", body).get("id"))
    headers = {"Content-Type": "application/octet-stream"}
    caller.ask("image", "PUT", f"/v2/images/{key}/file", data, headers)
    return key, sha512(data).hexdigest()


def _is_active(caller: Caller, key: str, digest: str) -> bool:
    """Whether Glance has the image with these bytes."""
    found = images(caller).find(key)
    return found is not None and found["status"] == "active" and found.get("os_hash_value") == digest


@step("upload_image", "image-registry")
def upload_image(run: Run) -> Json:
    """Uploads an image with the lab image's boot properties; waits until it is active with these bytes."""
    caller = run.tenant
    rows = caller.ask("image", "GET", "/v2/images?name=guest").get("images")
    key, digest = _upload(caller, "image", **{n: row[n] for row in rows for n in _BOOTS if n in row})
    if not soon(lambda: _is_active(caller, key, digest)):
        raise LostError("the image doesn't become active with the bytes that were sent")
    stores = caller.ask("image", "GET", "/v2/info/stores")
    store = stores.body["stores"][0]["id"] if stores.is_done and stores.body.get("stores") else "default"
    run.kept |= {"image": key, "digest": digest}
    return {"image_id": key, "storage_bucket": store, "disk_ids": [key]}


@step("crud_image", "image-registry")
def crud_image(run: Run) -> Json:
    """Creates, reads, changes and deletes an image, each read back."""
    caller, done = run.tenant, Tests()
    key, digest = _upload(caller, "crud")
    done.add("create", soon(lambda: _is_active(caller, key, digest)), "active, with the bytes that were sent")
    found = images(caller).find(key)
    done.add("get", found is not None and found["name"] == PREFIX + "crud", "by its id")
    rows = caller.ask("image", "GET", f"/v2/images?name={PREFIX}crud").get("images")
    done.add("list", [one["id"] for one in rows] == [key], "by its name")
    images(caller).delete(key)
    done.add("delete", soon(lambda: images(caller).find(key) is None), "Glance no longer has it")
    return {"success": done.all_passed, "image_id": key, "operations": done}


@step("teardown_image", "image-registry")
def teardown_image(run: Run) -> Json:
    """Deletes the uploaded image; passes if it existed and doesn't any more."""
    key, tests = run.need("image"), Tests()
    tests.add("image_there", images(run.tenant).find(key) is not None, "Glance has the image")
    images(run.tenant).delete(key)
    tests.add("image_gone", soon(lambda: images(run.tenant).find(key) is None), "Glance no longer has it")
    return {"tests": tests}


skip(
    "OpenStack has no service that keeps installer configurations", "crud_install_config", "install_config_bm"
)
