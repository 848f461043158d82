"""What a drafter is: frozen options that build a live drafter, and what it sees of a request."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from torch import Tensor

from paceline.cache import BlockTable
from paceline.chooser import Draw, Keyed, Law, Purpose
from paceline.registry import Registry
from paceline.sampling import History, Prefix, RowLaw, laws_and_failures
from paceline.tree import Draft, DraftBuilder
from paceline.types import SamplingParams
from paceline.verify import Rule
from paceline.verify.laws import as_law

if TYPE_CHECKING:
    from paceline.drafters.host import Host


@dataclass(frozen=True, kw_only=True)
class Needs:
    """What a drafter needs of the engine, as data."""

    trees: bool = False
    """It may propose trees, so it wants a rule that verifies them."""
    sequential: bool = False
    """It runs a pass of its own for each further token of a draft."""
    most_passes: int | None = None
    """More of them it does not run, however long its draft is; None: no limit."""
    hidden_layers: tuple[int, ...] = ()
    """Target layers whose hidden states it wants to observe. Where a file says which, the live
    drafter has an attribute `hidden_layers` of its own."""


@dataclass(frozen=True, eq=False, kw_only=True)
class DraftContext:
    """One request as its drafter sees it in one pass. Read only; valid during the call."""

    request_id: str
    owner: str
    """Whose request it is; nothing learnt from it may show in another owner's drafts."""
    tokens: Sequence[int]
    """Prompt and output so far; only ever appended to, so an index may be kept between calls."""
    prompt_tokens: int
    params: SamplingParams
    rule: Rule
    chooser: Keyed
    table: BlockTable
    """The request's cache blocks; a drafter with a cache of its own uses the same slots."""
    preemptions: int
    """How often the request lost its blocks; a change voids what was cached in them."""

    history: History
    """The tokens as the settings see them that look back."""
    prediction: tuple[int, ...] = ()
    """The caller's guess of the output, if there is one."""

    def prefix(self, path: tuple[int, ...] = ()) -> Prefix:
        """What stands before the position behind a path of drafted tokens."""
        return Prefix(self.history, path)

    def law(self, logits: Tensor, path: tuple[int, ...] = ()) -> RowLaw:
        """The drafter's law[V] behind a drafted path, from logits[V], under the request's own
        sampling settings; where they leave none, any: the target's pass tells what is wrong.
        """
        (law,), _ = laws_and_failures(logits[None], [self.params], [self.prefix(path)])
        return law

    def draw(self, builder: DraftBuilder, parent: int, depth: int, law: Tensor | Law) -> int:
        """Draw one child of the row `parent` (at `depth`) from law[V]; return its row.

        The rule says how: a categorical draw, the argmax, or the race the target will run too.
        """
        own = as_law(law)
        token = self.choose(own, parent, depth, builder.trial_count(parent))
        if self.rule.sampled:
            return builder.sampled(parent, token, own)
        return builder.point(parent, token)

    def choose(self, law: Law, parent: int, depth: int, ordinal: int = 0) -> int:
        """The token that `draw` would draw for the trial `ordinal` of a row, and no more."""
        address = Draw(self.chooser.base + depth, parent, ordinal, Purpose.DRAFT)
        return self.rule.draw(self.chooser, law, address)


@dataclass(frozen=True, eq=False, kw_only=True)
class Observation:
    """What a pass made of one request."""

    context: DraftContext
    draft: Draft
    """What was verified. It need not be what the drafter proposed: a grammar may cut drafts, one
    of several joined sources knows the others' tokens too, and a step may use another drafter."""
    start: int
    """Position of the first of the request's tokens that the pass ran."""
    path: tuple[int, ...]
    """Accepted rows of the draft's tree, up to where the output ended."""
    committed: tuple[int, ...]
    """Tokens appended to the request, stops already applied; none after a chunk of a prompt."""
    finished: bool
    hidden: dict[int, Tensor]
    """layer -> hidden[R, E] of the request's rows: its tokens from `start` on, then the draft's."""


class LiveDrafter(Protocol):
    """A drafter at work; it owns its state."""

    def propose(self, contexts: Sequence[DraftContext], budgets: Sequence[int]) -> list[Draft]:
        """One draft a context, of at most its budget of nodes; an empty one is a plain step."""

    def observe(self, observations: Sequence[Observation]) -> None:
        """Learn what became of the last proposals, and of passes without one: prompts, too."""

    def release(self, request_id: str) -> None:
        """Forget a request that finished or was aborted; unknown ids are fine."""


class Drafter(Protocol):
    """A drafter's options: a frozen dataclass whose first field takes the option string's ARG."""

    @property
    def k(self) -> int:
        """Draft length where neither request nor configuration says."""

    @property
    def needs(self) -> Needs:
        """What it needs of the engine."""

    def build(self, host: Host) -> LiveDrafter:
        """Make it live beside a target."""


def layers_of(options: Drafter, live: LiveDrafter) -> tuple[int, ...]:
    """Target layers whose hidden states a drafter at work wants to observe."""
    layers: tuple[int, ...] = getattr(live, "hidden_layers", options.needs.hidden_layers)
    return layers


class PerContext:
    """Base of drafters that are a function of one context and keep no state.

    A subclass is a frozen dataclass with a field `k` and a method `draft(ctx, budget)`.
    """

    needs = Needs()

    def draft(self, ctx: DraftContext, budget: int) -> Draft:
        """Propose for one request."""
        raise NotImplementedError

    def build(self, host: Host) -> LiveDrafter:
        """The live drafter: this one's `draft` for each context."""
        del host
        return _Stateless(self.draft)


@dataclass(frozen=True)
class _Stateless:
    draft: Callable[[DraftContext, int], Draft]

    def propose(self, contexts: Sequence[DraftContext], budgets: Sequence[int]) -> list[Draft]:
        return [self.draft(c, budget) for c, budget in zip(contexts, budgets, strict=True)]

    def observe(self, observations: Sequence[Observation]) -> None:
        pass

    def release(self, request_id: str) -> None:
        pass


drafters: Registry[type[Any]] = Registry(
    "drafter",
    {
        "none": "paceline.drafters.none:NoDraft",
        "model": "paceline.drafters.model:DraftModel",
        "ngram": "paceline.drafters.ngram:Ngram",
        "suffix": "paceline.drafters.suffix:Suffix",
        "prediction": "paceline.drafters.prediction:Prediction",
        "medusa": "paceline.drafters.medusa:Medusa",
        "eagle": "paceline.drafters.eagle:Eagle",
        "layerskip": "paceline.drafters.layerskip:LayerSkip",
        "merged": "paceline.drafters.merged:Merged",
        "cascade": "paceline.drafters.cascade:Cascade",
        "noise": "paceline.drafters.noise:Noise",
    },
    group="paceline.drafters",
)

D = TypeVar("D", bound=type[Any])


def register(name: str) -> Callable[[D], D]:
    """Class decorator: make a drafter's options known under `name`."""

    def bind(options: D) -> D:
        drafters.register(name, options)
        return options

    return bind
