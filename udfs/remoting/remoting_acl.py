"""A request's fields and a key pair in, the fields with their signature out; and a file's text in, the key pair out.

Source: AclClientRPCHook, AclUtils#combineRequestContent, AclSigner (4.4.0 to 5.5.0): HMAC-SHA1 over the values of all
fields in the order of their names, in base64.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
from collections.abc import Mapping
from dataclasses import dataclass, field

_NAMES = {"accessKey": "access_key", "secretKey": "secret_key", "securityToken": "security_token"}


class CredentialsError(ValueError):
    """Raised for credentials that cannot be used; the message repeats none of them."""


@dataclass(frozen=True)
class Credentials:
    """A key pair, and a token where one belongs to it; its ``repr`` shows the access key alone."""

    access_key: str
    secret_key: str = field(repr=False)
    security_token: str | None = field(default=None, repr=False)

    def hidden_in(self, text: str) -> str:
        """A text of a server's without the secret key and the token, should it repeat them."""
        # The longer one first: it may hold the other.
        for secret in sorted((self.secret_key, self.security_token or ""), key=len, reverse=True):
            text = text.replace(secret, "***") if secret else text
        return text


def signed_fields(fields: Mapping[str, str], credentials: Credentials) -> dict[str, str]:
    """The fields of a request without a body, with ``AccessKey``, ``SecurityToken`` if there is one, ``Signature``."""
    told = {**fields, "AccessKey": credentials.access_key}
    if credentials.security_token:
        told["SecurityToken"] = credentials.security_token
    text = "".join(told[name] for name in sorted(told))
    digest = hmac.new(credentials.secret_key.encode(), text.encode(), hashlib.sha1).digest()
    return {**told, "Signature": base64.b64encode(digest).decode()}


def read_credentials(text: str) -> Credentials:
    """Credentials from lines ``accessKey: ...``, ``secretKey: ...`` and perhaps ``securityToken: ...``.

    That is what rocketmq-tools' own ``conf/tools.yml`` holds; ``=`` in place of the colon and quotes are taken too.
    Raises: CredentialsError: a line of another name, or no key pair.
    """
    found: dict[str, str] = {}
    for number, line in enumerate(text.splitlines(), start=1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        at = min((at for at in (line.find(":"), line.find("=")) if at >= 0), default=0)
        name = line[:at].strip()
        if name not in _NAMES:
            raise CredentialsError(f"line {number} is none of {', '.join(_NAMES)}.")
        found[_NAMES[name]] = line[at + 1 :].strip().strip("\"'")
    return credentials_of(**found)


def credentials_of(
    access_key: str | None = None, secret_key: str | None = None, security_token: str | None = None
) -> Credentials:
    """The credentials of these words; raises CredentialsError where the access key or the secret key is missing."""
    if not access_key or not secret_key:
        raise CredentialsError(f"there is no {'access key' if secret_key else 'secret key'}.")
    return Credentials(access_key, secret_key, security_token or None)
