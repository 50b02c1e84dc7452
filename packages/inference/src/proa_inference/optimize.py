"""Graph passes at load time."""

from __future__ import annotations

import logging
from pathlib import Path

from proa.errors import (
    InvalidArgumentError,
    UnimplementedError,
    VersionError,
)
from proa.ir import Program, file, passes
from proa.ir.precision import compute_in_bfloat16
from proa.runtime import Engine, engine_from_bytes, engine_from_parts, load_engine
from proa_inference.config import Config
from proa_inference.delegate import Delegate
from proa_inference.partition import PartitionedEngine, has_control_flow
from proa_inference.passes import CHAINS
from proa_inference.saved import ORIGIN, saved_engine, saved_origin, saved_path
from proa_inference.tuning import Strategies, tuned_strategies

Content = bytes | memoryview

_log = logging.getLogger("proa_inference")
# Keys of the metadata: names of the passes that wrote the graph, the chains of the
# last, as <first node>+<nodes>, which are run block by block, and measured choices of
# nodes, as <node>:<strategy>. The engine reads the last two.
_PASSES, _CHAINS, _STRATEGIES = "passes", "chains", "strategies"


def optimized_program(config: Config) -> Program:
    """The model's graph after the passes of the config, but for elementwise chains, and
    in bfloat16 if it says so.
    """
    return _optimized(file.from_bytes(config.content()), config)


def _optimized(program: Program, config: Config) -> Program:
    if config.ir_optim():
        _run_passes(program, config)
    lower_precision(program, config)
    return program


def lower_precision(program: Program, config: Config) -> None:
    """Let the program compute in bfloat16 if the config says so."""
    if config.bf16_enabled():
        compute_in_bfloat16(program, config.bf16_exceptions())


def _run_passes(program: Program, config: Config) -> None:
    before = sum(1 for _ in program.nodes())
    names = [n for n in config.pass_builder().all_passes() if n != CHAINS]
    if config.bf16_enabled():  # 16 bits round the weights anyway
        names = ["fold_constants", "fold_batch_norm", *names]
    if config.pass_builder().is_debug():
        _apply_in_steps(program, names, Path(config.optim_cache_dir() or "."))
    else:
        passes.apply(program, names)
    program.metadata[_PASSES] = ",".join(names)
    for key in (_CHAINS, _STRATEGIES):
        program.metadata.pop(key, None)
    if not config.glog_info_disabled():
        after = sum(1 for _ in program.nodes())
        _log.info("%d passes: %d nodes became %d", len(names), before, after)


def _apply_in_steps(program: Program, names: list[str], folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "0_recorded.txt").write_text(f"{program}\n", encoding="utf-8")
    for i, name in enumerate(names, 1):
        passes.apply(program, [name])
        (folder / f"{i}_{name}.txt").write_text(f"{program}\n", encoding="utf-8")
    passes.apply(program, names)


def write_optimized(program: Program, config: Config, path: Path) -> None:
    """Write an `optimized_program`, with its elementwise chains if they are among the
    passes. Its nodes may change their order.
    """
    _state_chains(program, config, _chained(program, config))
    file.write(program, path)


def _chained(program: Program, config: Config) -> list[tuple[int, int]]:
    """The elementwise chains of the program, whose nodes may change their order."""
    if not _runs_chains(config):
        return []
    passes.apply(program, [CHAINS])
    return passes.chain_spans(program)


def _runs_chains(config: Config) -> bool:
    return config.ir_optim() and CHAINS in config.pass_builder().all_passes()


def _state_chains(
    program: Program, config: Config, chains: list[tuple[int, int]]
) -> None:
    if _runs_chains(config):
        program.metadata[_CHAINS] = " ".join(f"{at}+{count}" for at, count in chains)
        names = [*filter(None, program.metadata[_PASSES].split(",")), CHAINS]
        program.metadata[_PASSES] = ",".join(names)


def engine_of_program(
    program: Program,
    config: Config,
    disposable: Content | None = None,
    save_as: Path | None = None,
) -> Engine:
    """An engine of a program, which is changed if chains are among the passes.

    The engine reads weights that no pass changed where the program has them.

    Args:
        program: The graph.
        config: The passes that run, and threads.
        disposable: The file's bytes, if the program alone has them and is not used
            afterwards: the engine releases what it does not need of them.
        save_as: Where the program is written, with chains and measured choices.
    """
    chains = _chained(program, config)
    graph, weights = file.to_parts(program)
    threads = config.cpu_math_library_num_threads()
    strategies: Strategies = []
    if config.tuning_enabled() and not has_control_flow(program):
        strategies = tuned_strategies(
            program, graph, config, threads,
            lambda s: engine_from_parts(graph, weights, threads, chains, strategies=s),
            is_secret=config.model_is_encrypted(),
        )  # fmt: skip
    if save_as is not None:
        _state_chains(program, config, chains)
        chosen = [f"{at}:{name}" for at, name in enumerate(strategies) if name]
        if chosen:
            program.metadata[_STRATEGIES] = " ".join(chosen)
        file.write(program, save_as)
    return engine_from_parts(graph, weights, threads, chains, disposable, strategies)


def build_engine(config: Config) -> Engine:
    """The engine that a config describes, with its delegates.

    Raises:
        InvalidArgumentError: If it would write what an encrypted model holds.
    """
    _check_nothing_plain_is_written(config)
    delegates = config.delegates()
    # Before the file is read: if it is replaced meanwhile, the next load finds another.
    origin = saved_origin(config) if config.saves_optim_model() else ""
    stored = saved_engine(config, origin) if origin and not delegates else None
    passes_run = config.ir_optim() and bool(config.pass_builder().all_passes())
    engine: Engine
    if stored is not None:
        engine = stored
    elif passes_run or delegates or _changes_program(config):
        engine = _engine_of_changed(config, origin)
    else:
        engine = _engine_as_stored(config)
    engine.limit_plans(*config.plan_cache())
    engine.set_flush_denormals(True)
    return engine


def _changes_program(config: Config) -> bool:
    saves = config.saves_optim_model()
    return config.bf16_enabled() or saves or config.tuning_enabled()


def _engine_of_changed(config: Config, origin: str) -> Engine:
    content = config.content()
    program = _optimized(file.from_bytes(content), config)
    path = None
    if config.saves_optim_model():
        program.metadata[ORIGIN] = origin
        path = saved_path(config)
        path.parent.mkdir(parents=True, exist_ok=True)
    delegates = config.delegates()
    if delegates:
        if path is not None:
            write_optimized(program, config, path)
        return _partitioned(program, config, delegates)
    # Bytes that a caller gave are the caller's.
    own = None if config.model_from_memory() else content
    return engine_of_program(program, config, own, path)


def _check_nothing_plain_is_written(config: Config) -> None:
    options = {
        "enable_save_optim_model": config.saves_optim_model(),
        "switch_ir_debug": config.pass_builder().is_debug(),
    }
    for name, given in options.items():
        if given and config.model_is_encrypted():
            raise InvalidArgumentError(
                f"[Config.{name}] expected a model that is not encrypted, got an "
                f"encrypted one, of which it would write plain bytes"
            )


def _engine_as_stored(config: Config) -> Engine:
    threads = config.cpu_math_library_num_threads()
    try:
        if config.reads_by_itself():
            return load_engine(config.prog_file(), threads)
        return engine_from_bytes(config.content(), threads)
    except VersionError:
        # The engine knows one version of an operator; reading converts earlier ones.
        program = file.from_bytes(config.content())
        graph, weights = file.to_parts(program)
        return engine_from_parts(graph, weights, threads)


def _partitioned(
    program: Program, config: Config, delegates: list[Delegate]
) -> PartitionedEngine:
    if has_control_flow(program):
        raise UnimplementedError(
            "[Config.add_delegate] expected a model without branches and loops, got "
            "one with them"
        )
    return PartitionedEngine(
        program, delegates, lambda part: engine_of_program(part, config)
    )
