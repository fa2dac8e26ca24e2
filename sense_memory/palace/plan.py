"""Plans: the limits of a provider's tiers (sense-memory v2, "NostrKeep Tier Mapping").

`self_hosted`, the default, has no limits. A plan limits only what is added: existing memories can always be read,
changed and forgotten, also under a smaller plan. A plan is not enforced against the owner of the machine; it keeps an
agent within the limits that a relay's operator has set.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, Literal

from sense_memory.errors import InvalidSetting, PlanLimitError
from sense_memory.limits import DEFAULT_HALFLIFE_DAYS


if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from sense_memory.models import PersonaMemory

DEFAULT: Final = "self_hosted"


@dataclass(frozen=True, slots=True)
class Usage:
    """How much of a plan is used.

    Attributes:
        memories: the number of flat and palace memories.
        facets: the facets that hold a palace memory, by domain.
    """

    memories: int = 0
    facets: Mapping[str, frozenset[str]] = field(default_factory=dict)

    @classmethod
    def of(cls, memories: Iterable[PersonaMemory], flat_count: int = 0) -> Usage:
        """The usage of some palace memories and a number of flat memories."""
        count, facets = flat_count, dict[str, set[str]]()
        for memory in memories:
            count += 1
            facets.setdefault(memory.domain, set()).add(memory.facet)
        return cls(count, {domain: frozenset(names) for domain, names in facets.items()})


@dataclass(frozen=True, slots=True)
class Plan:
    """The limits of a tier. None means no limit.

    Attributes:
        name: the value of SENSE_MEMORY_PLAN.
        max_memories: the number of flat and palace memories together.
        max_domains: the number of domains that hold palace memories.
        max_facets: the number of facets in each domain that hold palace memories.
        search: "themes" for search by themes and words alone, "embeddings" for search by embeddings too.
        compression: "basic" or "full".
        has_halflives: whether a memory may have a half-life other than 30 days.
        has_schedule: whether introspection may run on a schedule; it may always be run by hand.
    """

    name: str
    max_memories: int | None = None
    max_domains: int | None = None
    max_facets: int | None = None
    search: Literal["themes", "embeddings"] = "embeddings"
    compression: Literal["basic", "full"] = "full"
    has_halflives: bool = True
    has_schedule: bool = True

    def check_adding(self, usage: Usage, count: int = 1) -> None:
        """Check that `count` new memories may be added; replacing a memory adds none.

        Raises:
            PlanLimitError: the plan allows fewer, by `max_memories`.
        """
        if self.max_memories is not None and usage.memories + count > self.max_memories:
            wanted = "" if count == 1 else f", and {count:,} more were to be written"
            problem = f"allows {self.max_memories:,} memories, and there are {usage.memories:,}{wanted}"
            raise PlanLimitError(
                self.name, "max_memories", problem, "forget memories that you no longer need"
            )

    def check_place(self, usage: Usage, domain: str, facet: str) -> None:
        """Check that a palace memory may be added to a facet; a facet that already holds memories is always allowed.

        Raises:
            PlanLimitError: the plan does not allow it, by `max_domains` or `max_facets`.
        """
        facets = usage.facets.get(domain)
        if facets is None and self.max_domains is not None and len(usage.facets) >= self.max_domains:
            known = ", ".join(sorted(usage.facets))
            problem = f"allows {_counted(self.max_domains, 'domain')}, in use: {known}"
            raise PlanLimitError(self.name, "max_domains", problem, "use a domain that is in use")
        facets = facets or frozenset()
        if facet not in facets and self.max_facets is not None and len(facets) >= self.max_facets:
            problem = f"allows {_counted(self.max_facets, 'facet')} in a domain, in use: {', '.join(sorted(facets))}"
            raise PlanLimitError(self.name, "max_facets", problem, "use a facet that is in use")

    def check_halflife(self, days: float) -> None:
        """Check that a memory may have this half-life.

        Raises:
            PlanLimitError: the plan does not allow it, by `halflife`.
        """
        if not self.has_halflives and days != DEFAULT_HALFLIFE_DAYS:
            problem = f"has a fixed half-life of {DEFAULT_HALFLIFE_DAYS:.0f} days"
            raise PlanLimitError(self.name, "halflife", problem, "leave the half-life out")

    @property
    def has_embeddings(self) -> bool:
        """Whether embeddings may be stored and searched; otherwise searches rank by words."""
        return self.search == "embeddings"

    def check_embeddings(self) -> None:
        """Check that embeddings may be stored and searched.

        Raises:
            PlanLimitError: the plan does not allow it, by `search`.
        """
        if not self.has_embeddings:
            problem = "searches by themes and words, not by embeddings"
            raise PlanLimitError(self.name, "search", problem, "leave the embedder out")

    def check_schedule(self) -> None:
        """Check that introspection may run on a schedule.

        Raises:
            PlanLimitError: the plan does not allow it, by `introspection`.
        """
        if not self.has_schedule:
            problem = "includes introspection by hand only"
            raise PlanLimitError(self.name, "introspection", problem, "run introspection by hand")


FREE: Final = Plan("free", 100, 1, 1, "themes", "basic", has_halflives=False, has_schedule=False)
KEEP: Final = Plan("keep", max_memories=10_000)
SELF_HOSTED: Final = Plan(DEFAULT)
PLANS: Final[Mapping[str, Plan]] = MappingProxyType({plan.name: plan for plan in (FREE, KEEP, SELF_HOSTED)})


def find_plan(name: str) -> Plan | None:
    """The plan with a name, in any case, with `-` or `_`; None if no plan has the name."""
    return PLANS.get(name.strip().lower().replace("-", "_"))


def _counted(count: int, noun: str) -> str:
    return f"one {noun}" if count == 1 else f"{count} {noun}s"


def checked_plan(given: Plan | str | None) -> Plan:
    """The plan that is given as an object or by its name; None means the plan without limits.

    Raises:
        InvalidSetting: no plan has this name.
    """
    found = SELF_HOSTED if given is None else find_plan(given) if isinstance(given, str) else given
    if not isinstance(found, Plan):
        raise InvalidSetting("plan", "argument", f"must be one of {', '.join(PLANS)}")
    return found
