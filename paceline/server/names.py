"""What clients call the drafters that were loaded at start; paths stay the server's own."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

from paceline.drafters import OFF
from paceline.registry import OptionString
from paceline.server.failures import ApiError


class DrafterNames:
    """Public names <-> the engine's option strings."""

    def __init__(self, drafts: Iterable[str]) -> None:
        """A drafter goes by its kind, and where there are several of one by kind and number."""
        loaded = list(dict.fromkeys(drafts))
        kinds = [kind_of(draft) for draft in loaded]
        many, seen = Counter(kinds), Counter[str]()
        self._drafts = {}
        for draft, kind in zip(loaded, kinds, strict=True):
            seen[kind] += 1
            self._drafts[kind if many[kind] == 1 else f"{kind}-{seen[kind]}"] = draft
        self._names = {draft: name for name, draft in self._drafts.items()}

    def __iter__(self) -> Iterator[str]:
        return iter(self._drafts)

    def draft_of(self, name: str) -> str:
        """The option string of a name; raises ApiError for one that is not loaded."""
        if name == OFF:
            return OFF
        if name not in self._drafts:
            known = ", ".join([*self._drafts, OFF])
            raise ApiError(
                400,
                f"speculation.drafter '{name[:60]}' is not loaded; choose of: {known}.",
                "speculation.drafter",
            )
        return self._drafts[name]

    def name_of(self, draft: str) -> str:
        """The public name of an option string."""
        return self._names.get(draft, draft)


def kind_of(draft: str) -> str:
    """The drafter's registered name, or the bare name of its file."""
    return OptionString.parse(draft).name.replace("\\", "/").rpartition("/")[2].removesuffix(".py")
