"""Private identifiers in a text: phone numbers, addresses, numbers of documents, passwords and codes. Pure."""

from __future__ import annotations

import re
from typing import Final


# How keys of well-known services begin.
ACCESS_KEY: Final = r"\b(?:(?:sk|pk|ghp|gho|glpat|xox[a-z])[-_]|AKIA|AIza)[-\w]{12,}"
_IDENTIFIER: Final = re.compile(
    r"(?:\+|\b00|\b0)\d[\d /().-]{5,}\d"  # a number to call
    r"|\b(?:\d[ -]?){9,}\d\b"  # a card, an account, an identity number
    r"|\b\d{3}-\d{2}-\d{4}\b|\b[A-Z]{2}\d{2}(?: ?[A-Z\d]{4}){3,}"
    rf"|[\w.+-]@[\w-]+\.\w|\bnsec1\w+|{ACCESS_KEY}",
    re.IGNORECASE,
)
_OF_A_PERSON: Final = re.compile(
    r"\b(?:phone|telephone|mobile|cell|passport|account|social security|insurance|id|card|licen[cs]e|tax|customer|booking|alarm|door|gate"
    r"|safe|access|pin|telefon|handy|konto|ausweis|téléphone|teléfono|móvil)[ -]?(?:number|no|nr|code|id|nummer)\b"
    r"|\b(?:password|passphrase|passcode|pin|passwort|kennwort|mot de passe|contraseña)\b[^.]{0,40}\b(?:is|ist|est|es)\b"
    r"|\b(?:birthday|born on|date of birth|geburtstag|geboren am)\b"
    r"|\b\d{1,5}[a-z]?,? (?:\w+ ){0,2}(?:street|road|lane|avenue|drive|square)\b|\b\w*(?:straße|strasse|gasse|weg|platz) \d+",
    re.IGNORECASE,
)
_SECRET: Final = re.compile(
    r"\b(?:password|passphrase|passcode|pin|iban|ssn|secret key|private key|api key|passwort|kennwort|mot de passe|contraseña)\b",
    re.IGNORECASE,
)
_DIGIT: Final = re.compile(r"\d")


def has_identifier(text: str) -> bool:
    """Whether a text has a phone number, a mail address, a long number as of an account or a document, or a key."""
    return bool(_IDENTIFIER.search(text))


def is_private(text: str) -> bool:
    """Whether a text has such an identifier, or speaks of a password, a code, a birthday or a street address.

    >>> is_private("Call 0664 5550143."), is_private("The gate code is 4711."), is_private("The port is 7777.")
    (True, True, False)
    """
    return has_identifier(text) or bool(_OF_A_PERSON.search(text)) or any(map(_has_secret, text.split("\n")))


def _has_secret(line: str) -> bool:
    """Whether a line has a digit after the word for a secret; in linear time, as one pattern for both would not be."""
    first = _SECRET.search(line)
    return first is not None and _DIGIT.search(line, first.end()) is not None
