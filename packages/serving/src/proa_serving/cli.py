"""The command ``proa-serve``, which is also ``proa serve``."""

from __future__ import annotations

import argparse
import asyncio
import gc
import logging
import os
import signal
import sys
from pathlib import Path

from proa_serving import __version__
from proa_serving.app import Server, new_event_loop
from proa_serving.config import (
    ENGINES,
    GRPC_ENGINES,
    MIB,
    ModelSource,
    ServerConfig,
    check_name,
)
from proa_serving.protocol.errors import InvalidRequestError, ServingError
from proa_serving.schedule.queue import Limits
from proa_serving.security.rate import RateLimit
from proa_serving.security.tls import TlsFiles

log = logging.getLogger("proa_serving")


def _parser() -> argparse.ArgumentParser:
    default, limits = ServerConfig(models=(ModelSource("x", Path()),)), Limits()
    parser = argparse.ArgumentParser(
        prog="proa-serve",
        description="Serve models over the Open Inference Protocol, version 2.",
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    add = parser.add_argument
    add("models", nargs="*", metavar="[NAME=]MODEL.proa", help="model files to serve")
    add("--model_name", metavar="NAME", help="what --model_dir is served as")
    add("--model_dir", type=Path, help="folder of one model: its file, or its versions")
    add("--repository", type=Path, help="folder of NAME/VERSION/model.proa")
    add("--all-versions", action="store_true", help="serve old versions too")
    add("--model-control", action="store_true", help="let clients load and unload")
    add("--poll", type=float, default=0.0, help="seconds between looks for changes")
    add("--python-models", action="store_true", help="serve Python files: runs them")
    add("--host", default=default.host, help="address to listen on")
    add(
        *("--http", "--http_port"),
        type=_port,
        metavar="PORT",
        help="REST; 0 picks a port; the variable PORT where no place is given",
    )
    add("--v1", action="store_true", help="/v1/models/NAME:predict too, over REST")
    add(
        *("--grpc", "--grpc_port"),
        type=_port,
        metavar="PORT",
        help="gRPC; 0 picks a port",
    )
    add(
        "--grpc-engine",
        choices=GRPC_ENGINES,
        default=default.grpc_engine,
        help="what carries gRPC",
    )
    add(
        "--engine",
        choices=ENGINES,
        default=default.engine,
        help="what reads and writes sockets that TLS does not encrypt",
    )
    add("--instances", default="1", help="workers for each model, or auto")
    add("--threads", default="1", help="math threads for each, or auto")
    add("--max-batch", type=int, default=limits.max_batch, help="rows in a batch")
    add(
        "--max-delay-us",
        type=int,
        default=limits.max_delay_us,
        help="microseconds that a request waits for others to share its batch",
    )
    _add_limits(parser, default, limits)
    _add_observation(parser)
    _add_access(parser, default)
    add("--verbose", action="store_true", help="log more")
    add("--version", action="version", version=f"proa-serving {__version__}")
    return parser


def _add_limits(
    parser: argparse.ArgumentParser, default: ServerConfig, limits: Limits
) -> None:
    add = parser.add_argument
    add("--queue", type=int, default=limits.queue, help="requests that may wait")
    add(
        "--max-request-mib",
        type=float,
        default=default.max_request_bytes / MIB,
        help="largest request body",
    )
    add(
        "--max-json-mib",
        type=float,
        default=default.max_json_bytes / MIB,
        help="largest JSON in a request body",
    )
    add(
        "--max-in-flight-mib",
        type=float,
        default=default.max_in_flight_bytes / MIB,
        help="memory of all requests in flight together",
    )
    add(
        "--cache-mib",
        type=float,
        default=default.cache_bytes / MIB,
        help="memory of kept answers, for models that keep them",
    )
    add("--timeout", type=float, default=default.timeout_s, help="seconds to answer")
    add("--grace", type=float, default=default.grace_s, help="seconds to shut down")
    add(
        "--max-connections",
        type=int,
        default=default.max_connections,
        help="connections at one time, of all protocols; of grpcio, its calls",
    )
    add(
        "--head-timeout",
        type=float,
        default=default.head_timeout_s,
        help="seconds for a connection's first request, or a request's head, to arrive",
    )
    add(
        "--idle-timeout",
        type=float,
        default=default.idle_timeout_s,
        help="seconds until a connection without a request is closed",
    )


def _add_observation(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--access-log", type=Path, metavar="FILE", help="JSON lines; - is stderr")
    add("--timeline", type=Path, metavar="FILE", help="Chrome timeline, at the end")
    add("--otlp", default="", metavar="URL", help="send traces to this collector")
    add(
        "--trace-share",
        type=float,
        default=0.0,
        help="of requests without traceparent, the share to trace",
    )


def _add_access(parser: argparse.ArgumentParser, default: ServerConfig) -> None:
    add = parser.add_argument
    add("--http-socket", type=Path, metavar="PATH", help="Unix socket for REST")
    add("--grpc-socket", type=Path, metavar="PATH", help="Unix socket for gRPC")
    add(
        "--admin",
        type=_port,
        metavar="PORT",
        help="REST that may load and unload models; 0 picks a port",
    )
    add("--admin-host", default=default.admin_host, help="address of --admin")
    add("--tls-cert", type=Path, metavar="PEM", help="certificate, of all ports")
    add("--tls-key", type=Path, metavar="PEM", help="its private key")
    add(
        "--tls-client-ca",
        type=Path,
        metavar="PEM",
        help="clients must have a certificate that one of these signed",
    )
    add(
        "--api-keys", type=Path, metavar="FILE", help="lines of NAME sha256:HEX [admin]"
    )
    add(
        "--rate-limit",
        type=_rate,
        metavar="RATE[:BURST]",
        help="requests/s of each client",
    )
    add(
        "--cors-origin",
        action="append",
        default=[],
        metavar="ORIGIN",
        help="web pages that may call, or *; may be repeated",
    )
    add(
        "--shared-memory",
        action="store_true",
        help="let clients put tensors in system shared memory",
    )


def _rate(text: str) -> RateLimit:
    try:
        return RateLimit.parse(text)
    except ServingError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def _tls(args: argparse.Namespace) -> TlsFiles | None:
    if args.tls_cert is None and args.tls_key is None and args.tls_client_ca is None:
        return None
    if args.tls_cert is None or args.tls_key is None:
        raise InvalidRequestError("tls", "must have both --tls-cert and --tls-key")
    return TlsFiles(args.tls_cert, args.tls_key, args.tls_client_ca)


def _port(text: str) -> int:
    if not _is_port(text):
        raise argparse.ArgumentTypeError(f"port must be 0 to 65535, got {text:.40}")
    return int(text)


def _is_port(text: str) -> bool:
    return text.isascii() and text.isdigit() and int(text) < 2**16


def _cores(name: str, text: str) -> int:
    """A number, or 0 for as many as the cores allow."""
    if text == "auto":
        return 0
    if not (text.isascii() and text.isdigit() and int(text)):
        raise InvalidRequestError(
            "config", f'{name} must be at least 1, or "auto", got {text:.40}'
        )
    return int(text)


def _default_port() -> int:
    """Where Knative and the like say to listen, or 8000."""
    text = os.environ.get("PORT") or "8000"
    if not _is_port(text):
        raise InvalidRequestError("PORT", f"must be 0 to 65535, got {text:.40}")
    return int(text)


def _models(args: argparse.Namespace) -> tuple[ModelSource, ...]:
    """What is named, one by one and as KServe does."""
    models = tuple(ModelSource.parse(text) for text in args.models)
    if args.model_dir is None and args.model_name is None:
        return models
    if args.model_dir is None or args.model_name is None:
        raise InvalidRequestError(
            "config", "must have both --model_name and --model_dir"
        )
    return (*models, ModelSource(check_name(args.model_name), args.model_dir))


def _config(args: argparse.Namespace) -> ServerConfig:
    places = (args.http, args.grpc, args.http_socket, args.grpc_socket)
    http_port = args.http
    if places == (None,) * 4:
        http_port = _default_port()
    return ServerConfig(
        models=_models(args),
        repository=args.repository,
        all_versions=args.all_versions,
        model_control=args.model_control,
        poll_s=args.poll,
        python_models=args.python_models,
        cache_bytes=int(args.cache_mib * MIB),
        host=args.host,
        http_port=http_port,
        grpc_port=args.grpc,
        instances=_cores("instances", args.instances),
        threads=_cores("threads", args.threads),
        limits=Limits(args.max_batch, args.max_delay_us, args.queue),
        max_request_bytes=int(args.max_request_mib * MIB),
        max_json_bytes=int(args.max_json_mib * MIB),
        max_in_flight_bytes=int(args.max_in_flight_mib * MIB),
        timeout_s=args.timeout,
        head_timeout_s=args.head_timeout,
        idle_timeout_s=args.idle_timeout,
        grace_s=args.grace,
        max_connections=args.max_connections,
        grpc_engine=args.grpc_engine,
        engine=args.engine,
        trace_share=args.trace_share,
        timeline=args.timeline,
        access_log=args.access_log,
        otlp=args.otlp,
        http_socket=args.http_socket,
        grpc_socket=args.grpc_socket,
        admin_port=args.admin,
        admin_host=args.admin_host,
        tls=_tls(args),
        api_keys=args.api_keys,
        rate_limit=args.rate_limit,
        cors_origins=tuple(args.cors_origin),
        shared_memory=args.shared_memory,
        v1=args.v1,
    )


async def _serve(config: ServerConfig) -> bool:
    loop = asyncio.get_running_loop()
    stop = asyncio.Event()

    def on_signal(number: int) -> None:
        name = signal.Signals(number).name
        if stop.is_set():
            log.warning("%s again: ending at once", name)
            os._exit(1)
        log.info("%s: finishing what is in flight", name)
        stop.set()

    server = Server(config)
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, on_signal, number)
    starting = asyncio.ensure_future(server.start())
    stopping = asyncio.ensure_future(stop.wait())
    await asyncio.wait({starting, stopping}, return_when=asyncio.FIRST_COMPLETED)
    stopping.cancel()
    await asyncio.wait({stopping})  # else it is destroyed pending if the start failed
    if not starting.done():
        starting.cancel()
        await asyncio.wait({starting})
        _leave_if_loading(server, 0)
        return True
    await starting  # for its error
    said = ["proa-serve ready"]
    for protocol in ("http", "grpc", "admin"):
        said += [f"{protocol}={held}" for held in server.addresses(protocol)]
    said.append(f"models={','.join(server.repository.names())}")
    print(" ".join(said), flush=True)
    # What the start made stays, so collections need not look at it again.
    gc.freeze()
    await stop.wait()
    clean = await server.stop()
    if not clean:
        log.warning("some requests were not finished in %g s", config.grace_s)
    _leave_if_loading(server, 0 if clean else 1)
    return clean


def _leave_if_loading(server: Server, code: int) -> None:
    """End the process without the threads that load models, which may take long."""
    if server.repository.is_loading():
        log.warning("ending while a model is being loaded")
        logging.shutdown()
        os._exit(code)


def _run(config: ServerConfig) -> bool:
    loop = new_event_loop()
    try:
        return loop.run_until_complete(_serve(config))
    finally:
        loop.close()


def main(argv: list[str] | None = None) -> int:
    """Serve until SIGINT or SIGTERM.

    Returns:
        0 after an orderly end; 1 if it could not start, or requests were cut off.
    """
    args = _parser().parse_args(argv)
    logging.basicConfig(
        stream=sys.stderr,
        level=logging.DEBUG if args.verbose else logging.INFO,
        format="%(asctime)s %(levelname)s %(name)s: %(message)s",
    )
    for noisy in ("asyncio", "grpc"):
        logging.getLogger(noisy).setLevel(logging.ERROR)
    # The event loop must get Python's lock quickly when workers hold it.
    sys.setswitchinterval(5e-4)
    try:
        clean = _run(_config(args))
    except ServingError as error:
        print(f"proa-serve: {error}", file=sys.stderr)
        return 1
    return 0 if clean else 1


if __name__ == "__main__":
    sys.exit(main())
