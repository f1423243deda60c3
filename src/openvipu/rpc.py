"""gRPC for all programs: refusals become statuses, servers get health and reflection, TLS is read from files."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import grpc
from google.protobuf.message import DecodeError
from grpc_health.v1 import health, health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection

from openvipu.hardware.protocol import HardwareError
from openvipu.model import errors
from openvipu.receiving import ReceivingCalls
from openvipu.renewal import server_credentials
from openvipu.rpctls import Tls

log = logging.getLogger("openvipu")

STATUS: Mapping[type[Exception], grpc.StatusCode] = {
    errors.BadRequest: grpc.StatusCode.INVALID_ARGUMENT,
    errors.NotFound: grpc.StatusCode.NOT_FOUND,
    errors.AlreadyExists: grpc.StatusCode.ALREADY_EXISTS,
    errors.NoRoom: grpc.StatusCode.RESOURCE_EXHAUSTED,
    errors.Conflict: grpc.StatusCode.FAILED_PRECONDITION,
    errors.Unauthenticated: grpc.StatusCode.UNAUTHENTICATED,
    errors.Forbidden: grpc.StatusCode.PERMISSION_DENIED,
    errors.Unavailable: grpc.StatusCode.UNAVAILABLE,
    errors.Busy: grpc.StatusCode.ABORTED,
    HardwareError: grpc.StatusCode.FAILED_PRECONDITION,
    errors.StateError: grpc.StatusCode.INTERNAL,
}
"""Every refusal and its status. Anything else is a defect: INTERNAL, with the traceback in the log."""

USER_HEADER = "api-user-id"
ACCESS_KEY_HEADER = "api-access-key"
"""How a user's id and key travel isn't public; these metadata keys are our choice."""

REFUSAL_HEADER = "openvipu-refusal"
"""Metadata of a refusal, with its class: gRPC's own failures, such as no connection, have the same statuses."""

CONTROLLER_HEADER = "openvipu-controller"
CONTROLLER_KEY_HEADER = "openvipu-key"
"""How a controller names itself to its agents."""

LARGEST_REQUEST = 1 << 18
"""Bytes. The largest that makes sense, a cluster of 64 agents with the longest names, has 9,000."""

LONGEST_WORDS = 2000
"""Characters of a refusal: it travels in a header, and may repeat what the caller sent."""

CALLS_AT_ONCE = 512
"""Calls of a server that are under way or wait for a thread; more are refused by gRPC itself (RESOURCE_EXHAUSTED)."""

STREAMS = 4
"""Threads for reflection, the only streaming call that holds one. Where callers show keys there is none."""

BOUNDS: tuple[tuple[str, Any], ...] = (
    ("grpc.so_reuseport", 0),
    ("grpc.max_receive_message_length", LARGEST_REQUEST),
    ("grpc.max_concurrent_streams", 128),
    # connections: seconds to say hello, to be idle, to answer whether they are still there
    ("grpc.server_handshake_timeout_ms", 10_000),
    ("grpc.max_connection_idle_ms", 600_000),
    ("grpc.keepalive_time_ms", 60_000),
    ("grpc.keepalive_timeout_ms", 20_000),
)

_UNREADABLE = object()
"""Placeholder for a request whose bytes don't parse; gRPC itself would answer INTERNAL."""

Observer = Callable[[str, str], None]
"""Called with the method and the status name of every call."""


class Guard(grpc.ServerInterceptor):
    """Turns refusals into statuses, lets in only certificates of the given roles, and bounds what callers may hold.

    Calls of one request are served as streams, which are the same on the wire: so the wait for the request is ours,
    and has an end.

    ``keyed``: callers show keys. Then there is no reflection and no watching of health: callers without a key could
    hold as many of these streams as the server serves calls.
    """

    def __init__(
        self,
        roles: frozenset[str] = frozenset(),
        observe: Observer = lambda *_: None,
        keyed: bool = False,
    ) -> None:
        self._roles = roles
        self._observe = observe
        self._keyed = keyed
        self._receiving = ReceivingCalls()
        self._streams = ThreadPoolExecutor(STREAMS, thread_name_prefix="streams")

    def serve_with(self, threads: int) -> None:
        """Set how many threads serve; fewer than that may wait for requests."""
        self._receiving = ReceivingCalls(threads)

    def close(self) -> None:
        self._streams.shutdown(wait=False, cancel_futures=True)

    def intercept_service(self, continuation: Any, handler_call_details: Any) -> Any:
        handler = continuation(handler_call_details)
        method = handler_call_details.method
        if handler is not None and self._keyed and (handler.response_streaming or handler.request_streaming):
            return None
        if handler is not None and handler.stream_stream is not None:
            return self._aside(handler)
        if handler is None or handler.unary_unary is None:
            return handler
        ours = method.startswith(("/virmgrpc.", "/openvipu."))

        def read(data: bytes) -> Any:
            try:
                return handler.request_deserializer(data)
            except DecodeError:
                return _UNREADABLE

        def call(request: Any, context: grpc.ServicerContext) -> Any:
            if request is _UNREADABLE:
                raise errors.BadRequest(f"the bytes are no request of {method}")
            return handler.unary_unary(request, context)

        def answer(requests: Iterator[Any], context: grpc.ServicerContext) -> Any:
            with self._receiving.place(context):
                request = next(requests, _UNREADABLE)
            if ours:
                return self._answer(method, call, request, context)
            if request is _UNREADABLE:  # asked for health
                context.abort(grpc.StatusCode.INVALID_ARGUMENT, f"the bytes are no request of {method}")
            return handler.unary_unary(request, context)

        return grpc.stream_unary_rpc_method_handler(answer, read, handler.response_serializer)

    def _aside(self, handler: Any) -> Any:
        """Reflection holds a thread for as long as its client likes: it has threads of its own."""

        def answer(requests: Any, context: grpc.ServicerContext) -> Any:
            return handler.stream_stream(requests, context)

        answer.experimental_thread_pool = self._streams  # pyright: ignore[reportFunctionMemberAccess]
        return grpc.stream_stream_rpc_method_handler(
            answer, handler.request_deserializer, handler.response_serializer
        )

    def _answer(self, method: str, call: Any, request: Any, context: grpc.ServicerContext) -> Any:
        try:
            self._check_role(context)
            reply = call(request, context)
        except tuple(STATUS) as refusal:
            code, words = STATUS[type(refusal)], str(refusal)
            context.set_trailing_metadata(((REFUSAL_HEADER, type(refusal).__name__),))
        except Exception:
            log.exception("defect in %s", method)
            code, words = grpc.StatusCode.INTERNAL, f"internal error in {method}; the server's log has more"
        else:
            self._observe(method, "OK")
            return reply
        self._observe(method, code.name)
        context.abort(code, words if len(words) <= LONGEST_WORDS else f"{words[:LONGEST_WORDS]} …")
        return None

    def _check_role(self, context: grpc.ServicerContext) -> None:
        if not self._roles:
            return
        context_names: Any = context.auth_context().get("x509_common_name", ())
        names = [name.decode(errors="replace") for name in context_names]
        if not self._roles.intersection(names):
            allowed = ", ".join(sorted(self._roles))
            raise errors.Forbidden(
                f"the certificate's name {names} is not allowed here; use one of {allowed}"
            )


def metadata_of(context: grpc.ServicerContext) -> dict[str, str]:
    """The call's metadata; keys are lower case, of a repeated key the last value counts."""
    return {str(key): value for key, value in context.invocation_metadata() if isinstance(value, str)}


def serve(
    executor: ThreadPoolExecutor,
    address: str,
    register: Iterable[Callable[[grpc.Server], None]],
    services: Sequence[str],
    guard: Guard,
    tls: Tls | None = None,
) -> tuple[grpc.Server, int]:
    """A started server on ``host:port`` with health and reflection, and its port (for port 0).

    ``services`` are the full names that reflection lists. BadRequest if the address can't be had.
    """
    guard.serve_with(executor._max_workers)  # pyright: ignore[reportPrivateUsage] - it has no public name
    server = grpc.server(
        executor, interceptors=[guard], options=BOUNDS, maximum_concurrent_rpcs=CALLS_AT_ONCE
    )
    for add in register:
        add(server)
    checker = health.HealthServicer()
    health_pb2_grpc.add_HealthServicer_to_server(checker, server)
    for name in ("", *services):
        checker.set(name, health_pb2.HealthCheckResponse.SERVING)
    reflection.enable_server_reflection((*services, health.SERVICE_NAME, reflection.SERVICE_NAME), server)
    try:
        port = (
            server.add_secure_port(address, server_credentials(tls))
            if tls
            else server.add_insecure_port(address)
        )
    except RuntimeError:
        raise errors.BadRequest(
            f"address {address} can't be listened on; is something there already?"
        ) from None
    server.start()
    return server, port


def channel(target: str, tls: Tls | None = None, server_name: str = "") -> grpc.Channel:
    """A channel that comes back soon after the other side does."""
    options: list[tuple[str, Any]] = [
        ("grpc.initial_reconnect_backoff_ms", 200),
        ("grpc.min_reconnect_backoff_ms", 200),
        ("grpc.max_reconnect_backoff_ms", 2000),
        ("grpc.enable_http_proxy", 0),
    ]
    if tls is None:
        return grpc.insecure_channel(target, options=options)
    if server_name:
        options.append(("grpc.ssl_target_name_override", server_name))
    return grpc.secure_channel(target, tls.client(), options=options)


def is_refusal(error: grpc.RpcError) -> bool:
    """Whether the other side refused the call; False: it wasn't reached, or didn't answer."""
    metadata: Any = error.trailing_metadata() if isinstance(error, grpc.Call) else None
    return any(key == REFUSAL_HEADER for key, _ in metadata or ())


def words_of(error: grpc.RpcError) -> str:
    """The sentence that came with a failed call."""
    details = error.details() if isinstance(error, grpc.Call) else str(error)
    return details or "the call failed without a reason"
