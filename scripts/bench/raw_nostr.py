"""The floor of cryptography: sign, verify, seal and open with coincurve and cryptography, and nothing else.

Written for speed and for trusted bytes, without any check that is not a part of the work. Never use this module for
anything but a comparison.
"""

from __future__ import annotations

import binascii
import hashlib
import hmac
import secrets
import struct
from typing import Any

import orjson
from coincurve import PrivateKey, PublicKey, PublicKeyXOnly
from coincurve._libsecp256k1 import ffi, lib
from coincurve.context import GLOBAL_CONTEXT
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDFExpand


_HASH = SHA256()


class RawKey:
    """One key that signs, and seals to itself.

    Args:
        secret: 32 bytes.
    """

    def __init__(self, secret: bytes) -> None:
        self._keypair: Any = ffi.new("secp256k1_keypair *")
        lib.secp256k1_keypair_create(GLOBAL_CONTEXT.ctx, self._keypair, secret)
        public = PrivateKey(secret).public_key_xonly.format()
        self.public_key: str = public.hex()
        self._verifier = PublicKeyXOnly(public)
        point = PublicKey(b"\x02" + public).multiply(secret).format()
        self._conversation = hmac.digest(b"nip44-v2", point[1:33], "sha256")

    def event(self, created_at: int, slot: str, content: str) -> tuple[bytes, bytes]:
        """A signed event of kind 30078: its id and its canonical JSON."""
        tags = [["d", slot]]
        digest = hashlib.sha256(orjson.dumps([0, self.public_key, created_at, 30078, tags, content])).digest()
        signature = ffi.new("unsigned char[64]")
        lib.secp256k1_schnorrsig_sign32(
            GLOBAL_CONTEXT.ctx, signature, digest, self._keypair, secrets.token_bytes(32)
        )
        event = {
            "id": digest.hex(),
            "pubkey": self.public_key,
            "created_at": created_at,
            "kind": 30078,
            "tags": tags,
            "content": content,
            "sig": bytes(ffi.buffer(signature)).hex(),
        }
        return digest, orjson.dumps(event)

    def is_good(self, event: dict[str, Any]) -> bool:
        """Whether a parsed event has its id and signature."""
        fields = [0, event["pubkey"], event["created_at"], event["kind"], event["tags"], event["content"]]
        digest = hashlib.sha256(orjson.dumps(fields)).digest()
        return digest.hex() == event["id"] and bool(
            self._verifier.verify(bytes.fromhex(event["sig"]), digest)
        )

    def seal(self, plaintext: bytes) -> str:
        """NIP-44 version 2."""
        nonce, length = secrets.token_bytes(32), len(plaintext)
        cipher, mac_key = self._cipher(nonce)
        sealed = cipher.encryptor().update(
            struct.pack(">H", length) + plaintext.ljust(_padded(length), b"\0")
        )
        mac = hmac.digest(mac_key, nonce + sealed, "sha256")
        return binascii.b2a_base64(b"\x02" + nonce + sealed + mac, newline=False).decode()

    def open(self, payload: str) -> bytes:
        """The plaintext of a payload whose MAC is right."""
        data = binascii.a2b_base64(payload)
        cipher, mac_key = self._cipher(data[1:33])
        if not hmac.compare_digest(hmac.digest(mac_key, data[1:-32], "sha256"), data[-32:]):
            raise ValueError("the MAC is wrong")
        padded = cipher.encryptor().update(data[33:-32])
        return padded[2 : 2 + int.from_bytes(padded[:2], "big")]

    def _cipher(self, nonce: bytes) -> tuple[Cipher[None], bytes]:
        stream = HKDFExpand(_HASH, 76, nonce).derive(self._conversation)
        return Cipher(algorithms.ChaCha20(stream[:32], bytes(4) + stream[32:44]), mode=None), stream[44:]


def _padded(length: int) -> int:
    power = 1 << (length - 1).bit_length()
    chunk = 32 if power <= 256 else power // 8
    return chunk * ((length - 1) // chunk + 1)
