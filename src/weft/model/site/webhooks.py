"""Where tenants may have their pods' events sent."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, IPvAnyNetwork

from weft.model.base import Document


class WebhookPolicy(Document):
    """What webhooks may reach, and how many there are."""

    networks: tuple[IPvAnyNetwork, ...] = Field(
        default=(),
        max_length=100,
        description="Networks that webhooks may reach although they aren't public, such as 10.20.0.0/16. Whatever "
        "tenants send there comes from weft's host: name receivers' networks alone.",
    )
    ports: tuple[Annotated[int, Field(ge=1, le=65535)], ...] = Field(
        default=(443,), max_length=100, description="Ports that webhooks may reach."
    )
    most: int = Field(default=10, ge=0, le=1000, description="Webhooks of a project; 0: none.")
