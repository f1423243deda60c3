"""A tenant's user data arrives unchanged after weft added its own part, and fits Nova with the keys in it."""

from __future__ import annotations

import email
from base64 import urlsafe_b64encode

import pytest
import yaml

from weft.model.errors import InputError
from weft.model.podkeys import KEY_BYTES, place
from weft.planning.shapes.ipu.init import TENANT_KEY, poplar_init
from weft.planning.shapes.mounts import Mount, with_mounts
from weft.planning.shapes.userdata import NOVA_LIMIT

CONFIG = "#cloud-config\nusers:\n  - {name: jörg, gecos: 'Jörg Müller, 北京, 5 €'}\n"
SCRIPT = "#!/bin/sh\necho 'Grüße an 北京' > /etc/motd\n"
MOUNTS = [Mount("nfs", "/data", "nas:/x", "rw")]


def first_part(text: str) -> str:
    """As cloud-init reads it: `user_data.convert_string`, `util.fully_decoded_payload`."""
    part = next(p for p in email.message_from_string(text).walk() if p.get_content_type() == "text/plain")
    payload = part.get_payload(decode=True)
    assert isinstance(payload, bytes)
    return payload.decode("utf-8", "surrogateescape")


@pytest.mark.parametrize("own", [CONFIG, SCRIPT, "#!/bin/sh\necho plain\n"])
def test_non_ascii_user_data_is_preserved(own: str) -> None:
    """With storage, and in an IPU pod; ASCII parts stay readable in the archive."""
    for text in (with_mounts(own, MOUNTS), poplar_init("train", "10.0.0.1", own)):
        assert text is not None
        assert first_part(text).rstrip("\n") == own.rstrip("\n")
        assert (own in text) == own.isascii()
    assert yaml.safe_load(CONFIG)["users"][0]["name"] == "jörg"


@pytest.mark.parametrize("letter", ["x", "ö"])
def test_longest_user_data_accepted_fits_nova_with_its_keys(letter: str) -> None:
    """An encoded part is longer than its text, and a key is longer than its placeholder."""
    accepted, low, high = "", 0, NOVA_LIMIT
    while low < high - 1:
        size = (low + high) // 2
        try:
            accepted, low = poplar_init("train", "10.0.0.1", "#!/bin/sh\n" + letter * size), size
        except InputError:
            high = size
    key = urlsafe_b64encode(bytes(KEY_BYTES)).decode()
    sent = accepted.replace(place(TENANT_KEY), key)
    assert NOVA_LIMIT - 100 < len(sent.encode()) <= NOVA_LIMIT
