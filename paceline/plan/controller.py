"""The controller: before each step, how many tokens every request may draft, and by which drafter.

It predicts from what it has seen (`forecast`: the passes' costs, each request's acceptance by
position) and spends rows where they commit most tokens per millisecond. Where nothing beats a plain
pass it drafts nothing, and asks again now and then (`probing`). It draws nothing, and its answers
depend on past passes alone, so it touches speed and never the law.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from paceline.plan.costs import PassCosts
from paceline.plan.decision import Candidate, Decision, Limits, Mode, Share, Step
from paceline.plan.forecast import DrafterOnPaper, Forecast
from paceline.plan.outlook import Outlook, Round
from paceline.plan.probing import COURSE, Prober

RETURN_MARGIN = 0.03
"""Drafting begins again only where it promises so much."""
STAY_MARGIN = 0.01
"""It ends where it promises less: what no clock tells from nothing."""
DWELL = 8
"""Plain passes after which it is asked again whether drafts would pay."""
LONG_DWELL = 64
"""The same where nothing was tried meanwhile and the requests are the same, so that nothing but the
machine may have changed."""
MEASURE_GAP, CLOSE_GAP = 128, 32
"""Drafted passes after which a plain one is measured, so that what drafts must beat stays known;
and the same where drafts promise less than CLOSE."""
CLOSE = 0.15
FADED = 6.0
"""Passes that the evidence about a drafter counts for when it is tried again."""
LIKELY = 0.5
"""Chance of a token from which on it is no news that one was accepted."""
MORE_ROWS = "more rows"
"""What is tried beside drafters where costs were guessed: passes of more rows than measured yet."""


class Controller:
    """One for an engine: `decide` before each step, `observe` after it. Not for several threads."""

    def __init__(
        self,
        target: PassCosts,
        drafters: Mapping[str, DrafterOnPaper],
        limits: Limits | None = None,
        *,
        guessed: bool = False,
    ) -> None:
        """`target` holds its measured costs, unless they are `guessed`."""
        self.limits = limits or Limits()
        self.forecast = Forecast(target, drafters, self.limits)
        self._tries = {MORE_ROWS, *drafters} if guessed else drafters.keys()
        self.prober = Prober()
        self._in_use = ""
        """The drafter of the last step that was meant to pay; "" in a plain spell."""
        self._plain_spell = DWELL
        self._asked_of: tuple[list[str], int] | None = None
        """The requests, and the trials so far, when it was last asked in this plain spell."""
        self._asked_at = 0
        """How old the spell was."""
        self._since_plain = MEASURE_GAP
        self._pending: Pending | None = None

    def decide(self, requests: Sequence[Candidate], prefill_rows: int = 0) -> Decision:
        """Share out the next step's budget among the requests that decode."""
        if requests and all(request.k is not None for request in requests):
            self._pending = None
            return pinned(requests, self.limits.ceiling(len(requests)))
        now = self.forecast.round(requests, prefill_rows)
        self._pending = self._choose(now)
        return self._pending.decision

    def observe(self, step: Step) -> None:
        """Learn from the step that `decide` was asked for last."""
        if self._pending is None:
            return
        pending, self._pending = self._pending, None
        if pending.trial in self.forecast.drafters:
            self.forecast.fade(pending.trial, FADED)
        self.forecast.learn(pending.now, pending.decision.shares, step)
        self._keep_books(pending, step)
        if pending.now.requests:
            self._turn(pending)

    def forget(self, request_id: str) -> None:
        """Drop a request that ended."""
        self.forecast.forget(request_id)

    def _choose(self, now: Round) -> Pending:
        if why := self._forbidden(now):
            return self._plain(now, why)
        if any(request.k for request in now.requests):
            return self._drafted(now, self._best(now), "a request pinned its length")
        return self._beside_prompts(now) if now.prefill_rows else self._weigh(now)

    def _weigh(self, now: Round) -> Pending:
        """Draft where it promises enough; measure and try the other ways now and then."""
        if self._since_plain >= MEASURE_GAP:
            return self._measure(now)
        if not self._in_use and not self._ask_again(now):
            return self._rest(now, f"the plain spell is {self._plain_spell} passes old")
        best = self._best(now)
        if self._since_plain >= CLOSE_GAP and best.speedup < 1 + CLOSE:
            return self._measure(now)
        needed = 1 + (STAY_MARGIN if self._in_use else RETURN_MARGIN)
        if best.speedup > needed:
            return self._try(now, best) or self._drafted(now, best, worth(now, best))
        return self._rest(now, f"drafts promise {best.speedup:.2f} of the {needed:.2f} they need")

    def _measure(self, now: Round) -> Pending:
        return self._plain(now, "to know what drafts must beat", Mode.MEASURE)

    def _ask_again(self, now: Round) -> bool:
        """Whether a plain spell is old enough, by what is new."""
        if self._plain_spell % DWELL:
            return False
        known = ([request.id for request in now.requests], self.prober.trials)
        if known == self._asked_of and self._plain_spell - self._asked_at < LONG_DWELL:
            return False
        self._asked_of, self._asked_at = known, self._plain_spell
        return True

    def _best(self, now: Round) -> Outlook:
        return self.forecast.best(now, self._in_use)

    def _rest(self, now: Round, why: str) -> Pending:
        """A plain pass, or one that tries something cheaply."""
        return self._try(now, now.plain) or self._plain(now, why)

    def _forbidden(self, now: Round) -> str:
        """Why nothing may be drafted, if so."""
        allowed = {name for request in now.requests for name in request.drafters}
        if not allowed & self.forecast.drafters.keys():
            return "no request may draft"
        if now.ceiling == 0:
            return f"the operator's ceiling for {len(now.requests)} requests is 0"
        if not now.has_room:
            return "every request is at its last token"
        return ""

    def _beside_prompts(self, now: Round) -> Pending:
        """A pass that prompts share says nothing of drafts, so it leaves the spell as it is."""
        if not self._in_use:
            return self._plain(now, "prompts fill the pass")
        beside = self.forecast.beside_prompts(now, self._best(now))
        return self._drafted(now, beside, f"what {now.prefill_rows} rows of prompts leave")

    def _try(self, now: Round, base: Outlook) -> Pending | None:
        """A step that tries what is not in use, if something is due and affordable."""
        for name in self.prober.due():
            thorough = name in self.forecast.drafters and self._thorough(name)
            if name == MORE_ROWS:
                trial, why = self.forecast.wider(now, base), "more rows were never measured"
            else:
                trial = self.forecast.trial(now, base, name, thorough)
                why = f"{name} waited {self.prober.patience[name].waited} passes"
            course = COURSE if thorough or (trial and self._reads(now, trial)) else 1
            if trial and self._may_try(now, name, trial, base, course):
                return Pending(now, decided(trial, Mode.PROBE, why), base, name, course)
            self.prober.put_off(name)
        return None

    def _thorough(self, name: str) -> bool:
        """Whether a trial should tell much: the first, or one whose text has been read."""
        return name not in self.prober.known or self.prober.begun(name)

    def _reads(self, now: Round, trial: Outlook) -> bool:
        """Whether a text must be read for it, which takes longer than a pass."""
        return trial.reading_ms > now.plain_ms

    def _may_try(self, now: Round, name: str, trial: Outlook, base: Outlook, course: int) -> bool:
        """Whether a trial may begin, with all passes of its course, or go on once it has read."""
        if self.prober.begun(name):
            return trial.reading_ms == 0
        later_ms = replace(trial, reading_ms=0.0).loss_ms(base)
        loss_ms = trial.loss_ms(base) + (course - 1) * later_ms
        return self.prober.affordable(name, loss_ms, now.plain_ms)

    def _keep_books(self, pending: Pending, step: Step) -> None:
        """Time, how long what is unused has waited, and what a trial lost."""
        step_ms = step.pass_ms + sum(step.draft_ms.values())
        used = pending.base.drafters
        if pending.decision.mode is Mode.MEASURE:
            used = {self._in_use}
        self.prober.pass_by(step_ms, used, self._tries - used)
        if pending.trial:
            committed = len(pending.now.requests) + sum(o.accepted for o in step.outcomes)
            lost_ms = step_ms - committed / pending.base.spent.tokens_per_ms
            surprised = self._surprised(pending, step, lost_ms)
            self.prober.answer(pending.trial, surprised, lost_ms, pending.course)

    def _surprised(self, pending: Pending, step: Step, lost_ms: float) -> bool:
        """Whether the trial says that what was tried is better than was thought."""
        if pending.trial == MORE_ROWS:
            return lost_ms < 0
        shares, trial = pending.decision.shares, pending.trial
        hits = [o for o in step.outcomes if shares.get(o.id, NONE).drafter == trial]
        return pending.now.chance(trial) < LIKELY and any(o.accepted for o in hits)

    def _turn(self, pending: Pending) -> None:
        """Remember which spell this is: drafted or plain, and for how long."""
        if pending.decision.mode is Mode.MEASURE:
            self._since_plain = 0
        elif pending.now.prefill_rows or not pending.now.has_room:
            pass
        elif pending.base.drafters:
            used = pending.base.drafters
            self._in_use = self._in_use if self._in_use in used else min(used)
            self._plain_spell, self._since_plain = 0, self._since_plain + 1
            self._asked_of = None
        else:
            self._in_use = ""
            self._plain_spell, self._since_plain = self._plain_spell + 1, 0

    def _plain(self, now: Round, why: str, mode: Mode = Mode.PLAIN) -> Pending:
        """A plain pass; one that only measures leaves what is in use in use."""
        base = now.plain
        return Pending(now, decided(base, mode, why), base)

    def _drafted(self, now: Round, best: Outlook, why: str) -> Pending:
        mode = Mode.SPECULATE if best.shares else Mode.PLAIN
        return Pending(now, decided(best, mode, why), best)


@dataclass(frozen=True)
class Pending:
    """A decision whose step has not been seen yet."""

    now: Round
    decision: Decision
    base: Outlook
    """What the step would be without the trial, if there is one."""
    trial: str = ""
    """The drafter that is tried."""
    course: int = 1
    """Passes of its trial, if this one begins it."""


NONE = Share("", 0)


def pinned(requests: Sequence[Candidate], ceiling: int) -> Decision:
    """The decision where every request has fixed its length: nothing is predicted, or learnt."""
    shares = {
        one.id: Share(one.drafters[0], min(one.k, one.room, ceiling))
        for one in requests
        if one.k and one.drafters and one.room and ceiling
    }
    return Decision(
        shares=shares,
        mode=Mode.PINNED,
        reason="pinned: every request fixed its length",
        speedup=None if shares else 1.0,
    )


def decided(outlook: Outlook, mode: Mode, why: str) -> Decision:
    """The decision for an outlook."""
    return Decision(
        shares=outlook.shares,
        mode=mode,
        reason=f"{mode}: {why}",
        speedup=outlook.speedup,
        step_ms=outlook.spent.ms,
    )


def worth(now: Round, best: Outlook) -> str:
    """Why drafting pays, in words."""
    tokens = best.spent.tokens / len(now.requests)
    return f"{tokens:.2f} tokens a request for the time of {tokens / best.speedup:.2f} plain steps"
