"""The graph that `@modelcontextprotocol/server-memory` writes: entities, observations and relations.

The lines below are as version 2026.8.31 wrote them when a client of the MCP SDK called its tools.
"""

from __future__ import annotations

import json

import pytest

from sense_memory.exchange import carry_out, plan_import, read


LINES = """\
{"type":"entity","name":"Maria Costa","entityType":"person","observations":["Owns the deployment","Likes \\"quotes\\" & \\u00e9mojis"]}
{"type":"entity","name":"Harbour","entityType":"project","observations":["Uses PostgreSQL\\nwith a second line"]}
{"type":"entity","name":"Staging/EU","entityType":"environment","observations":[]}
{"type":"entity","name":"harbour","entityType":"place","observations":["A harbour in Lisbon"]}
{"type":"relation","from":"Maria Costa","to":"Harbour","relationType":"maintains"}
{"type":"relation","from":"Maria Costa","to":"Harbour","relationType":"founded"}
{"type":"relation","from":"Harbour","to":"Nobody","relationType":"mentions"}"""


@pytest.fixture
def graph(tmp_path):
    """Reads lines, or a value as JSON."""

    def graph(content, format_=""):
        path = tmp_path / "memory.jsonl"
        path.write_text(content if isinstance(content, str) else json.dumps(content))
        return read(path, format_)

    return graph


def test_an_entity_is_a_memory_with_its_observations_and_relations(graph):
    found = graph(LINES)

    assert found.format == "a knowledge graph of server-memory"
    assert (found.problems, found.left_out) == ([], {})
    assert {item.path: item.text for item in found.items} == {
        "people/person/Maria Costa": (
            'Maria Costa (person)\n- Owns the deployment\n- Likes "quotes" & émojis\n'
            "- maintains Harbour\n- founded Harbour"
        ),
        "projects/project/Harbour": (
            "Harbour (project)\n- Uses PostgreSQL\n  with a second line\n- mentions Nobody"
        ),
        "world/environment/Staging-EU": "Staging/EU (environment)",
        "world/place/harbour": "harbour (place)\n- A harbour in Lisbon",
    }


def test_a_relation_is_a_connection_between_the_memories(graph):
    links = {item.path: item.fields["connections"] for item in graph(LINES).items}

    assert links["people/person/Maria Costa"] == ("projects/project/Harbour",)
    assert links["projects/project/Harbour"] == ()


async def test_connections_lead_to_the_memory_where_another_one_has_the_name(tmp_path, open_store, bring):
    path = tmp_path / "memory.jsonl"
    path.write_text(LINES)
    async with open_store() as store:
        await store.palace.remember("projects/project/Harbour", "of somebody else")
        await bring(store, path)
        maria = await store.palace.recall("people/person/Maria Costa")

    assert maria.connections == ("projects/project/Harbour-2",)


async def test_a_second_import_changes_nothing_and_a_new_observation_changes_its_entity(
    tmp_path, open_store, bring, fates
):
    path = tmp_path / "memory.jsonl"
    path.write_text(LINES)
    async with open_store() as store:
        assert fates(await bring(store, path)) == {"new": 4}
        assert fates(await bring(store, path)) == {"known": 4}
        path.write_text(LINES.replace('"A harbour in Lisbon"', '"A harbour in Lisbon","Closed in 2027"'))
        assert fates(await bring(store, path)) == {"known": 3, "changed": 1}
        place = await store.palace.recall("world/place/harbour")

    assert place.value.endswith("- A harbour in Lisbon\n- Closed in 2027")
    assert place.source == "tool:server-memory/harbour"


def test_a_broken_line_is_named_and_the_rest_is_read(graph):
    broken = LINES.split("\n")
    broken[1] = broken[1][:40]
    broken.append('{"type":"entity","name":"  ","entityType":"x","observations":[]}')
    broken.append('{"type":"entity","name":"Odd","entityType":"x","observations":["good",7]}')
    broken.append('{"type":"note","text":"x"}')

    found = graph("\n".join(broken))

    assert [(problem.line, problem.reason) for problem in found.problems] == [
        (2, "is not JSON (unexpected end of data)"),
        (8, "the entity has no name"),
        (9, "an observation is not a text"),
        (10, "is neither an entity nor a relation"),
    ]
    texts = {item.path: item.text for item in found.items}
    assert texts["world/x/Odd"] == "Odd (x)\n- good"
    assert texts["world/entity/Harbour"] == "Harbour\n- mentions Nobody"  # its own line was broken


def test_fields_without_a_place_are_counted_and_dates_are_kept(graph):
    entity = {
        "type": "entity",
        "name": "A",
        "entityType": "tool",
        "observations": ["x"],
        "createdAt": "2026-05-01T00:00:00Z",
        "color": "red",
    }
    found = graph(json.dumps(entity))

    assert [item.at for item in found.items] == [1_777_593_600.0]
    assert found.left_out == {"color of entities": 1}


def test_the_answer_of_read_graph_is_read_too(graph):
    whole = {
        "entities": [{"name": "A", "entityType": "tool", "observations": ["x"]}, 7],
        "relations": [{"from": "B", "to": "A", "relationType": "uses"}],
    }
    found = graph(whole)

    assert [(item.path, item.text) for item in found.items] == [
        ("world/tool/A", "A (tool)\n- x"),
        ("world/entity/B", "B\n- uses A"),
    ]
    assert [problem.line for problem in found.problems] == [2]


def test_a_single_relation_is_no_flat_memory(graph):
    found = graph('{"type":"relation","from":"A","to":"B","relationType":"knows"}')

    assert [(item.path, item.text) for item in found.items] == [("world/entity/A", "A\n- knows B")]


async def test_a_text_longer_than_an_event_is_known_again_part_by_part(tmp_path, open_store, bring, fates):
    observations = [f"observation {number} {'word ' * 20}" for number in range(800)]
    entity = {"type": "entity", "name": "Long", "entityType": "person", "observations": observations}
    path = tmp_path / "memory.jsonl"
    path.write_text(json.dumps(entity))
    async with open_store() as store:
        first = await bring(store, path)
        again = await bring(store, path)
        memories = await store.persona_recall()

    assert fates(first) == {"new": 3}
    assert fates(again) == {"known": 3}
    texts = {memory.key: memory.value for memory in memories}
    whole = texts["Long"] + texts["Long part 2"] + texts["Long part 3"]
    assert all(observation.strip() in whole for observation in observations)


async def test_names_with_lone_surrogates_and_paths_become_names_or_problems(graph, open_store):
    found = graph(
        r"""{"type":"entity","name":"../../etc/passwd","entityType":"..","observations":["x"]}
{"type":"entity","name":"half \ud83d","entityType":"x","observations":["y"]}"""
    )
    async with open_store() as store:
        made = await plan_import(store, found)
        done = await carry_out(store, made)

    assert (made.problems, done.problems) == ([], [])
    assert made.steps[0].item.path.endswith("/…-…-etc-passwd")
    assert made.steps[1].item.path == "world/x/half \ufffd"
