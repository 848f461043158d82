"""How much room the cache has: the context of a request, and the blocks of all of them."""

from __future__ import annotations

from paceline.cache import BlockPool
from paceline.config import CacheConfig, EngineConfig
from paceline.errors import ConfigError
from paceline.models import LoadedModel


def context_of(config: EngineConfig, model: LoadedModel) -> int:
    """The longest context in tokens: as configured, or as much of the model's as the cache holds.

    Raises:
        ConfigError: more than the model's is asked for.
    """
    asked, own = config.scheduler.max_model_len, model.spec.max_model_len
    if asked is None:
        return min(own, affordable_blocks(config.cache, model) * config.cache.block_tokens)
    if asked > own:
        raise ConfigError(
            f"max_model_len must be 1 to {own}, the context of {model.name}, not {asked}."
        )
    return asked


def affordable_blocks(cache: CacheConfig, model: LoadedModel) -> int:
    """How many blocks of the model's keys and values fit, at least one."""
    if cache.num_blocks is not None:
        return cache.num_blocks
    token_bytes = model.kv_bytes_per_token(cache.kv_dtype)
    return max(1, cache.max_bytes // (token_bytes * cache.block_tokens))


def build_pool(config: EngineConfig, model: LoadedModel, max_model_len: int) -> BlockPool:
    """Size the pool: enough for every request's context, within the memory allowed for it."""
    cache = config.cache
    context_blocks = -(-max_model_len // cache.block_tokens)
    wanted = config.scheduler.max_num_requests * context_blocks
    num_blocks = cache.num_blocks or min(wanted, affordable_blocks(cache, model))
    if num_blocks < context_blocks:
        raise ConfigError(
            f"The cache holds {num_blocks * cache.block_tokens} tokens, fewer than one context of"
            f" {max_model_len}; lower --max-model-len or raise the cache's size."
        )
    return BlockPool(num_blocks, cache.block_tokens, cache.prefix_caching)
