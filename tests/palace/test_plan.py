"""Plans: what each tier includes, where its bounds lie, and where the setting comes from."""

from __future__ import annotations

import pytest

from sense_memory.config.settings import Settings
from sense_memory.errors import InvalidSetting, PlanLimitError
from sense_memory.models import PersonaMemory
from sense_memory.palace.plan import FREE, KEEP, PLANS, SELF_HOSTED, Usage, find_plan


def memory(domain, facet, key):
    return PersonaMemory(domain=domain, facet=facet, key=key, value="", created_at=0.0)


def refused(check, *given, **named):
    with pytest.raises(PlanLimitError) as caught:
        check(*given, **named)
    return caught.value


# ── What the tiers include ──────────────────────────────────────────────────────────────


def test_the_tiers_are_those_of_the_specification():
    assert {name: (plan.max_memories, plan.max_domains, plan.max_facets) for name, plan in PLANS.items()} == {
        "free": (100, 1, 1),
        "keep": (10_000, None, None),
        "self_hosted": (None, None, None),
    }
    assert (FREE.search, FREE.compression, FREE.has_halflives, FREE.has_schedule) == (
        "themes",
        "basic",
        False,
        False,
    )
    for plan in (KEEP, SELF_HOSTED):
        assert (plan.search, plan.compression, plan.has_halflives, plan.has_schedule) == (
            "embeddings",
            "full",
            True,
            True,
        )


@pytest.mark.parametrize(("plan", "bound"), [(FREE, 100), (KEEP, 10_000)], ids=["free", "keep"])
def test_memories_may_be_added_up_to_the_bound(plan, bound):
    plan.check_adding(Usage(bound - 1))
    plan.check_adding(Usage(bound - 7), count=7)
    error = refused(plan.check_adding, Usage(bound))
    assert (error.plan, error.limit) == (plan.name, "max_memories")
    assert f"allows {bound:,} memories, and there are {bound:,}" in str(error)
    assert "nothing was written" in str(error)
    assert "3 more were to be written" in str(refused(plan.check_adding, Usage(bound - 2), count=3))


def test_a_palace_beyond_the_bound_can_still_be_changed():
    """After moving to a smaller plan: no check stands before writing over what is there, or forgetting it."""
    beyond = Usage(500, {"people": frozenset({"facts", "beliefs"}), "self": frozenset({"facts"})})
    FREE.check_place(beyond, "people", "beliefs")
    FREE.check_place(beyond, "self", "facts")
    assert refused(FREE.check_adding, beyond).limit == "max_memories"
    assert refused(FREE.check_place, beyond, "self", "beliefs").limit == "max_facets"


def test_the_free_plan_has_one_domain_with_one_facet():
    FREE.check_place(Usage(), "people", "facts")
    held = Usage.of([memory("people", "facts", "lisa")], flat_count=3)
    FREE.check_place(held, "people", "facts")
    domain = refused(FREE.check_place, held, "projects", "facts")
    facet = refused(FREE.check_place, held, "people", "beliefs")
    assert (domain.limit, facet.limit) == ("max_domains", "max_facets")
    assert "allows one domain, in use: people" in str(domain)
    assert "allows one facet in a domain, in use: facts" in str(facet)
    KEEP.check_place(held, "projects", "beliefs")


def test_holdings_count_flat_and_persona_memories_and_know_the_facets():
    held = Usage.of(
        [memory("people", "facts", "a"), memory("people", "beliefs", "a"), memory("self", "facts", "a")],
        flat_count=4,
    )
    assert held == Usage(7, {"people": frozenset({"facts", "beliefs"}), "self": frozenset({"facts"})})


def test_the_free_plan_has_a_fixed_half_life():
    FREE.check_halflife(30.0)
    assert refused(FREE.check_halflife, 29.9).limit == "halflife"
    KEEP.check_halflife(1.0)


@pytest.mark.parametrize(
    ("check", "limit"),
    [
        ("check_embeddings", "search"),
        ("check_schedule", "introspection"),
    ],
)
def test_what_the_free_plan_leaves_out_is_refused_by_name(check, limit):
    error = refused(getattr(FREE, check))
    assert (error.plan, error.limit) == ("free", limit)
    getattr(KEEP, check)()
    getattr(SELF_HOSTED, check)()


def test_a_refusal_says_what_is_safe_and_what_to_do():
    assert str(refused(FREE.check_schedule)) == (
        "run introspection by hand, or choose another plan with SENSE_MEMORY_PLAN (self_hosted has no limits): "
        "the plan `free` includes introspection by hand only; nothing was written, and nothing was lost"
    )


def test_without_limits_nothing_is_refused():
    huge = Usage(10**9, {str(number): frozenset({"facts"}) for number in range(100)})
    SELF_HOSTED.check_adding(huge, count=10**6)
    SELF_HOSTED.check_place(huge, "new", "new")
    SELF_HOSTED.check_halflife(0.1)


# ── The setting ─────────────────────────────────────────────────────────────────────────


@pytest.fixture
def load(tmp_path):
    def load(environ=None, **arguments):
        return Settings.load(home=tmp_path, environ=environ or {}, **arguments)

    return load


def test_self_hosted_is_the_default(load):
    found = load()
    assert (found.plan, found.origins["plan"]) == (SELF_HOSTED, "default")


def test_the_plan_comes_from_argument_then_environment_then_dotenv(load, tmp_path):
    env_file = tmp_path / ".env"
    env_file.write_text("SENSE_MEMORY_PLAN=free\n", encoding="utf-8")
    env_file.chmod(0o600)
    environ = {"SENSE_MEMORY_PLAN": "keep"}
    assert (load().plan, load().origins["plan"]) == (FREE, ".env")
    assert (load(environ).plan, load(environ).origins["plan"]) == (KEEP, "environment")
    assert load(environ, plan="self_hosted").origins["plan"] == "argument"


@pytest.mark.parametrize("name", ["self_hosted", "self-hosted", " Self-Hosted "])
def test_a_plan_is_named_with_either_hyphen_in_any_case(name):
    assert find_plan(name) is SELF_HOSTED


def test_an_unknown_plan_is_refused_with_those_that_are_known(load):
    with pytest.raises(
        InvalidSetting,
        match=r"SENSE_MEMORY_PLAN \(from the environment\): must be one of free, keep, self_hosted",
    ):
        load({"SENSE_MEMORY_PLAN": "platinum"})


def test_a_key_in_the_place_of_a_plan_is_refused_without_echo(load):
    with pytest.raises(InvalidSetting) as caught:
        load({"SENSE_MEMORY_PLAN": "ab" * 32})
    assert "ab" * 8 not in str(caught.value)
