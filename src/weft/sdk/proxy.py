"""Verbs of weft's API on a connection of openstacksdk."""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from typing import Any
from urllib.parse import quote

from openstack import exceptions, resource
from openstack.proxy import Proxy

from weft.sdk.pod import Pod

_SETTLED = ("FAILED", "RELEASED")
"""States that a pod doesn't leave by itself."""

NameOrPod = str | Pod


class PodProxy(Proxy):
    """`conn.accelerator_pod`. Names, ids and `Pod`s are all accepted.

    Errors are openstacksdk's, with weft's sentence: `NotFoundException`, `ConflictException`, `BadRequestException` …
    """

    skip_discovery = True

    def request(self, url: str, method: str, **options: Any) -> Any:  # type: ignore[override]
        """See `Proxy.request`. The catalog's address may end with `/v1`; errors (RFC 9457) have their sentence."""
        if url.startswith("/v1/") and (self.get_endpoint() or "").rstrip("/").endswith("/v1"):
            url = url.removeprefix("/v1")
        response = super().request(url, method, **options)
        exceptions.raise_from_response(response, error_message=_sentence(response))
        return response

    def pods(self, **query: Any) -> Generator[Pod, None, None]:
        """Live pods, and those released during the last day, by name.

        Args:
            query: all_projects, project, state, node, server, alarmed, name (see the API's `GET /v1/pods`).
        """
        return self._list(Pod, **query)

    def get_pod(self, pod: NameOrPod) -> Pod:
        """A pod with all its fields. Raises `NotFoundException`."""
        return self._shown("GET", pod, "")

    def find_pod(self, name_or_id: str, ignore_missing: bool = True) -> Pod | None:
        """A pod with all its fields; None, or `NotFoundException`, if the project has none of this name or id."""
        try:
            return self.get_pod(name_or_id)
        except exceptions.NotFoundException:
            if ignore_missing:
                return None
            raise

    def plan_pod(self, **order: Any) -> dict[str, Any]:
        """Where an order would go, and what would be made; nothing is changed."""
        answer: dict[str, Any] = self.post("/v1/pods/plan", json=order).json()
        return answer

    def create_pod(self, key: str | None = None, **order: Any) -> Pod:
        """Order a pod; it is made in the background, see `wait_for_pod`.

        Args:
            key: your own name for this order, such as a UUID: after a lost answer, the same call returns the same pod.
            order: fields of a pod file (docs/pod-file.md).
        """
        headers = {} if key is None else {"Idempotency-Key": key}
        return self._pod(self.post("/v1/pods", json=order, headers=headers).json())

    def apply_pod(self, pod: NameOrPod, remove: Sequence[str] = (), **order: Any) -> Pod:
        """Order a pod, or change it to this order.

        Args:
            pod: its name; with a `Pod`, it is refused if the pod was changed meanwhile (`PreconditionFailedException`).
            remove: names of the servers to remove if the pod gets smaller.
        """
        name = pod.name if isinstance(pod, Pod) else pod
        headers = {}
        if isinstance(pod, Pod) and pod.generation is not None:
            headers = {"If-Match": f'"{pod.generation}"'}
        asked = {"remove": list(remove)} if remove else {}
        document = {"name": name, **order}
        return self._pod(self.put(_path(name), json=document, headers=headers, params=asked).json()["pod"])

    def release_pod(self, pod: NameOrPod) -> Pod:
        """Release a pod: everything is taken back in the background, and proved in a receipt."""
        return self._shown("POST", pod, "/release")

    delete_pod = release_pod

    def extend_pod(self, pod: NameOrPod, until: str) -> Pod:
        """Change the end of a pod's lease (ISO 8601, with a time zone)."""
        return self._shown("POST", pod, "/extend", {"until": until})

    def retry_pod(self, pod: NameOrPod) -> Pod:
        """Try a FAILED pod again."""
        return self._shown("POST", pod, "/retry")

    def replace_node(self, pod: NameOrPod, node: str, **options: Any) -> Pod:
        """Replace a node of a pod (docs/operating.md); `instead` (`with` in the API) names the new one."""
        if (instead := options.pop("instead", None)) is not None:
            options["with"] = instead
        return self._shown("POST", pod, "/replace", {"node": node, **options})

    def pod_events(self, pod: NameOrPod, after: int = 0) -> list[dict[str, Any]]:
        """Events of a pod after a sequence number, from all pages.

        Raises `SDKException` if a page doesn't continue the previous one, for example because a proxy drops queries.
        """
        events: list[dict[str, Any]] = []
        while True:
            page = self.get(f"{_path(pod)}/events", params={"after": after}).json()
            events += page["events"]
            following: int | None = page.get("next")
            if following is None:
                return events
            if following <= after:
                raise exceptions.SDKException(
                    f"the page of events after {after} names {following} as its last"
                )
            after = following

    def pod_receipt(self, pod: NameOrPod) -> dict[str, Any]:
        """The signed receipt of a pod's release. Raises `ConflictException` before there is one."""
        receipt: dict[str, Any] = self.get(f"{_path(pod)}/receipt").json()
        return receipt

    def wait_for_pod(
        self, pod: NameOrPod, state: str = "READY", interval: float = 2.0, wait: float = 1800.0
    ) -> Pod:
        """The pod once it is in a state.

        Raises `ResourceFailure` if it FAILED or was released instead, `ResourceTimeout` after `wait` seconds.
        """
        shown = self.get_pod(pod)
        failures = [other for other in _SETTLED if other != state]
        return resource.wait_for_status(self, shown, state, failures, interval, wait, attribute="state")

    def _shown(self, method: str, pod: NameOrPod, rest: str, body: Mapping[str, Any] | None = None) -> Pod:
        given = {} if body is None else {"json": dict(body)}
        return self._pod(self.request(f"{_path(pod)}{rest}", method, **given).json())

    def _pod(self, document: Mapping[str, Any]) -> Pod:
        return Pod.existing(connection=self._get_connection(), **document)


def _path(pod: NameOrPod) -> str:
    name = pod.id if isinstance(pod, Pod) else pod
    if name in ("", ".", ".."):
        raise ValueError(f"{name!r} isn't the name or id of a pod")
    return f"/v1/pods/{quote(name, safe='')}"


def _sentence(response: Any) -> str | None:
    """The sentence of weft's error (RFC 9457), which openstacksdk reads from `application/json` alone."""
    if response.status_code < 400:
        return None
    try:
        problem = response.json()
    except ValueError:
        return None
    if not isinstance(problem, Mapping):
        return None
    said = problem.get("detail") or problem.get("title")
    return said if isinstance(said, str) else None
