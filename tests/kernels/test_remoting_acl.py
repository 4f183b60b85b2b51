"""Signatures versus those of AclClientRPCHook (4.9.4 and 5.3.3 give the same), and key pairs from files."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hindsight.udfs.remoting.remoting_frames import (
    Credentials,
    CredentialsError,
    credentials_of,
    read_credentials,
    signed_fields,
)

VECTORS = Path(__file__).parent.parent / "golden" / "remoting" / "acl_signatures.jsonl"
SECRETS = st.text(
    st.characters(codec="utf-8", exclude_characters="\"'\r\n\x0b\x0c\x1c\x1d\x1e\x85\u2028\u2029 \t\xa0"), min_size=1
)


def vectors():
    return [json.loads(line) for line in VECTORS.read_text(encoding="utf-8").splitlines()]


@pytest.mark.parametrize("vector", vectors(), ids=lambda v: v["signed"]["Signature"])
def test_a_request_is_signed_as_the_client_signs_it(vector):
    credentials = Credentials(vector["access_key"], vector["secret_key"], vector["security_token"])
    assert signed_fields(vector["fields"], credentials) == vector["signed"]


def test_the_vectors_tell_of_tokens_and_of_requests_without_fields():
    assert {bool(v["security_token"]) for v in vectors()} == {True, False}
    assert {} in [v["fields"] for v in vectors()]


@pytest.mark.parametrize(
    "text",
    [
        "accessKey: K\nsecretKey: hush\n",
        "# of mqadmin\n\naccessKey = K\nsecretKey = hush",
        "accessKey: \"K\"\r\nsecretKey: 'hush'\r\nsecurityToken:\r\n",
    ],
)
def test_a_file_names_a_key_pair(text):
    assert read_credentials(text) == Credentials("K", "hush")


def test_a_secret_may_hold_colons_and_equal_signs():
    assert read_credentials("accessKey:K\nsecretKey: a=b:c==\nsecurityToken: t=:").secret_key == "a=b:c=="


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("accessKey: K", "there is no secret key."),
        ("secretKey: hush", "there is no access key."),
        ("accessKey: K\nhush-271828", "line 2 is none of accessKey, secretKey, securityToken."),
        ("accessKey: K\nsecretKeys: hush-271828", "line 2 is none of accessKey, secretKey, securityToken."),
    ],
)
def test_an_unusable_file_is_refused_without_its_contents(text, said):
    with pytest.raises(CredentialsError) as caught:
        read_credentials(text)
    assert str(caught.value) == said
    assert "hush" not in str(caught.value)


@given(SECRETS, SECRETS)
def test_no_secret_is_shown(secret, token):
    credentials = credentials_of("the key", secret, token)
    assert repr(credentials) == "Credentials(access_key='the key')"
    hidden = credentials.hidden_in(f"<{secret}> and <{token}>")
    assert hidden == "<***> and <***>" or secret in "<***> and" or token in "<***> and"
