"""Notes as an agent keeps them about people, work and the house, each with a question that asks for it in other words.

Every note comes from one of many shapes with names, places and things filled in, so that several notes share most of
their words, as real notes do. Half of the shapes are for tuning, the other half for judging.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import Final


@dataclass(frozen=True, slots=True)
class Note:
    """A persona memory, and the questions that ask for it.

    Attributes:
        path: `domain/facet/key`.
        value: the text.
        themes: of the memory.
        question: a natural question that this memory answers, and hardly another one.
        is_held_out: whether its shape is for judging, and not for tuning.
    """

    path: str
    value: str
    themes: tuple[str, ...]
    question: str
    is_held_out: bool = field(default=False)

    @property
    def fields(self) -> dict[str, object]:
        """The arguments of `persona_remember`."""
        domain, facet, key = self.path.split("/")
        return {"domain": domain, "facet": facet, "key": key, "value": self.value, "themes": self.themes}


_SLOTS: Final = {
    "name": (
        "Nadia", "Piotr", "Ilse", "Tomás", "Yuki", "Brandt", "Odile", "Farid", "Greta", "Hamish", "Imelda", "Jorge",
        "Keiko", "Lorcan", "Marit", "Nestor", "Olena", "Pascal", "Quinn", "Rosalind", "Stellan", "Thandi", "Ursula", "Viktor",
    ),
    "city": ("Graz", "Porto", "Leeds", "Tartu", "Ghent", "Malmö", "Trieste", "Cork", "Kraków", "Bergen", "Basel", "Nantes"),
    "job": ("nurse", "carpenter", "notary", "translator", "vet", "sound engineer", "geologist", "baker", "surveyor", "tailor"),
    "food": ("peanuts", "shellfish", "gluten", "lactose", "celery", "strawberries", "sesame", "mustard", "walnuts", "eggs"),
    "sport": ("climbing", "fencing", "rowing", "badminton", "judo", "archery", "sailing", "bouldering", "cycling", "skating"),
    "instrument": ("cello", "oboe", "accordion", "banjo", "harp", "trumpet", "viola", "ukulele", "flute", "drums"),
    "animal": ("greyhound", "parrot", "tortoise", "beagle", "ferret", "goat", "spaniel", "hedgehog", "canary", "rabbit"),
    "pet": ("Biscuit", "Mango", "Pepper", "Waffle", "Juno", "Otto", "Pickle", "Sable", "Tango", "Clover"),
    "colour": ("teal", "ochre", "crimson", "navy", "olive", "lilac", "amber", "ivory", "maroon", "turquoise"),
    "room": ("kitchen", "attic", "cellar", "hallway", "bathroom", "nursery", "pantry", "study", "garage", "balcony"),
    "project": ("Lantern", "Kestrel", "Harbour", "Quartz", "Meadow", "Tundra", "Falcon", "Saffron", "Beacon", "Juniper"),
    "tool": ("Postgres", "Terraform", "Redis", "Kafka", "Ansible", "Grafana", "Nginx", "Celery", "Docker", "Webpack"),
    "rival": ("MySQL", "Pulumi", "Memcached", "RabbitMQ", "Puppet", "Kibana", "Caddy", "Dramatiq", "Podman", "Vite"),
    "number": ("three", "four", "six", "nine", "twelve", "fourteen", "eighteen", "twenty", "thirty", "forty"),
    "month": ("January", "February", "March", "April", "June", "July", "August", "September", "October", "November"),
    "day": ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"),
    "book": ("Middlemarch", "Stoner", "Austerlitz", "Kindred", "Dune", "Beloved", "Solaris", "Emma", "Ulysses", "Nostromo"),
    "illness": ("asthma", "migraine", "hay fever", "gout", "anaemia", "tinnitus", "eczema", "sciatica", "insomnia", "diabetes"),
    "shop": ("Ferris & Sons", "the Corn Exchange", "Blue Door", "Mulligan's", "the co-op", "Halloway", "Dry Dock", "Nordlicht"),
    "plant": ("fig tree", "wisteria", "lemon tree", "basil", "orchid", "fern", "rosemary", "hydrangea", "aloe", "cactus"),
}  # fmt: skip

# domain/facet/key, text, themes, question. Every second shape is held out.
_SHAPES: Final = (
    ("people/facts/{name}-job", "{name} works as a {job} in {city}.", ("work",), "What does {name} do for a living in {city}?"),
    ("people/facts/{name}-allergy", "{name} cannot eat {food}; even traces cause a rash.", ("health", "food"), "Is {food} safe to cook for {name}?"),
    ("people/facts/{name}-moved", "{name} moved from {city} to {city2} in {month}.", ("home",), "Where did {name} live before moving to {city2}?"),
    ("people/facts/{name}-pet", "{name} has a {animal} called {pet} who sleeps by the stove.", ("pets",), "What is the name of {name}'s {animal}?"),
    ("people/facts/{name}-instrument", "{name} has played the {instrument} since school and rehearses on {day}s.", ("music",), "Which day does {name} rehearse with the {instrument}?"),
    ("people/beliefs/{name}-books", "{name} thinks {book} is overrated but finished it anyway.", ("reading",), "What did {name} think of {book}?"),
    ("people/facts/{name}-sport", "{name} took up {sport} after the knee operation in {month}.", ("sport",), "When did {name} start {sport}?"),
    ("people/facts/{name}-illness", "{name} suffers from {illness} and carries medication at all times.", ("health",), "Does {name} need medication for {illness}?"),
    ("people/decisions/{name}-wedding", "{name} is getting married in {city} next {month}; we were both invited.", ("family",), "Where is the wedding of {name} in {month}?"),
    ("people/facts/{name}-debt", "{name} lent us {number} hundred euros for the {room} and does not want interest.", ("money",), "How much do we owe {name} for the {room}?"),
    ("people/facts/{name}-birthday", "{name}'s birthday is on the {number}th of {month}; a card is enough.", ("family",), "When is {name}'s birthday?"),
    ("people/emotions/{name}-quarrel", "{name} was hurt that nobody came to the {instrument} recital.", ("friends",), "Why was {name} upset about the recital?"),
    ("projects/decisions/{project}-database", "Project {project} uses {tool} instead of {rival} because the team knows it.", ("architecture",), "Why did {project} choose {tool} over {rival}?"),
    ("projects/procedures/{project}-deploy", "To deploy {project}, tag the release and wait {number} minutes for {tool} to restart.", ("deploy",), "How do I deploy {project}?"),
    ("projects/facts/{project}-budget", "The budget of {project} is {number} thousand euros until {month}.", ("money",), "How large is the budget for {project}?"),
    ("projects/facts/{project}-owner", "{name} from {city} is responsible for invoices in project {project}.", ("people",), "Who handles the invoices of {project}?"),
    ("projects/decisions/{project}-meeting", "The {project} stand-up moved to {day} at half past nine.", ("meetings",), "Which day is the {project} stand-up?"),
    ("projects/facts/{project}-bug", "The {tool} connector of {project} leaks memory after {number} days without a restart.", ("bugs",), "What is wrong with the {tool} connector in {project}?"),
    ("projects/procedures/{project}-backup", "Backups of {project} are written to the {city} data centre every {day} night.", ("backups",), "Where are the backups of {project} stored?"),
    ("projects/beliefs/{project}-risk", "The greatest risk in {project} is that {name} is the only one who understands {tool}.", ("risk",), "What is the main risk of {project}?"),
    ("projects/decisions/{project}-logo", "For {project} we settled on the {colour} logo with the thin outline.", ("design",), "Which logo did we pick for {project}?"),
    ("projects/facts/{project}-client", "The client of {project} is a bakery chain from {city} with {number} branches.", ("clients",), "How many branches does the client of {project} have?"),
    ("self/decisions/{room}-paint", "We painted the {room} {colour} and kept the leftover tins under the stairs.", ("house",), "What colour is the {room} painted?"),
    ("self/procedures/{room}-leak", "When the {room} leaks, turn off the valve behind the {colour} panel and call {name}.", ("house", "repairs"), "What should I do about a leak in the {room}?"),
    ("self/facts/{plant}-water", "The {plant} in the {room} wants water every {number} days and no direct sun.", ("plants",), "How often should the {plant} be watered?"),
    ("self/facts/{shop}-order", "The {colour} curtains for the {room} were ordered at {shop}.", ("shopping",), "Where did we order the curtains for the {room}?"),
    ("self/beliefs/{sport}-limits", "More than {number} sessions of {sport} a month make my shoulder ache.", ("health", "sport"), "How much {sport} is too much for my shoulder?"),
    ("self/facts/{book}-lent", "My copy of {book} has been with {name} since {month}.", ("reading",), "Who borrowed my copy of {book}?"),
    ("self/decisions/{month}-trip", "In {month} we take the night train to {city} and stay {number} nights.", ("travel",), "Which train do we take to {city} in {month}?"),
    ("self/facts/{room}-key", "The spare key of the {room} hangs behind the {plant}.", ("house",), "Where is the spare key for the {room}?"),
    ("self/procedures/{food}-recipe", "For the stew without {food}, double the {colour} lentils and add a bay leaf at the end.", ("cooking",), "How do I cook the stew without {food}?"),
    ("self/emotions/{city}-memory", "Walking through {city} in {month} felt like coming home, mostly because of the {plant}s.", ("travel",), "How did it feel to walk through {city}?"),
    ("world/facts/{city}-museum", "The museum in {city} is closed on {day}s and free in {month}.", ("travel",), "When is the museum in {city} closed?"),
    ("world/facts/{shop}-hours", "{shop} closes at {number} o'clock on {day}s, earlier in {month}.", ("shopping",), "How late is {shop} open on {day}s?"),
    ("world/facts/{city}-parking", "Parking near the station of {city} costs {number} euros a day.", ("travel",), "What does parking at {city} station cost?"),
    ("world/beliefs/{tool}-licence", "{tool} changed its licence in {month}, so new projects should avoid it.", ("licences",), "Why should we avoid {tool} in new projects?"),
    ("skills/procedures/{tool}-upgrade", "Before upgrading {tool}, dump the settings and lower the timeout to {number} seconds.", ("ops",), "What has to be done before a {tool} upgrade?"),
    ("skills/procedures/{instrument}-tuning", "Tune the {instrument} a fifth lower when the {room} is cold.", ("music",), "How is the {instrument} tuned in the cold?"),
    ("skills/facts/{tool}-flag", "{tool} ignores the verbose flag unless the {colour} profile is loaded.", ("ops",), "Why does {tool} ignore the verbose flag?"),
    ("skills/decisions/{sport}-gear", "For {sport} we buy used gear at {shop} and replace the straps every {month}.", ("sport",), "Where do we buy gear for {sport}?"),
)  # fmt: skip


def notes(count: int, seed: int = 1) -> list[Note]:
    """`count` notes, no two with the same path or question."""
    dice = random.Random(seed)  # noqa: S311 - texts, not secrets
    found: dict[str, Note] = {}
    asked: set[str] = set()
    while len(found) < count:
        number = dice.randrange(len(_SHAPES))
        path, value, themes, question = _SHAPES[number]
        filled = {name: dice.choice(choices) for name, choices in _SLOTS.items()}
        filled["city2"] = dice.choice([city for city in _SLOTS["city"] if city != filled["city"]])
        names = {name: text.lower().replace(" ", "-").replace("'", "") for name, text in filled.items()}
        place, wanted = path.format(**names), question.format(**filled)
        if wanted not in asked:
            asked.add(wanted)
            place += "" if place not in found else f"-{len(found)}"
            found[place] = Note(place, value.format(**filled), themes, wanted, bool(number % 2))
    return list(found.values())
